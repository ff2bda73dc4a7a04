// Runs the GPU schedule of a single op.
#pragma once

#include <functional>

#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "tests/targets/cuda/run_gpu_schedule.h"

namespace gantry::test {

template <typename AttrsType>
std::shared_ptr<AttrsType> attrs_of(const std::function<void(AttrsType&)>& set) {
  auto made = std::make_shared<AttrsType>();
  set(*made);
  return made;
}

/// The op over f32 inputs of these shapes, compared with the interpreter.
inline GpuRun run_op(std::string_view op, std::shared_ptr<Attrs> attrs,
                     const std::vector<std::vector<int64_t>>& shapes, double tolerance = 1e-5,
                     const Target& target = gpu_target()) {
  Function function("main");
  std::vector<Value*> values;
  std::vector<Tensor> inputs;
  for (const auto& shape : shapes) {
    std::string name = "x" + std::to_string(values.size());
    values.push_back(function.add_parameter(name, {DType::kF32, {shape.begin(), shape.end()}}));
    inputs.push_back(placeholder({shape.begin(), shape.end()}, DType::kF32, name));
  }
  Node* node = infer_and_add(function, *op_set().find(op), std::move(attrs), values, {});
  return expect_same_as_interpreter(op_def(*node).compute(*node, inputs), inputs, target, tolerance);
}

}  // namespace gantry::test
