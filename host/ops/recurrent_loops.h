// The loop nests of recurrences.
#pragma once

#include <vector>

#include "host/loops/stmt.h"
#include "host/ops/recurrent.h"

namespace gantry {

/// Everything the nest depends on. Sequences of a batch are independent: the outermost loop is parallel over
/// them. A step's gates are vector-by-matrix products with the recurrent weight, computed in strips of a few
/// vectors whose sums stay in registers while the loop over hidden units broadcasts the state.
struct RecurrenceLoops {
  enum class Kind : uint8_t { kLstm, kGru, kRnn } kind = Kind::kLstm;
  RecurrenceAttrs attrs;
  int64_t hidden = 0;
  Expr steps, batch;
  std::vector<int> input_at;  ///< buffer of each declared input, -1 where absent

  void build(LoopBuilder& builder) const;
  /// The same for a GPU: a serial loop over the steps around their launches.
  void build_launches(LoopBuilder& builder) const;
};

}  // namespace gantry
