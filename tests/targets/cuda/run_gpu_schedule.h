// Schedules tensor expressions for a GPU, runs the kernel on the reference executor, and compares it with the
// interpreter of tensor expressions.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "host/codegen/find_target.h"
#include "host/loops/evaluate.h"
#include "host/loops/launch.h"
#include "host/loops/lower.h"
#include "host/support/error.h"
#include "host/targets/common/schedule_rules.h"
#include "host/targets/cuda/rules.h"
#include "host/tensor/interpret.h"

namespace gantry::test {

using Floats = std::vector<float>;

inline Target gpu_target(const std::string& name = "cuda-emulated:sm_80") {
  return find_target(name);
}

/// A GPU that few threads fill, so that rules give each thread more than one element even of small tensors.
inline Target small_gpu() {
  Target target = gpu_target();
  target.gpu.multiprocessors = 1;
  target.gpu.max_threads = 64;
  return target;
}

inline Floats random_floats(int64_t count, unsigned seed, float low = -1, float high = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> values(low, high);
  Floats data(static_cast<size_t>(count));
  for (float& x : data) x = values(generator);
  return data;
}

inline int64_t volume_of(const std::vector<Expr>& shape) {
  int64_t count = 1;
  for (const Expr& extent : shape) count *= extent.as<IntImmNode>()->value;
  return count;
}

inline ConstantPtr constant_of_floats(const std::vector<Expr>& shape, const Floats& data) {
  TensorType type{DType::kF32, {}};
  for (const Expr& extent : shape) type.shape.push_back(Dim(extent.as<IntImmNode>()->value));
  return make_constant(type, data.data());
}

/// Largest difference over the largest magnitude of `expected`.
inline double relative_difference(const Floats& got, const Floats& expected) {
  double difference = 0, magnitude = 1e-30;
  for (size_t i = 0; i < expected.size(); ++i) {
    double d = std::abs(double(got[i]) - double(expected[i]));
    difference = std::max(difference, std::isnan(d) ? INFINITY : d);
    magnitude = std::max(magnitude, std::abs(double(expected[i])));
  }
  return difference / magnitude;
}

struct GpuRun {
  LoopKernel kernel;
  LaunchPlan plan;
};

/// Runs `outputs` (all f32, of constant shapes) on random data; every limit of a launch is checked too.
inline GpuRun expect_same_as_interpreter(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                                         const Target& target = gpu_target(), double tolerance = 1e-5) {
  std::map<const OperationNode*, ConstantPtr> constants;
  std::vector<Floats> data;
  for (const Tensor& input : inputs) {
    data.push_back(random_floats(volume_of(input.shape()), static_cast<unsigned>(data.size() + 1)));
    constants[input.op().get()] = constant_of_floats(input.shape(), data.back());
  }
  std::vector<ConstantPtr> expected = interpret(outputs, constants);
  GpuRun run;
  std::vector<Floats> results;
  std::vector<std::span<std::byte>> arguments;
  for (Floats& input : data) arguments.push_back(std::as_writable_bytes(std::span<float>(input)));
  for (const Tensor& output : outputs)
    results.emplace_back(static_cast<size_t>(volume_of(output.shape())), std::nanf(""));
  for (Floats& result : results) arguments.push_back(std::as_writable_bytes(std::span<float>(result)));
  try {
    run.kernel = run_loop_passes(lower_schedule(make_schedule(outputs, target), inputs, "k"));
    evaluate(run.kernel, arguments);
    run.plan = plan_launches(run.kernel);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << "\n" << to_string(run.kernel);
    return run;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto* values = expected[i]->as<float>();
    Floats reference(values, values + results[i].size());
    EXPECT_LE(relative_difference(results[i], reference), tolerance) << to_string(run.kernel);
  }
  for (const LaunchShape& shape : run.plan.launches) {
    EXPECT_LE(shape.threads, 1024);
    EXPECT_LE(shape.shared_bytes, 48 << 10);
  }
  return run;
}

}  // namespace gantry::test
