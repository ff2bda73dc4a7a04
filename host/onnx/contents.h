// Integer tensors whose elements are known as dimensions while a model is imported: how shapes are computed
// in ONNX models, by small integer arithmetic, becomes symbolic dimensions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// Elements of an integer or bool tensor of rank 0 or 1.
struct Contents {
  Shape dims;
  bool scalar = false;  ///< rank 0: one element
  DType dtype = DType::kI64;
};

/// The elements of a constant as dimensions, if it is a short integer vector or scalar.
std::optional<Contents> contents_of(const ConstantData& constant);
/// The constant that holds them; null unless every dimension is constant.
ConstantPtr constant_of(const Contents& contents);

class NodeImport;
/// Evaluates the node on known contents: true if all its results became known. False: convert it as data.
bool evaluate_contents(NodeImport& node);

}  // namespace gantry
