// Matrix products, for the converters of all ops that have one.
#pragma once

#include "host/onnx/node_import.h"

namespace gantry {

/// As MatMul has it, vectors included, in the operands' dtype; of matrices that are transposed first (their last two
/// axes; vectors stay) where that is asked for. A matrix of floats on the right whose value is known is a dense
/// layer's weight, which is packed.
Value* matrix_product(NodeImport& n, Value* a, Value* b, bool transpose_a = false, bool transpose_b = false);

/// What Gemm makes of the node's inputs and its attributes alpha, beta, transA and transB.
Value* general_product(NodeImport& n);

/// What com.microsoft's FusedMatMul makes of them, by alpha, transA, transB, transBatchA and transBatchB.
Value* scaled_matrix_product(NodeImport& n);

}  // namespace gantry
