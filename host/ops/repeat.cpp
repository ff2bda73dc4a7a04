#include "host/ops/repeat.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "host/graph/dim_broadcast.h"
#include "host/ops/support.h"

namespace gantry::ops {
namespace {

using Dims = std::vector<Dim>;

bool is_among(const Dim& dim, const Dims& all) {
  return std::ranges::find(all, dim) != all.end();
}

std::string with_reason(const Node& node, const std::string& why) {
  return fmt::format("{} ({})", origin_of(node), why);
}

/// That the two are equal or one is 1: with l the smaller and h the larger, (l - 1) * (max(h, 1) - max(l, 1))
/// is 0. Of one constraint for both, messages say which sizes of each would do.
DimConstraint fit_together(const Dim& a, const Dim& b, const Node& node) {
  const Dim low = min(a, b), high = max(a, b);
  const std::string why = fmt::format("{} and {} must be equal, or one of them 1", a.str(), b.str());
  return {(low - 1) * (max(high, 1) - max(low, 1)), 0, with_reason(node, why)};
}

void add_constraint(Function& function, const DimConstraint& needed) {
  const auto says_so = [&](const DimConstraint& c) {
    return c.left == needed.left && c.right == needed.right;
  };
  if (std::ranges::none_of(function.constraints, says_so)) function.constraints.push_back(needed);
}

}  // namespace

std::shared_ptr<BroadcastToAttrs> broadcast_attrs(const Shape& own, Shape result) {
  auto attrs = std::make_shared<BroadcastToAttrs>();
  for (size_t i = 1; i <= std::min(own.size(), result.size()); ++i) {
    if (may_be_repeated(own[own.size() - i], result[result.size() - i]))
      attrs->open.insert(attrs->open.begin(), static_cast<int64_t>(own.size() - i));
  }
  attrs->shape = std::move(result);
  return attrs;
}

bool is_open(const BroadcastToAttrs& attrs, size_t axis) {
  return std::ranges::find(attrs.open, static_cast<int64_t>(axis)) != attrs.open.end();
}

namespace {

/// An open axis that is not known to be 1 or to have the result's extent.
bool is_repeated_by_size(const Shape& own, const BroadcastToAttrs& attrs, size_t axis) {
  const Dim& result = attrs.shape[attrs.shape.size() - own.size() + axis];
  return is_open(attrs, axis) && !(own[axis] == Dim(1)) && !(own[axis] == result);
}

}  // namespace

bool repeats_by_size(const Shape& own, const BroadcastToAttrs& attrs) {
  for (size_t d = 0; d < own.size(); ++d) {
    if (is_repeated_by_size(own, attrs, d)) return true;
  }
  return false;
}

void require_repeatable(const Dim& own, const Dim& result, Function& function, const Node& node) {
  if (own == Dim(1) || own == result) return;
  if (own.is_constant()) {
    unify(own, result, function, node, "data and the shape to broadcast to");
    return;
  }
  const Dims ours = operands_or_itself(own), all = operands_or_itself(result);
  const bool is_part = std::ranges::all_of(ours, [&](const Dim& dim) { return is_among(dim, all); });
  if (!is_part) {
    const std::string why = fmt::format("{} must be 1 or {}", own.str(), result.str());
    return add_constraint(function, {(own - 1) * (result - own), 0, with_reason(node, why)});
  }
  for (const Dim& other : all) {
    if (is_among(other, ours)) continue;
    for (const Dim& dim : ours) add_constraint(function, fit_together(dim, other, node));
  }
}

Expr repeated_read(const Tensor& t, const std::vector<Expr>& index, const Shape& own,
                   const BroadcastToAttrs& attrs) {
  const size_t skip = index.size() - own.size();
  std::vector<Expr> straight, repeated;
  Expr is_whole;
  for (size_t d = 0; d < own.size(); ++d) {
    straight.push_back(own[d] == Dim(1) ? Expr(0) : index[skip + d]);
    repeated.push_back(straight.back());
    if (!is_repeated_by_size(own, attrs, d)) continue;
    const Expr extent = t.shape()[d];
    repeated.back() = min(index[skip + d], extent - 1);
    // An inequality, which lowering takes out of loops: no axis is longer than the result's.
    const Expr here = le(Expr(attrs.shape[skip + d]), extent);
    is_whole = is_whole ? is_whole && here : here;
  }
  return is_whole ? if_then_else(is_whole, t(straight), t(repeated)) : t(straight);
}

}  // namespace gantry::ops
