// The bodies of a model's functions, as the nodes that call them have them.
#pragma once

#include <onnx/onnx_pb.h>

#include <deque>
#include <memory>

namespace gantry {

/// What tensors that are read without a copy lie in: constants hold it as their owner.
struct FunctionBodies {
  explicit FunctionBodies(std::shared_ptr<const onnx::ModelProto> of) : model(std::move(of)) {}
  std::shared_ptr<const onnx::ModelProto> model;
  std::deque<onnx::GraphProto> instances;  ///< one a call, with the call's attributes; none moves
};

}  // namespace gantry
