// The bodies of a model's functions, as the nodes that call them have them.
#pragma once

#include <onnx/onnx_pb.h>

#include <deque>
#include <memory>

namespace gantry {

/// What tensors that are read without a copy lie in.
struct FunctionBodies {
  explicit FunctionBodies(std::shared_ptr<const onnx::ModelProto> of) : model(std::move(of)) {}
  std::shared_ptr<const onnx::ModelProto> model;
  std::deque<onnx::GraphProto> instances;
};

}  // namespace gantry
