// Sparse tensors of ONNX -> dense constants.
#pragma once

#include <string>

#include "host/graph/graph.h"

namespace onnx {
class SparseTensorProto;
}

namespace gantry {

class TensorReader;

/// The tensor with 0 where it stores nothing. Its positions are one number each, counted through all
/// elements, or one for each dimension; they ascend. User errors call the tensor `what`; Unsupported where it
/// is of strings, or too large to be dense.
ConstantPtr dense_tensor(TensorReader& reader, const onnx::SparseTensorProto& tensor,
                         const std::string& what);

}  // namespace gantry
