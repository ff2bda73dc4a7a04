// Ops that choose among rows: how many they choose shows when they have run.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// non_max_suppression(boxes, order, scores, most, overlap, least): greedy, for each batch and class from the best box
/// on; a box is taken unless its intersection over union with one that was taken is above `overlap`. boxes: f32(B, S, 4);
/// order: i64(B, C, S), positions of boxes from the best score down; scores: f32(B, C, S) in that order, of which those
/// above `least` count; most: i64(1), the most boxes of a batch and class; overlap, least: f32(1). Results: i64(B*C*S, 3)
/// with the batch, class and box of each that is taken, as many rows as i64(1) says. ONNX's NonMaxSuppression.
struct NmsAttrs : AttrsOf<NmsAttrs> {
  bool centred = false;  ///< boxes are centre x, centre y, width, height; else y, x of two corners
  void fields(AttrVisitor& visit) override { visit("centred", centred); }
};

namespace op {
inline constexpr Op<NmsAttrs> non_max_suppression{"non_max_suppression"};
/// row_order(rows): (N, M) -> i64(N), the rows' positions in lexicographic order, NaN after every number; of
/// equal ones, as NaN and NaN are, the lower comes first. Each row is compared with all.
inline constexpr Op<NoAttrs> row_order{"row_order"};
/// row_groups(rows, order): equal rows, NaN beside NaN too, are one group; groups are numbered in that order.
/// Results, all i64: the first row of each group (N), how many rows it has (N), the group of each row (N),
/// and how many groups there are (1).
inline constexpr Op<NoAttrs> row_groups{"row_groups"};
}  // namespace op

}  // namespace gantry
