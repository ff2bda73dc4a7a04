// One operator on two tensors of f32, as scales and biases fold into weights. Private to the interpreter.
#pragma once

#include "host/tensor/interpret_copy.h"

namespace gantry::interpreter {

/// Computes an operation whose body is one sum, difference, product or quotient of elements of two f32 tensors, read
/// along rows or once a row (broadcast): at about the speed of memory, and to the same bits as in f64 and rounded, which
/// for one operator are those of f32 (Figueroa, "When is double rounding innocuous?", 1995). False, with nothing
/// written, where the operation is something else.
bool combine_elements(const OperationNode& op, const Arrays& arrays, const std::vector<int64_t>& shape,
                      std::byte* out, int threads);

}  // namespace gantry::interpreter
