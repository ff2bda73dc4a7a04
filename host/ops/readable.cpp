#include "host/ops/readable.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "host/graph/dim_at_least.h"
#include "host/ops/support.h"

namespace gantry::ops {
namespace {

bool is_never_negative(const Dim& dim) {
  const auto low = dim.lower_bound();
  return low && *low >= 0;
}

/// Whether `needed` holds for all sizes for which `known` does.
bool implies(const DimAtLeast& known, const DimAtLeast& needed) {
  return is_never_negative((needed.dim - needed.least) - (known.dim - known.least));
}

/// Statements that together say that the dimension is at least 1.
std::vector<DimAtLeast> at_least_one(const Dim& dim) {
  std::vector<DimAtLeast> all;
  for (const Dim& size : sizes_multiplied(dim)) {
    for (DimAtLeast& each : simplest_at_least(size, 1)) all.push_back(std::move(each));
  }
  return all;
}

/// Whether the function does not run for sizes for which `needed` does not hold, as require_at_least() says
/// so.
bool is_said(const Function& function, const DimAtLeast& needed) {
  return std::ranges::any_of(function.constraints, [&](const DimConstraint& c) {
    const auto least = c.right.constant();
    return least && *least >= needed.least && c.left == min(needed.dim, *least);
  });
}

}  // namespace

void require_readable(const Dim& extent, const Shape& readers, Function& function, const Node& node,
                      const std::string& what) {
  Dim any = 1;                    // 0 where there is none
  std::vector<DimAtLeast> known;  // where there is one
  for (const Dim& dim : readers) {
    const Dim one = min(dim, 1);
    if (one == Dim(0) || is_never_negative(extent - one)) return;
    if (one == Dim(1)) continue;
    any = any * dim;
    for (DimAtLeast& each : at_least_one(dim)) known.push_back(std::move(each));
  }
  const auto holds = [&](const DimAtLeast& needed) {
    return std::ranges::any_of(known, [&](const DimAtLeast& each) { return implies(each, needed); }) ||
           is_said(function, needed);
  };
  if (std::ranges::all_of(at_least_one(extent), holds)) return;
  require_at_least(extent - min(any, 1), 0, function, node, what);
}

}  // namespace gantry::ops
