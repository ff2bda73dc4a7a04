// Runs the loop nests of one op, for CPUs or GPUs, through the checking evaluator of loop IR.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "host/graph/graph.h"
#include "host/loops/stmt.h"

namespace gantry::testing {

enum class NestKind { kCpu, kGpu };

/// Results of the op on these inputs (null where an optional one is absent). Races between threads are
/// errors.
std::vector<ConstantPtr> run_nests(std::string_view op, std::shared_ptr<Attrs> attrs,
                                   const std::vector<ConstantPtr>& inputs, NestKind kind);
template <typename T>
ConstantPtr constant_of(DType dtype, const Shape& shape, const std::vector<T>& values) {
  return make_constant({dtype, shape}, values.data());
}
template <typename T>
std::vector<T> values_of(const ConstantPtr& constant) {
  return {constant->as<T>(), constant->as<T>() + constant->size / sizeof(T)};
}

}  // namespace gantry::testing
