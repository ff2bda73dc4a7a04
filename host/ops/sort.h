// topk: the k largest or smallest elements along an axis, with their positions.
#pragma once

#include <optional>

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"
#include "host/loops/stmt.h"

namespace gantry {

/// topk(data): values and i64 positions (at most k along the axis), best first. Of equal elements the one
/// with the lower position comes first. NaN counts as greater than every number, +0 and -0 as equal.
struct TopKAttrs : AttrsOf<TopKAttrs> {
  int64_t axis = 0;
  Dim k = 1;
  bool largest = true;
  void fields(AttrVisitor& visit) override {
    visit("axis", axis);
    visit("k", k);
    visit("largest", largest);
  }
};

/// The loop nests of topk: `rows` = outer * inner rows of `extent` elements, `inner` elements apart.
struct TopKLoops {
  bool largest = true;
  DType dtype = DType::kF32;
  Expr outer = 1, inner = 1, extent, k;
  std::optional<int64_t> k_limit;  ///< k is no larger, where that is known

  /// Heaps, a row each, rows in parallel.
  void build(LoopBuilder& b) const;
  /// Sorting networks in shared memory. False if neither the extent nor a small limit of k is known: then
  /// there is no nest for GPUs.
  bool has_launches() const;
  void build_launches(LoopBuilder& b) const;

  // --- shared by both
  Expr rows() const { return outer * inner; }
  /// Where position t of a row stands in a tensor of `count` elements along the axis.
  Expr place(const Expr& row, const Expr& t, const Expr& count) const {
    return (floordiv(row, inner) * count + t) * inner + mod(row, inner);
  }
  /// Whether element (a, at position i) comes before (b, at position j).
  Expr before(const Expr& a, const Expr& i, const Expr& b, const Expr& j) const;
};

namespace op {
inline constexpr Op<TopKAttrs> topk{"topk"};
}  // namespace op

}  // namespace gantry
