/// The parent's end of leases: questions of sessions to the queue, and its grants back.
#ifndef GANTRY_RPC_SERVER_LEASE_DESK_H
#define GANTRY_RPC_SERVER_LEASE_DESK_H

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "rpc/server/lease_messages.h"
#include "rpc/server/lease_queue.h"

namespace gantry::rpc {

class LeaseDesk {
 public:
  using Time = LeaseQueue::Time;
  using SessionId = LeaseQueue::SessionId;
  /// Sends a session a message.
  using Send = std::function<void(SessionId, std::span<const std::byte>)>;
  /// Reports what became of a session's lease.
  using Report = std::function<void(SessionId, const std::string&)>;

  /// `urgent_keys`: identities of those that may ask for the highest priority; on a board without keys
  /// anybody may.
  LeaseDesk(const LeaseTerms& terms, std::vector<std::string> urgent_keys, Send send, Report report);

  /// `who`: the session's key and address; `sessions`: that there are of this key. False: no session of ours
  /// asks so.
  bool answer(SessionId session, const LeaseParty& who, std::size_t sessions, const LeaseQuestion& question,
              Time now);
  void leave(SessionId session, Time now);
  void advance(Time now);
  std::optional<Time> next_change(Time now) const { return queue_.next_change(now); }
  std::vector<SessionId> overdue(Time now) const { return queue_.overdue(now); }

 private:
  void answer_with(SessionId session, LeaseVerdict verdict, LeaseQueue::Token token = 0,
                   LeaseQueue::Duration waited = {});
  void take(SessionId session, const LeaseParty& who, const LeaseQuestion& question, Time now);
  void list(SessionId session, std::size_t sessions, Time now);
  void tell();

  LeaseTerms terms_;
  std::vector<std::string> urgent_keys_;
  LeaseQueue queue_;
  Send send_;
  Report report_;
};

}  // namespace gantry::rpc
#endif
