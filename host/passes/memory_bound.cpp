#include "host/passes/memory_bound.h"

namespace gantry {
namespace {

bool is_at_least(const Dim& a, const Dim& b) {
  const auto difference = (a - b).lower_bound();
  return difference && *difference >= 0;
}

}  // namespace

Dim memory_bound(const std::vector<Lifetime<Dim>>& lifetimes) {
  std::vector<Dim> largest;  // none of which is known to be no larger than another
  for (const LiveSum<Dim>& sum : sums_alive(lifetimes)) {
    const bool covered =
        std::ranges::any_of(largest, [&](const Dim& other) { return is_at_least(other, sum.bytes); });
    if (covered) continue;
    std::erase_if(largest, [&](const Dim& other) { return is_at_least(sum.bytes, other); });
    largest.push_back(sum.bytes);
  }
  Dim bound = 0;
  for (const Dim& sum : largest) bound = bound == Dim(0) ? sum : max(bound, sum);
  return bound;
}

Dim aligned_bytes(const Dim& bytes) {
  return ceildiv(bytes, kMemoryAlignment) * kMemoryAlignment;
}

}  // namespace gantry
