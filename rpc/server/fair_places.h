/// Who makes room for whom among peers that have not authenticated yet.
#ifndef GANTRY_RPC_SERVER_FAIR_PLACES_H
#define GANTRY_RPC_SERVER_FAIR_PLACES_H

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "rpc/server/source_address.h"

namespace gantry::rpc {

struct PlaceLimits {
  std::size_t places = 0;          ///< of all addresses together
  std::size_t of_one_address = 0;  ///< however many are free
};

/// The one to go so that another from `newcomer` has a place.
struct FirstToGo {
  std::size_t index = 0;
  bool holds_more = false;  ///< its address has more than the newcomer's will have
};

/// Which of `holders` (oldest first) has to go for one more from `newcomer`: nobody while there is room, its
/// own oldest one where its address has its share already, else the oldest one of the address that holds the
/// most.
std::optional<FirstToGo> first_to_go(const std::vector<SourceAddress>& holders, const SourceAddress& newcomer,
                                     const PlaceLimits& limits);

/// The oldest one of the address that holds the most of `holders`, which are not empty.
std::size_t oldest_of_the_most(const std::vector<SourceAddress>& holders);

/// The processes that shake hands. Each costs a fork, so who has got one keeps its place for a turn, even
/// where its process ends sooner, unless its peer authenticates: however many peers come and go, forks for
/// strangers have a rate. Before its turn is over a place is lost only to an address that will still hold
/// fewer, after it to whoever waits.
class HandshakePlaces {
 public:
  using Clock = std::chrono::steady_clock;

  HandshakePlaces(PlaceLimits limits, Clock::duration turn) : limits_(limits), turn_(turn) {}

  /// Whether one more from `source` may start. The value is the process that has lost its place to it and is
  /// to be killed; 0: none.
  std::optional<pid_t> make_room(const SourceAddress& source, Clock::time_point now);
  void enter(const SourceAddress& source, pid_t process, Clock::time_point now);
  /// The process's peer has authenticated: its place is free.
  void authenticated(pid_t process);
  /// The process has ended. Its place is free once its turn is over.
  void ended(pid_t process);
  /// Frees the places that are kept for a turn's sake alone.
  void free_unused(Clock::time_point now);

  std::size_t held_by(const SourceAddress& source) const;
  /// When the next turn ends after `now`: what could not start may start then.
  std::optional<Clock::time_point> next_turn(Clock::time_point now) const;

 private:
  struct Place {
    SourceAddress source;
    pid_t process;  ///< 0: it has ended
    Clock::time_point turn_ends;
  };
  PlaceLimits limits_;
  Clock::duration turn_;
  std::vector<Place> places_;  // oldest first
};

}  // namespace gantry::rpc
#endif
