// What lives at once, of things that are needed for some steps of a program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace gantry {

/// Memory that is needed from step `first` to step `last`, both included.
template <typename Size>
struct Lifetime {
  size_t first = 0, last = 0;
  Size bytes{};

  bool meets(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

/// The sum of what lives at a step.
template <typename Size>
struct LiveSum {
  size_t step = 0;
  Size bytes{};
};

/// One of these is the largest sum of all steps, whatever the sizes (>= 0) are: those of the steps that no
/// other step's living includes, in order. Empty where nothing lives.
template <typename Size>
std::vector<LiveSum<Size>> sums_alive(const std::vector<Lifetime<Size>>& lifetimes) {
  size_t steps = 0;
  for (const auto& lifetime : lifetimes) steps = std::max(steps, lifetime.last + 1);
  std::vector<std::vector<const Lifetime<Size>*>> born(steps), gone(steps);
  for (const auto& lifetime : lifetimes) {
    born[lifetime.first].push_back(&lifetime);
    gone[lifetime.last].push_back(&lifetime);
  }
  std::vector<LiveSum<Size>> sums;
  Size alive{};
  bool grew = false;
  for (size_t step = 0; step < steps; ++step) {
    for (const auto* lifetime : born[step]) alive = alive + lifetime->bytes;
    grew = grew || !born[step].empty();
    if (gone[step].empty()) continue;  // the next step has all of these, too
    if (grew) sums.push_back({step, alive});
    grew = false;
    for (const auto* lifetime : gone[step]) alive = alive - lifetime->bytes;
  }
  return sums;
}

}  // namespace gantry
