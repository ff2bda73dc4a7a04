// Integer tensors whose elements are known as dimensions while a model is imported: how shapes are computed
// in ONNX models, by small integer arithmetic, becomes symbolic dimensions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// Elements of an integer or bool tensor, row by row.
struct Contents {
  Shape dims;
  std::vector<int64_t> shape;  ///< of the tensor: as many elements as there are dims
  DType dtype = DType::kI64;

  static Contents vector(Shape dims, DType dtype = DType::kI64);
  static Contents scalar(Dim dim, DType dtype = DType::kI64);
  bool is_scalar() const { return shape.empty(); }
  /// The tensor's.
  TensorType type() const { return {dtype, Shape(shape.begin(), shape.end())}; }
};

/// The elements of a constant as dimensions, if it is a vector or scalar of i64, i32 or bool and has no more
/// of them than kLongestContents (contents_rules.h).
std::optional<Contents> contents_of(const ConstantData& constant);
/// The constant that holds them; null unless every dimension is constant.
ConstantPtr constant_of(const Contents& contents);

class NodeImport;
/// Evaluates the node on known contents: true if all its results became known. False: convert it as data.
bool evaluate_contents(NodeImport& node);

}  // namespace gantry
