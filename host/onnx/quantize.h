// What converters of quantised ops share. A quantised tensor x stands for (x - zero_point) * scale.
#pragma once

#include "host/onnx/node_import.h"

namespace gantry {

/// A scale or zero point so that it broadcasts against data of `shape`: one value for all; a vector, one for each
/// index of `axis`; or, where `block` is positive, a tensor of the data's rank with one for each `block` elements
/// along it. Null stays null.
Value* along_axis(NodeImport& n, Value* parameter, const Shape& shape, int64_t axis, int64_t block = 0);

/// A cast as ONNX's Cast rounds by default: to a float of 8 bits what is too large becomes the largest number.
Value* saturating_cast(NodeImport& n, Value* x, DType to);

/// x - zero_point (may be null), exactly: integers of up to 16 bits in i32, floats of 8 bits in f32.
Value* less_zero_point(NodeImport& n, Value* x, Value* zero_point);

/// (x - zero_point) * scale in f32.
Value* dequantize(NodeImport& n, Value* x, Value* scale, Value* zero_point);

/// round(x) + zero_point (may be null) as an integer of type `to`, ties to even, limited to its range.
Value* quantize_integer(NodeImport& n, Value* x, Value* zero_point, DType to);

/// x / scale as quantize_integer() rounds it; x and scale in f32.
Value* requantize(NodeImport& n, Value* x, Value* scale, Value* zero_point, DType to);

/// The zero point, of u8, that DynamicQuantizeLinear chooses for x, and its scale.
Value* dynamic_zero_point(NodeImport& n, Value* x, Value*& scale);

/// The dtype of a zero point, or `otherwise` where there is none.
DType quantized_dtype(const Value* zero_point, DType otherwise);

}  // namespace gantry
