// Tensors of graphs and of machines, one as the other.
#pragma once

#include "host/cli/tensor_text.h"
#include "host/graph/graph.h"

namespace gantry::cli {

/// A copy of the constant's bytes.
HostTensor to_host_tensor(const ConstantData& constant);
/// A copy of the tensor's bytes. Unsupported where graphs have no such element type.
ConstantPtr to_constant(const HostTensor& tensor);

}  // namespace gantry::cli
