// What converters do with strings.
#pragma once

#include <string>
#include <vector>

#include "host/onnx/node_import.h"

namespace gantry {

/// A vector of strings.
Value* text_constant(NodeImport& n, const std::vector<std::string>& texts);
/// Numbers as strings, as NumPy prints those of their element type.
Value* number_as_text(NodeImport& n, Value* x);
/// The numbers that strings say: f32 or f64, i64, u64 or bool, whichever holds all values of `to`.
Value* text_as_number(NodeImport& n, Value* x, DType to);

}  // namespace gantry
