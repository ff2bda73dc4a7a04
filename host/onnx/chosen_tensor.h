// One of several tensors, which data choose.
#pragma once

#include <vector>

#include "host/onnx/term.h"

namespace gantry {

/// Tensors of one shape along a new axis; one at least.
Term stacked(const std::vector<Term>& tensors, int64_t axis);

/// The tensor of that number (i64, one element; what is outside is brought to the nearest there is). All have
/// one element type and rank: else unsupported. Where their shapes differ, the result's dimensions are known
/// when the model runs.
Term chosen_tensor(NodeImport& n, const std::vector<Term>& tensors, const Term& number);

}  // namespace gantry
