// Runs the loop nests of one op through the checking evaluator of loop IR: those for CPUs, and those for GPUs as
// loops over blocks and threads.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "host/graph/graph.h"
#include "host/loops/stmt.h"

namespace gantry::testing {

enum class NestOrder {
  kCpu,
  kGpu,
  kGpuReversed,  ///< blocks and threads from the last to the first: a race shows as another result
};

/// Results of the op on these inputs (null where an optional one is absent).
std::vector<ConstantPtr> run_nests(std::string_view op, std::shared_ptr<Attrs> attrs,
                                   const std::vector<ConstantPtr>& inputs, NestOrder order);
/// Whether the op has a nest for GPUs with these inputs.
bool has_gpu_nests(std::string_view op, std::shared_ptr<Attrs> attrs, const std::vector<ConstantPtr>& inputs);

template <typename T>
ConstantPtr constant_of(DType dtype, const Shape& shape, const std::vector<T>& values) {
  return make_constant({dtype, shape}, values.data());
}
template <typename T>
std::vector<T> values_of(const ConstantPtr& constant) {
  return {constant->as<T>(), constant->as<T>() + constant->size / sizeof(T)};
}

}  // namespace gantry::testing
