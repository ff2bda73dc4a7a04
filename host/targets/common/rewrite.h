// Rewrites of tensor-expression graphs before they are scheduled.
#pragma once

#include <map>
#include <vector>

#include "host/tensor/tensor.h"

namespace gantry {

/// `outputs` with every read of result 0 of a key replaced by a read of its value, which has the same rank (its
/// extents may be larger). What does not depend on a key stays the same operation.
std::vector<Tensor> replace_tensors(const std::vector<Tensor>& outputs,
                                    const std::map<const OperationNode*, Tensor>& replacements);

}  // namespace gantry
