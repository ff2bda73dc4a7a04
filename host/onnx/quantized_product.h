// The product of quantised matrices, for the converters that have one in them.
#pragma once

#include "host/onnx/node_import.h"

namespace gantry {

/// (data - zero_point) * scale; zero_point may be null. Scale and zero point: one value, or a vector of one for each
/// row of a left and each column of a right operand.
struct Quantized {
  Value *data, *scale, *zero_point;
};

/// The matrix product in f32, of sums that are exact in i32.
Value* scaled_product(NodeImport& n, const Quantized& a, const Quantized& b);

}  // namespace gantry
