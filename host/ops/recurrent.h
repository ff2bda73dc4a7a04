// Attributes of recurrences. The importer computes all steps' input projections as one matrix product; these
// ops do the steps that depend on each other.
//
// Inputs, with D directions (2: bidirectional), S steps, B sequences and H units; of a direction d and a gate
// g, the projection has columns [(d*G + g)*H, (d*G + g + 1)*H), the recurrent weight [g*H, (g+1)*H):
//   nn.lstm_recurrence: projection (S, B, D*4H) in gate order i o f c, biases added; recurrent (D, H, 4H);
//     initial_h, initial_c (D, B, H); optional lengths (B) i32; optional peepholes (D, 3H): i o f. Results Y
//     (S, D, B, H), Y_h, Y_c (D, B, H)
//   nn.gru_recurrence: projection (S, B, D*3H) in order z r h; recurrent (D, H, 3H); initial_h; optional
//     lengths; optional bias of the recurrent h gate (D, H), for linear_before_reset. Results Y, Y_h
//   nn.rnn_recurrence: projection (S, B, D*H); recurrent (D, H, H); initial_h; optional lengths. Results Y,
//     Y_h
// Steps beyond a sequence's length leave its state alone and yield 0.
//
// With `weight_block` b the recurrent weight (D, H, C) is packed as (D, C/b, H, b): each step reads it from
// one end to the other. b is a multiple of kRecurrentLanes and divides the columns that are computed together
// (recurrent_columns()).
#pragma once

#include <string_view>

#include "host/graph/attrs.h"
#include "host/graph/type.h"

namespace gantry {

/// Columns that loops over a step's gates take at once.
constexpr int64_t kRecurrentLanes = 16;

struct RecurrenceAttrs : AttrsOf<RecurrenceAttrs> {
  /// From the last step of each sequence to its first; of two directions the second one does so anyway.
  bool reverse = false;
  bool linear_before_reset = false;  ///< GRU: reset after the product
  bool couple_gates = false;         ///< LSTM: f = 1 - i
  bool relu = false;                 ///< RNN: relu instead of tanh
  int64_t weight_block = 0;          ///< of the packed recurrent weight; 0: it is as the model has it
  void fields(AttrVisitor& visit) override {
    visit("reverse", reverse);
    visit("linear_before_reset", linear_before_reset);
    visit("couple_gates", couple_gates);
    visit("relu", relu);
    visit("weight_block", weight_block);
  }
};

/// H of a recurrence with that recurrent weight.
const Dim& recurrent_units(const RecurrenceAttrs& attrs, const TensorType& weight);
/// Columns of the recurrent weight that every product of a step with it takes a multiple of; 0: `op` is no
/// recurrence.
int64_t recurrent_columns(std::string_view op, int64_t units);

}  // namespace gantry
