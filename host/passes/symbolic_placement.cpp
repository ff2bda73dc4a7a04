#include "host/passes/symbolic_placement.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>

#include "host/graph/shape_guess.h"
#include "host/passes/memory_bound.h"
#include "host/passes/memory_placement.h"

namespace gantry {
namespace {

using Lifetimes = std::vector<Lifetime<Dim>>;

// What every symbol may be: the sizes that plans are compared at. The first orders values that share places.
constexpr std::array<int64_t, 5> kSizes = {guess::value(guess::Extent::kSymbol), 1, 16, 256, 1024};

// Steps of an offset's expression: the offsets of a network with 60 kernels have some 2,000 together (28 KiB of the
// module), which are evaluated in some 10 us. Both limits are below those of modules (device_runtime/src/module_format.h).
constexpr size_t kMostSteps = 1024, kMostDepth = 48;

int64_t at(const Dim& bytes, int64_t size) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max() / 1024;  // sums do not overflow
  return std::clamp<int64_t>(guess::total(bytes, size, kLargest), 0, kLargest);
}

std::vector<Lifetime<int64_t>> at(const Lifetimes& lifetimes, int64_t size) {
  std::vector<Lifetime<int64_t>> known;
  for (const auto& one : lifetimes) known.push_back({one.first, one.last, at(one.bytes, size)});
  return known;
}

bool is_short(const Dim& dim) {
  size_t steps = 0, depth = 0, deepest = 0;
  dim.visit_postfix([&](Dim::Opcode opcode, int64_t, const std::string&) {
    ++steps;
    if (opcode != Dim::Opcode::kConstant && opcode != Dim::Opcode::kSymbol) return void(--depth);
    deepest = std::max(deepest, ++depth);
  });
  return steps <= kMostSteps && deepest <= kMostDepth;
}

// --- shared places

/// Memory that values use one after another.
struct Place {
  std::vector<size_t> values;
  Dim bytes;
};

// How badly a place fits: 0 for one of the very size, then by the bytes that are wasted.
int64_t misfit(const Dim& place, const Dim& bytes) {
  return place == bytes ? 0 : 1 + std::abs(at(place, kSizes[0]) - at(bytes, kSizes[0]));
}

SymbolicPlacement share_places(const Lifetimes& lifetimes) {
  const auto known = at(lifetimes, kSizes[0]);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return known[a].bytes != known[b].bytes ? known[a].bytes > known[b].bytes : known[a].first < known[b].first;
  });
  std::vector<Place> places;
  for (const size_t i : order) {
    Place* best = nullptr;
    int64_t best_misfit = 0;
    for (Place& place : places) {
      if (std::ranges::any_of(place.values, [&](size_t other) { return lifetimes[i].meets(lifetimes[other]); })) continue;
      const int64_t fit = misfit(place.bytes, lifetimes[i].bytes);
      if (best != nullptr && fit >= best_misfit) continue;
      best = &place;
      best_misfit = fit;
    }
    if (best == nullptr) best = &places.emplace_back();
    best->values.push_back(i);
    best->bytes = max(best->bytes, lifetimes[i].bytes);
  }
  SymbolicPlacement placement{std::vector<Dim>(lifetimes.size()), 0};
  for (const Place& place : places) {
    for (const size_t i : place.values) placement.offsets[i] = placement.bytes;
    placement.bytes = placement.bytes + place.bytes;
  }
  return placement;
}

// --- in the order of a plan for known sizes

/// Of values in the order in which they lie above each other, those that bear another one: no third lies between.
class Stack {
 public:
  Stack(const Lifetimes& lifetimes, const std::vector<int64_t>& offsets) : lifetimes_(lifetimes), order_(offsets.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::stable_sort(order_, [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
  }

  /// Nothing where an expression would be too long.
  std::optional<SymbolicPlacement> placement() const {
    SymbolicPlacement result{std::vector<Dim>(lifetimes_.size()), 0};
    std::vector<Dim> ends(lifetimes_.size());
    for (size_t above = 0; above < order_.size(); ++above) {
      const size_t i = order_[above];
      result.offsets[i] = largest_of(ends_of(bearers(above, i), ends));
      ends[i] = result.offsets[i] + lifetimes_[i].bytes;
      if (!is_short(ends[i])) return std::nullopt;
    }
    result.bytes = largest_of(ends_of(uppermost(), ends));
    if (!is_short(result.bytes)) return std::nullopt;
    return result;
  }

 private:
  /// Of those below place `above` of the order that meet value `i`, the ones on which no other of these lies.
  std::vector<size_t> bearers(size_t above, size_t i) const {
    std::vector<size_t> found;
    for (size_t below = above; below-- > 0;) {
      const size_t j = order_[below];
      if (lifetimes_[i].meets(lifetimes_[j]) && !lies_below_any(j, found)) found.push_back(j);
    }
    return found;
  }
  std::vector<size_t> uppermost() const {
    std::vector<size_t> found;
    for (size_t place = order_.size(); place-- > 0;) {
      if (!lies_below_any(order_[place], found)) found.push_back(order_[place]);
    }
    return found;
  }
  /// `higher` come later in the order.
  bool lies_below_any(size_t j, const std::vector<size_t>& higher) const {
    return std::ranges::any_of(higher, [&](size_t k) { return lifetimes_[k].meets(lifetimes_[j]); });
  }
  static std::vector<Dim> ends_of(const std::vector<size_t>& values, const std::vector<Dim>& ends) {
    std::vector<Dim> chosen;
    for (const size_t i : values) chosen.push_back(ends[i]);
    return chosen;
  }

  const Lifetimes& lifetimes_;
  std::vector<size_t> order_;  ///< of values, the lowest first
};

// --- which one

/// The mean over the sizes of what the plan takes, in what lives at once.
double mean_ratio(const SymbolicPlacement& placement, const Lifetimes& lifetimes) {
  double sum = 0;
  for (const int64_t size : kSizes) {
    int64_t bound = 1;
    for (const auto& sum : sums_alive(at(lifetimes, size))) bound = std::max(bound, sum.bytes);
    sum += static_cast<double>(at(placement.bytes, size)) / static_cast<double>(bound);
  }
  return sum / static_cast<double>(kSizes.size());
}

}  // namespace

SymbolicPlacement place_symbolic(const std::vector<Lifetime<Dim>>& lifetimes) {
  Lifetimes aligned = lifetimes;
  for (auto& one : aligned) one.bytes = aligned_bytes(one.bytes);
  SymbolicPlacement best = share_places(aligned);
  double best_ratio = mean_ratio(best, aligned);
  for (const int64_t size : kSizes) {
    if (best_ratio <= 1) break;
    const auto placement = Stack(aligned, place_lifetimes(at(aligned, size)).offsets).placement();
    if (!placement) continue;
    const double ratio = mean_ratio(*placement, aligned);
    if (ratio >= best_ratio) continue;
    best = *placement;
    best_ratio = ratio;
  }
  return best;
}

}  // namespace gantry
