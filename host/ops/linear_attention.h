// nn.linear_attention: a recurrence over steps whose state is a matrix (rows of keys' features, columns of
// values').
//
// Of every sequence b and head of keys h, with a state S (D, E), at each step t:
//   S = exp(decay) * S                      where it decays
//   v' = value, or beta * (value - S^T key) where it corrects
//   S = S + key v'^T
//   result = scale * S^T query              for every head of queries that shares the head of keys
// (Yang et al., "Gated Delta Networks: Improving Mamba2 with Delta Rule", 2024, for the rule with all of it.)
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// Inputs, f32: query (B, T, H, D), key (B, T, G, D), value (B, T, G, E), initial state (B, G, D, E); decay
/// (B, T, G, D) or (B, T, G, 1); beta (B, T, G) or (B, T, 1). Results: (B, T, H, E), and the last state.
struct LinearAttentionAttrs : AttrsOf<LinearAttentionAttrs> {
  double scale = 1;
  bool decays = false, corrects = false;  ///< which of the last two inputs there are
  void fields(AttrVisitor& visit) override {
    visit("scale", scale);
    visit("decays", decays);
    visit("corrects", corrects);
  }
};

namespace nn {
inline constexpr Op<LinearAttentionAttrs> linear_attention{"nn.linear_attention"};
}  // namespace nn

}  // namespace gantry
