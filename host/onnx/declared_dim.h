// What a model's declarations say of the dimensions of its inputs and outputs.
//
// Exporters write "unknown" in many ways: no value and no name, the names "", "?", "None", "-1" and their
// like, negative values, and 0. All of these say nothing, each dimension for itself: two that are written
// alike are not equal for that. A 0 says nothing since no model is made for empty tensors alone; what really
// is empty (an initialiser, the result of a node, a tensor given when the model runs) shows that by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "host/graph/dim.h"

namespace onnx {
class TensorShapeProto;
class TensorShapeProto_Dimension;
}  // namespace onnx

namespace gantry {

/// The size that is fixed, at least 1; nothing where it is open.
std::optional<int64_t> declared_size(const onnx::TensorShapeProto_Dimension& dim);
/// The name that makes open dimensions equal; empty where it has none, or a placeholder for one.
std::string declared_name(const onnx::TensorShapeProto_Dimension& dim);
/// False where the ranks differ, or a dimension's fixed size is provably another.
bool may_be(const onnx::TensorShapeProto& declared, const Shape& shape);
/// As a person writes it: "(N, 3, ?)".
std::string shape_text(const onnx::TensorShapeProto& declared);

}  // namespace gantry
