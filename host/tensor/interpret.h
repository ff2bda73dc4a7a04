// Evaluates tensor expressions on constants: constant folding, and an independent reference for lowering.
#pragma once

#include <map>
#include <vector>

#include "host/graph/graph.h"
#include "host/tensor/tensor.h"

namespace gantry {

/// Values of `outputs` given data for the placeholders they depend on. Works on blocks of elements along the
/// innermost axis (about a nanosecond an element and operator), on `threads` threads; f32 sums accumulate in
/// f64. Every extent must be constant. Extern operations are not evaluated: returns an empty list if one is
/// met.
std::vector<ConstantPtr> interpret(const std::vector<Tensor>& outputs,
                                   const std::map<const OperationNode*, ConstantPtr>& inputs,
                                   int threads = 2);

}  // namespace gantry
