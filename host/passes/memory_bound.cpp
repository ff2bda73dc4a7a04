#include "host/passes/memory_bound.h"

namespace gantry {
namespace {

bool is_at_least(const Dim& a, const Dim& b) {
  const auto difference = (a - b).lower_bound();
  return difference && *difference >= 0;
}

}  // namespace

Dim largest_of(const std::vector<Dim>& dims) {
  std::vector<Dim> largest;  // none of which is known to be no larger than another
  for (const Dim& dim : dims) {
    if (std::ranges::any_of(largest, [&](const Dim& other) { return is_at_least(other, dim); })) continue;
    std::erase_if(largest, [&](const Dim& other) { return is_at_least(dim, other); });
    largest.push_back(dim);
  }
  Dim result = 0;
  for (const Dim& dim : largest) result = result == Dim(0) ? dim : max(result, dim);
  return result;
}

Dim memory_bound(const std::vector<Lifetime<Dim>>& lifetimes) {
  std::vector<Dim> sums;
  for (const LiveSum<Dim>& sum : sums_alive(lifetimes)) sums.push_back(sum.bytes);
  return largest_of(sums);
}

Dim aligned_bytes(const Dim& bytes) {
  return ceildiv(bytes, kMemoryAlignment) * kMemoryAlignment;
}

}  // namespace gantry
