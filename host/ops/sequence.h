// Ops on batches of sequences of different lengths.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// reverse_sequence(data, lengths): of entry b along axis `batch`, the first lengths[b] elements along axis `time` in
/// the opposite order, and those behind them as they are. One of the axes is 0, the other one 1. A length below 0
/// counts as 0, one above the axis' extent as that. As ONNX's ReverseSequence.
struct ReverseSequenceAttrs : AttrsOf<ReverseSequenceAttrs> {
  int64_t batch = 1;
  int64_t time = 0;
  void fields(AttrVisitor& visit) override {
    visit("batch", batch);
    visit("time", time);
  }
};

namespace op {
inline constexpr Op<ReverseSequenceAttrs> reverse_sequence{"reverse_sequence"};
}  // namespace op

}  // namespace gantry
