// The loop nests of recurrences.
#pragma once

#include <utility>
#include <vector>

#include "host/loops/stmt.h"
#include "host/ops/recurrent.h"

namespace gantry {

/// Everything the nest depends on. Directions and the sequences of a batch are independent, rows of the
/// states and of a step's results: the outermost loop is parallel over groups of rows that meet the weight
/// together. Where there is a single group and the weight is large, the threads share each step's products;
/// so do they where directions are taken in turn (RecurrenceForm::directions_in_turn). A step's gates are
/// products with the recurrent weight, computed in strips of a few vectors a row, whose sums stay in
/// registers while the loop over hidden units broadcasts the states.
struct RecurrenceLoops {
  enum class Kind : uint8_t { kLstm, kGru, kRnn } kind = Kind::kLstm;
  RecurrenceAttrs attrs;
  int64_t hidden = 0, directions = 1;
  std::vector<int64_t> runs;  ///< recurrent_runs()
  Expr steps, batch;
  std::vector<int> input_at;  ///< buffer of each declared input, -1 where absent

  Expr rows() const { return batch * directions; }
  Expr direction_of(const Expr& row) const { return directions == 1 ? Expr(0) : floordiv(row, batch); }
  Expr sequence_of(const Expr& row) const { return directions == 1 ? row : mod(row, batch); }
  /// The position in time that a step of a row works on; reversed rows run backwards within their length.
  Expr time_of(const Expr& row, const Expr& step, const Expr& length) const {
    return time_in(direction_of(row), step, length);
  }
  Expr time_in(const Expr& direction, const Expr& step, const Expr& length) const;
  /// Of (time, the row's sequence, its direction's gates) in the projection.
  Expr projection_row(const Expr& row, const Expr& time, int64_t gates) const {
    return ((time * batch + sequence_of(row)) * directions + direction_of(row)) * (gates * hidden);
  }

  void build(LoopBuilder& builder) const;
  /// The same for a GPU: a serial loop over the steps around their launches.
  void build_launches(LoopBuilder& builder) const;
};

/// What gates are made of, in f32.
namespace recurrence {

inline Expr f32(double value) {
  return float_imm(DType::kF32, value);
}
inline Expr sigmoid(Expr x) {
  return call(MathFn::kSigmoid, {std::move(x)});
}
inline Expr tanh_of(Expr x) {
  return call(MathFn::kTanh, {std::move(x)});
}

}  // namespace recurrence

}  // namespace gantry
