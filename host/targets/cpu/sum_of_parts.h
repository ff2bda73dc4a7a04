// Sums over a long axis as shorter ones.
#pragma once

#include <string>

#include "host/tensor/tensor.h"

namespace gantry::cpu {

/// `op`, a sum over one axis of constant extent, as the sum of `parts` equal parts of it: operations like
/// `op` but shorter, each added to those before by an operation of role kSumSoFar (the last one has none).
Tensor sum_of_parts(const OperationNode& op, int64_t parts);

/// The first step of `op`, a sum, in two: (part, the axes of `op`), each the sum over one of `parts` equal
/// parts of the first reduction axis, whose extent is constant, and over all of the others.
Tensor partial_sums(const OperationNode& op, int64_t parts, const std::string& name, Role role);

}  // namespace gantry::cpu
