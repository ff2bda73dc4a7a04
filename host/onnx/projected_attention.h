// Attention of one input's projections, as com.microsoft's Attention and QAttention have it.
#pragma once

#include <optional>

#include "host/onnx/term.h"

namespace gantry {

struct ProjectedAttention {
  Term projected;  ///< queries, keys and values side by side: (B, L, query + key + value)
  size_t mask, past;                       ///< the node's inputs, which may be absent; past: (2, B, heads, P, size)
  std::optional<Dim> query_size, key_size;  ///< none: a third each
  std::optional<Term> bias;                ///< of the scores
};

/// Sets the node's results, by its attributes num_heads, scale, mask_filter_value and unidirectional: the
/// attention (B, L, value), and keys and values after those of the past (2, B, heads, P + L, size).
/// Unsupported: that they are written into the past (past_present_share_buffer), and do_rotary.
void convert_projected_attention(NodeImport& n, const ProjectedAttention& attention);

}  // namespace gantry
