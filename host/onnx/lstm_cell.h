// The cell of an LSTM as plain ops, for layers that go a step at a time.
#pragma once

#include <functional>
#include <optional>

#include "host/onnx/term.h"

namespace gantry {

/// What a layer's direction has of it.
struct LstmCell {
  int64_t hidden = 0;
  bool coupled = false;                      ///< the forget gate is one minus the input gate
  std::optional<Term> peepholes;             ///< (3 * hidden): i o f
  std::function<Term(const Term&)> f, g, h;  ///< of the gates, the candidate and the cell; with clips
};

struct LstmState {
  Term h, c;  ///< (batch, hidden)
};

/// The state after a step: Hochreiter and Schmidhuber's cell with peepholes. `sums`: of the products with
/// data and state and the biases, (batch, 4 * hidden), gates i o f c. `before`: the cell before the step.
LstmState lstm_cell(const LstmCell& cell, const Term& sums, const Term& before);

}  // namespace gantry
