/// Connections that have no process yet: of peers that have sent nothing, and of those that wait for a place.
#ifndef GANTRY_RPC_SERVER_WAITING_PEERS_H
#define GANTRY_RPC_SERVER_WAITING_PEERS_H

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "rpc/server/fair_places.h"
#include "rpc/server/log.h"
#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

/// Costs a descriptor and these few bytes.
struct WaitingPeer {
  UniqueFd connection;
  SourceAddress source;
  std::chrono::steady_clock::time_point deadline;
  Log log;
  bool has_spoken = false;  ///< its first byte is there: it waits for a place
};

/// Oldest first, which is also the order of their deadlines.
class WaitingPeers {
 public:
  explicit WaitingPeers(PlaceLimits limits) : limits_(limits) {}

  /// Takes one more in; another one may have to go for it.
  void add(WaitingPeer peer);
  /// Closes the connection of one that holds its address's most places, if there is any.
  void drop_one(const char* why);
  /// Closes those whose deadline has passed.
  void expire(std::chrono::steady_clock::time_point now);
  /// The next one that has a place among `places`, which it has to enter. `lost`: the process that has lost
  /// its place to it, 0 for none. Who holds the fewest places comes first, then who waits longest; of one
  /// address the newest, as what a flood has left is older.
  std::optional<WaitingPeer> next(HandshakePlaces& places, std::chrono::steady_clock::time_point now,
                                  pid_t& lost);
  bool any_has_spoken() const;

  std::deque<WaitingPeer>& peers() { return peers_; }
  const std::deque<WaitingPeer>& peers() const { return peers_; }

 private:
  std::vector<SourceAddress> sources() const;
  std::vector<std::size_t> in_turn(const HandshakePlaces& places) const;
  void drop(std::size_t index, const char* why);

  PlaceLimits limits_;
  std::deque<WaitingPeer> peers_;
};

}  // namespace gantry::rpc
#endif
