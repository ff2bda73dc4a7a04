// Data movement, which most folding is: transposed, packed and sliced weights. Private to the interpreter.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "host/tensor/interpret_block.h"
#include "host/tensor/tensor.h"

namespace gantry::interpreter {

/// Results of operations, by operation and number.
using Arrays = std::map<std::pair<const OperationNode*, int>, Array>;

/// Computes an operation that only moves elements of one array, each axis of the result adding its own part
/// to the index: out[i, j, …] = in[f(i) + g(j) + …]. Works on tiles, so that both sides are walked along
/// their rows, at about the speed of memory. False, with nothing written, where the operation is something
/// else or an index is out of bounds.
bool copy_elements(const OperationNode& op, const Arrays& arrays, const std::vector<int64_t>& shape,
                   std::byte* out, int threads);

}  // namespace gantry::interpreter
