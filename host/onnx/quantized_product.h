// The product of quantised matrices, for the converters that have one in them.
#pragma once

#include "host/onnx/node_import.h"

namespace gantry {

/// (data - zero_point) * scale; zero_point may be null. Scale and zero point: one value, or a vector of one for each
/// row of a left and each column of a right operand; the scale may be null where it is not looked at.
struct Quantized {
  Value *data, *scale, *zero_point;
};

/// A parameter of the rows of a matrix, or of its columns, so that it broadcasts against it; null stays null.
Value* of_rows(NodeImport& n, Value* parameter, const Shape& matrix);
Value* of_columns(NodeImport& n, Value* parameter, const Shape& matrix);

/// The matrix product of (data - zero_point), exact in i32; scales are not looked at.
Value* integer_product(NodeImport& n, const Quantized& a, const Quantized& b);

/// The matrix product in f32, of sums that are exact in i32.
Value* scaled_product(NodeImport& n, const Quantized& a, const Quantized& b);

/// x of f32 as DynamicQuantizeLinear makes u8 of it.
Quantized dynamically_quantized(NodeImport& n, Value* x);

}  // namespace gantry
