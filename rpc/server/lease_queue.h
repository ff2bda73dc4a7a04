/// Who measures on a board, and who waits to. Knows neither sockets nor a clock: times are given.
#ifndef GANTRY_RPC_SERVER_LEASE_QUEUE_H
#define GANTRY_RPC_SERVER_LEASE_QUEUE_H

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rpc/protocol/lease_priority.h"

namespace gantry::rpc {

/// Bounds of leases.
struct LeaseTerms {
  using Duration = std::chrono::milliseconds;
  Duration turn{60'000};       ///< after it a holder gives way to others that wait
  Duration give_way{15'000};   ///< beyond the turn, to come to a point at which it likes to
  Duration rest{10'000};       ///< without measuring, where others wait: a holder that hangs, or compiles
  Duration brief_rest{1'000};  ///< of a holder that never asked for a lease and so may have forgotten it
  Duration patience{600'000};  ///< waiting so long counts as a priority more: nobody waits for ever
  Duration longest_measurement{630'000};  ///< whose measurement takes longer hangs
};

/// Whom others wait for.
struct LeaseParty {
  std::string key;      ///< identity of the key that it has shown; "" on a board without keys
  std::string address;  ///< of its machine
  std::string purpose;  ///< its own words
  bool operator==(const LeaseParty&) const = default;
};

/// A lease is held by one ticket at a time: a session that takes one, and those that join it by its token (a
/// command that measures in several processes has a session for each). A session that measures without a
/// ticket has one of its own from then on. The best of those that wait is the one of the highest priority,
/// then the one that came first; a holder that gives way comes last again.
///
/// A lease passes on only where none of its sessions measures. It ends when its session does or releases it;
/// where others wait also when the turn is over (at once where the holder asks again, else after `give_way`),
/// when somebody of higher priority came (likewise), or when the holder rests too long. While nobody waits,
/// who measures has turn after turn. A ticket that lost the lease waits again as soon as one of its sessions
/// wants to measure.
class LeaseQueue {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using Duration = LeaseTerms::Duration;
  using SessionId = std::int64_t;
  using Token = std::uint64_t;  ///< never 0; whoever knows it may measure under the lease

  LeaseQueue(const LeaseTerms& terms, std::function<Token()> make_token)
      : terms_(terms), make_token_(std::move(make_token)) {}

  /// The session wants the lease, or asks again, which gives way where it should. Its answer is a grant, now
  /// or later. False: it has joined another's ticket, and has no answer.
  bool take(SessionId session, const LeaseParty& party, LeasePriority priority, Time now);
  /// The session measures under that ticket. False: there is none (any more).
  bool join(SessionId session, Token token);
  /// The session wants to measure; answered by a grant. `party`: of one that has no ticket yet.
  void begin(SessionId session, const LeaseParty& party, Time now);
  void end(SessionId session, Time now);
  /// Takes back a question that has no answer yet. False: the answer is under way.
  bool cancel(SessionId session, Time now);
  /// The session gives its ticket back; who measures under it just then goes on until the end, itself too.
  /// Nothing where it has none of its own.
  void release(SessionId session, Time now);
  /// The session is gone.
  void leave(SessionId session, Time now);
  /// Passes the lease on where it is time to.
  void advance(Time now);
  /// When advance() may have something to do.
  std::optional<Time> next_change(Time now) const;
  /// Sessions that have measured for too long: whoever can should end them.
  std::vector<SessionId> overdue(Time now) const;

  struct Grant {
    SessionId session = 0;
    Token token = 0;
    Duration waited{0};
  };
  /// Those since the last call.
  std::vector<Grant> take_grants();

  struct Event {
    bool began = false;  ///< else the lease ended
    SessionId owner = 0;
    Duration lasted{0};    ///< waited, or held
    const char* why = "";  ///< it ended
  };
  /// Of leases, since the last call, in order.
  std::vector<Event> take_events();

  struct Place {
    LeaseParty party;
    LeasePriority priority = LeasePriority::kNormal;
    Duration since{0};  ///< it has waited, or held
  };
  struct State {
    std::optional<Place> holder;
    bool measuring = false;
    Duration turn_left{0};           ///< of the holder; negative: it is to give way
    std::vector<Place> waiting;      ///< the next one first
    std::optional<std::size_t> own;  ///< of them, the asking session's
  };
  State state(SessionId asker, Time now) const;

 private:
  struct Waiting {
    SessionId session = 0;
    bool measures = false;  ///< once it is granted
  };
  struct Ticket {
    Token token = 0;
    SessionId owner = 0;
    LeaseParty party;
    LeasePriority priority = LeasePriority::kNormal;
    bool brief = false;   ///< of a session that never asked for one
    bool closed = false;  ///< ends once nobody measures
    std::optional<Time> waits_since;
    std::uint64_t arrival = 0;
    Time held_since, turn_ends, rests_since;
    std::map<SessionId, Time> measuring;  ///< since
    std::vector<Waiting> waiting;
  };

  Ticket* ticket_of(SessionId session);
  Ticket& make_ticket(SessionId owner, const LeaseParty& party, LeasePriority priority, bool brief);
  Ticket* holder();
  const Ticket* holder() const;
  int level(const Ticket& ticket, Time now) const;
  bool comes_before(const Ticket& a, const Ticket& b, Time now) const;
  const Ticket* first_waiting(Time now) const;
  std::optional<Time> turn_over_since(const Ticket& holder, Time now) const;
  std::optional<Time> taken_away_at(const Ticket& holder, Time now) const;
  void wait(Ticket& ticket, Waiting waiting, Time now);
  void hold(Ticket& ticket, Time now);
  void lose(const char* why, Time now);
  void close(Ticket& ticket, const char* why, Time now);
  bool stop_measuring(SessionId session, Time now);
  void erase(Token token, Time now);

  LeaseTerms terms_;
  std::function<Token()> make_token_;
  std::map<Token, Ticket> tickets_;
  std::map<SessionId, Token> membership_;
  Token holder_ = 0;
  std::uint64_t arrivals_ = 0;
  std::vector<Grant> grants_;
  std::vector<Event> events_;
};

}  // namespace gantry::rpc
#endif
