// Attributes of nn.attention: softmax(scale * Q K^T + biases) V for every batch index, without the score
// matrix ever being in memory.
//
// Operands are read where they lie: each names, in elements, where its first element is (offset) and by how
// much it moves along every batch axis and along its rows (back, where that is negative); features are
// contiguous. So heads need no copies of the projected tensors, and the queries, keys and values of one
// combined projection may be one tensor.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// Of a query or a value, at most: blocks of more would not fit on the stack.
inline constexpr int64_t kMostAttentionFeatures = 256;

/// How loops are cut for a target's vectors.
struct AttentionForm {
  int64_t lanes = 16;      ///< f32 elements of a vector: 1, 2, 4, 8 or 16
  int64_t registers = 32;  ///< vector registers, at least 8
};

/// Inputs: query, key, value; up to two biases (f32), applied to the scaled scores one after the other:
/// added, or put in their place where they are less than infinity (masks that choose between scores and a
/// constant).
struct AttentionAttrs : AttrsOf<AttentionAttrs> {
  Shape batch;                      ///< extents of the batch axes (heads among them)
  Dim queries, keys;                ///< rows; at least one key
  int64_t depth = 0;                ///< features of a query and a key, up to kMostAttentionFeatures
  int64_t width = 0;                ///< features of a value, up to the same
  double scale = 1;                 ///< of the scores, before the biases
  Shape query, key, value, result;  ///< offset, a stride a batch axis, the stride of rows
  Shape bias, bias2;  ///< offset, a stride a batch axis, of queries, of keys (0: broadcast); empty: none
  bool bias_chooses = false, bias2_chooses = false;
  Shape shape;  ///< of the result
  AttentionForm form;
  void fields(AttrVisitor& visit) override {
    visit("batch", batch);
    visit("queries", queries);
    visit("keys", keys);
    visit("depth", depth);
    visit("width", width);
    visit("scale", scale);
    visit.signed_numbers("query", query);
    visit.signed_numbers("key", key);
    visit.signed_numbers("value", value);
    visit("result", result);
    visit.signed_numbers("bias", bias);
    visit.signed_numbers("bias2", bias2);
    visit("bias_chooses", bias_chooses);
    visit("bias2_chooses", bias2_chooses);
    visit("shape", shape);
    visit.choices([&] {
      visit("lanes", form.lanes);
      visit("registers", form.registers);
    });
  }
};

namespace nn {
inline constexpr Op<AttentionAttrs> attention{"nn.attention"};
}  // namespace nn

}  // namespace gantry
