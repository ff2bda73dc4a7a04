// Sums over a long axis as chains of shorter ones.
#pragma once

#include <string>

#include "host/tensor/tensor.h"

namespace gantry::cpu {

/// `op`, a sum over one axis of constant extent, as the sum of `parts` equal parts of it: operations like
/// `op` but shorter, each added to those before by an operation tagged `partial` (the last one has no tag).
Tensor sum_of_parts(const OperationNode& op, int64_t parts, const std::string& partial);

}  // namespace gantry::cpu
