#include "host/graph/dim_at_least.h"

#include <limits>

#include "host/graph/dim_node.h"

namespace gantry {

std::vector<DimAtLeast> simplest_at_least(const Dim& dim, int64_t least) {
  const auto low = dim.lower_bound();
  if (low && *low >= least) return {};
  const Terms& terms = DimNode::terms_of(dim);
  // The constant is the last term, if there is one.
  if (!terms.empty() && terms.size() > 1 && terms.back().factors.empty()) {
    const int64_t constant = terms.back().coefficient;
    return simplest_at_least(dim - Dim(constant), checked_add(least, checked_mul(constant, -1)));
  }
  if (terms.size() != 1 || terms[0].factors.size() != 1 || terms[0].coefficient <= 0) return {{dim, least}};
  const int64_t coefficient = terms[0].coefficient;
  const DimAtom& atom = *terms[0].factors[0];
  if (coefficient > 1) {
    const Dim one = DimNode::wrap({DimTerm{1, terms[0].factors}});
    return simplest_at_least(one, checked_mul(floordiv_int(checked_mul(least, -1), coefficient), -1));
  }
  if (atom.kind == AtomKind::kFloorDiv) {
    const auto divisor = atom.b.constant();
    if (divisor && *divisor > 0) return simplest_at_least(atom.a, checked_mul(least, *divisor));
  }
  if (atom.kind == AtomKind::kMin) {
    std::vector<DimAtLeast> both = simplest_at_least(atom.a, least);
    for (DimAtLeast& more : simplest_at_least(atom.b, least)) both.push_back(std::move(more));
    return both;
  }
  return {{dim, least}};
}

std::vector<Dim> sizes_multiplied(const Dim& dim) {
  const Terms& terms = DimNode::terms_of(dim);
  if (terms.size() != 1 || terms[0].factors.size() < 2 || terms[0].coefficient <= 0) return {dim};
  std::vector<Dim> sizes;
  for (const AtomPtr& factor : terms[0].factors) {
    sizes.push_back(DimNode::wrap({DimTerm{1, {factor}}}));
    if (sizes.back().lower_bound().value_or(-1) < 0) return {dim};
  }
  return sizes;
}

std::optional<int64_t> least_difference(const Dim& a, const Dim& b) {
  if (!are_far_apart(a, b)) return (a - b).lower_bound();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  const int64_t low = bounds_of(a).low.value_or(kLeast), high = bounds_of(b).high.value_or(kMost);
  int64_t difference;
  if (__builtin_sub_overflow(low, high, &difference)) return low < high ? kLeast : kMost;
  return difference;
}

}  // namespace gantry
