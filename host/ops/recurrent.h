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
// With `weight_block` b, a multiple of kRecurrentLanes, the recurrent weight (D, H, C) is packed as (D, H P):
// each step reads it from one end to the other, every second one from its end to its beginning where
// threads do not share it and products do not depend on each other. The columns of every run that is one
// product (recurrent_runs()) are padded with zeros to a multiple of kRecurrentLanes, P of all runs together,
// and cut into strips of b, the last of what is left; a strip lies as (H, its columns).
#pragma once

#include <vector>

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"
#include "host/graph/graph.h"

namespace gantry {

/// Columns that loops over a step's gates take at once.
constexpr int64_t kRecurrentLanes = 16;

/// How its steps are computed, and how the recurrent weight lies for that.
struct RecurrenceForm {
  int64_t weight_block = 0;  ///< of the packed recurrent weight; 0: it is as the model has it
  int64_t sequences = 1;     ///< of a direction that meet a packed weight together
  /// Of two directions: one after the other, each shared by two threads, in whose caches it has room, instead
  /// of each on a thread of its own, in whose cache it has none.
  bool directions_in_turn = false;
};

struct RecurrenceAttrs : AttrsOf<RecurrenceAttrs> {
  /// From the last step of each sequence to its first; of two directions the second one does so anyway.
  bool reverse = false;
  bool linear_before_reset = false;  ///< GRU: reset after the product
  bool couple_gates = false;         ///< LSTM: f = 1 - i
  bool relu = false;                 ///< RNN: relu instead of tanh
  RecurrenceForm form;

  void fields(AttrVisitor& visit) override {
    visit("reverse", reverse);
    visit("linear_before_reset", linear_before_reset);
    visit("couple_gates", couple_gates);
    visit("relu", relu);
    visit.choices([&] {
      visit("weight_block", form.weight_block);
      visit("sequences", form.sequences);
      visit("directions_in_turn", form.directions_in_turn);
    });
  }
};

/// Columns of the recurrent weight that each product of a step takes, in order; none: the node is no recurrence.
std::vector<int64_t> recurrent_runs(const Node& node, int64_t units);
/// Of a run as it is packed.
int64_t padded_run(int64_t columns);
/// The f32 weight (D, H, C) in strips of `block`.
ConstantPtr packed_recurrent_weight(const ConstantData& weight, const std::vector<int64_t>& runs,
                                    int64_t block);

namespace nn {
inline constexpr Op<RecurrenceAttrs> lstm_recurrence{"nn.lstm_recurrence"};
inline constexpr Op<RecurrenceAttrs> gru_recurrence{"nn.gru_recurrence"};
inline constexpr Op<RecurrenceAttrs> rnn_recurrence{"nn.rnn_recurrence"};
}  // namespace nn

}  // namespace gantry
