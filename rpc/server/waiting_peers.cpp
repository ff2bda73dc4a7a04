#include "rpc/server/waiting_peers.h"

#include <algorithm>
#include <map>

namespace gantry::rpc {

using Clock = std::chrono::steady_clock;

std::vector<SourceAddress> WaitingPeers::sources() const {
  std::vector<SourceAddress> sources;
  sources.reserve(peers_.size());
  for (const WaitingPeer& peer : peers_) sources.push_back(peer.source);
  return sources;
}

void WaitingPeers::drop(std::size_t index, const char* why) {
  const auto peer = peers_.begin() + static_cast<std::ptrdiff_t>(index);
  peer->log.info(std::string("connection closed: ") + why);
  peers_.erase(peer);
}

void WaitingPeers::add(WaitingPeer peer) {
  if (const auto leaves = first_to_go(sources(), peer.source, limits_))
    drop(leaves->index, peers_[leaves->index].source == peer.source
                            ? "too many others have connected from its address"
                            : "too many others have connected");
  peers_.push_back(std::move(peer));
}

void WaitingPeers::drop_one(const char* why) {
  if (!peers_.empty()) drop(oldest_of_the_most(sources()), why);
}

void WaitingPeers::expire(Clock::time_point now) {
  while (!peers_.empty() && peers_.front().deadline <= now)
    drop(0, peers_.front().has_spoken ? "too many others authenticate" : "it has sent nothing");
}

bool WaitingPeers::any_has_spoken() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const WaitingPeer& peer) { return peer.has_spoken; });
}

/// The newest that has spoken of each address, the address with the fewest places first.
std::vector<std::size_t> WaitingPeers::in_turn(const HandshakePlaces& places) const {
  struct Turn {
    std::size_t held, first, newest;
  };
  std::map<SourceAddress, Turn> turns;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i].has_spoken) continue;
    const auto [turn, is_first] = turns.try_emplace(peers_[i].source, Turn{0, i, i});
    if (is_first) turn->second.held = places.held_by(peers_[i].source);
    turn->second.newest = i;
  }
  std::vector<Turn> sorted;
  for (const auto& [source, turn] : turns) sorted.push_back(turn);
  std::sort(sorted.begin(), sorted.end(), [](const Turn& a, const Turn& b) {
    return std::pair(a.held, a.first) < std::pair(b.held, b.first);
  });
  std::vector<std::size_t> order;
  for (const Turn& turn : sorted) order.push_back(turn.newest);
  return order;
}

std::optional<WaitingPeer> WaitingPeers::next(HandshakePlaces& places, Clock::time_point now, pid_t& lost) {
  for (const std::size_t index : in_turn(places)) {
    const auto room = places.make_room(peers_[index].source, now);
    if (!room) continue;
    lost = *room;
    WaitingPeer peer = std::move(peers_[index]);
    peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(index));
    return peer;
  }
  return std::nullopt;
}

}  // namespace gantry::rpc
