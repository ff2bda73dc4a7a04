#include "rpc/server/fair_places.h"

#include <algorithm>
#include <map>

namespace gantry::rpc {
namespace {

struct Count {
  std::size_t oldest = 0, places = 0;
};

/// Of the address with the most places; of several, of the one that has been there longest.
Count most_places(const std::vector<SourceAddress>& holders) {
  std::map<SourceAddress, Count> counts;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    Count& count = counts.try_emplace(holders[i], Count{i, 0}).first->second;
    ++count.places;
  }
  Count most;
  for (const auto& [source, count] : counts) {
    const bool older = count.places == most.places && count.oldest < most.oldest;
    if (count.places > most.places || older) most = count;
  }
  return most;
}

}  // namespace

std::size_t oldest_of_the_most(const std::vector<SourceAddress>& holders) {
  return most_places(holders).oldest;
}

std::optional<FirstToGo> first_to_go(const std::vector<SourceAddress>& holders, const SourceAddress& newcomer,
                                     const PlaceLimits& limits) {
  const auto own = static_cast<std::size_t>(std::count(holders.begin(), holders.end(), newcomer));
  if (own > 0 && own >= limits.of_one_address) {
    const auto oldest = std::find(holders.begin(), holders.end(), newcomer);
    return FirstToGo{static_cast<std::size_t>(oldest - holders.begin()), false};
  }
  if (holders.size() < limits.places || holders.empty()) return std::nullopt;
  const Count most = most_places(holders);
  return FirstToGo{most.oldest, most.places > own + 1};
}

std::optional<pid_t> HandshakePlaces::make_room(const SourceAddress& source, Clock::time_point now) {
  std::vector<SourceAddress> holders;
  for (const Place& place : places_) holders.push_back(place.source);
  const auto leaves = first_to_go(holders, source, limits_);
  if (!leaves) return 0;
  const auto place = places_.begin() + static_cast<std::ptrdiff_t>(leaves->index);
  if (!leaves->holds_more && place->turn_ends > now) return std::nullopt;
  const pid_t process = place->process;
  places_.erase(place);
  return process;
}

void HandshakePlaces::enter(const SourceAddress& source, pid_t process, Clock::time_point now) {
  places_.push_back({source, process, now + turn_});
}

void HandshakePlaces::authenticated(pid_t process) {
  std::erase_if(places_, [&](const Place& place) { return place.process == process; });
}

void HandshakePlaces::ended(pid_t process) {
  for (Place& place : places_)
    if (place.process == process) place.process = 0;
}

void HandshakePlaces::free_unused(Clock::time_point now) {
  std::erase_if(places_, [&](const Place& place) { return place.process == 0 && place.turn_ends <= now; });
}

std::size_t HandshakePlaces::held_by(const SourceAddress& source) const {
  return static_cast<std::size_t>(std::count_if(places_.begin(), places_.end(),
                                                [&](const Place& place) { return place.source == source; }));
}

std::optional<HandshakePlaces::Clock::time_point> HandshakePlaces::next_turn(Clock::time_point now) const {
  std::optional<Clock::time_point> next;
  for (const Place& place : places_)
    if (place.turn_ends > now && (!next || place.turn_ends < *next)) next = place.turn_ends;
  return next;
}

}  // namespace gantry::rpc
