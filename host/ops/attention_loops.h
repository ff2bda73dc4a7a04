// The loop nest of nn.attention.
#pragma once

#include <vector>

#include "host/loops/stmt.h"
#include "host/ops/attention.h"

namespace gantry {

/// Where an operand's elements are: offset + sum of batch index * stride + row * row stride.
struct AttentionOperand {
  Expr offset;
  std::vector<Expr> batch;  ///< strides
  Expr row;
  Expr column;           ///< biases: the stride of keys
  bool chooses = false;  ///< biases: put in the scores' place where they are less than infinity, not added
};

/// Everything the nest depends on. A task is a block of queries of one batch index. Its queries lie
/// transposed in a local buffer, so that the scores of a key for all of them are a few vectors: softmax then
/// needs no sums across lanes. Keys pass in blocks; where there are several, maximum, sum and result are
/// corrected from block to block (M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax",
/// 2018; T. Dao et al., "FlashAttention", 2022).
struct AttentionLoops {
  std::vector<Expr> batch;
  Expr queries, keys;
  int64_t depth = 0, width = 0;
  double scale = 1;
  AttentionOperand query, key, value, result;
  std::vector<AttentionOperand> biases;
  int64_t lanes = 16, registers = 32;

  void build(LoopBuilder& builder) const;
};

}  // namespace gantry
