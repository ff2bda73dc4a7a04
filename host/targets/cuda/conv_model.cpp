#include "host/targets/cuda/conv_model.h"

#include <algorithm>
#include <cmath>

#include "host/graph/shape_guess.h"
#include "host/targets/cuda/gemm_model.h"

namespace gantry::cuda {
namespace {

/// Of (N, C, spatial…).
int64_t typical(const TensorType& image, size_t axis) {
  using guess::Extent;
  return guess::extent(image.shape[axis],
                       axis == 0 ? Extent::kBatch : axis == 1 ? Extent::kChannels : Extent::kSide);
}
double elements(const TensorType& image) {
  double count = 1;
  for (size_t i = 0; i < image.shape.size(); ++i) count *= static_cast<double>(typical(image, i));
  return count;
}

// A launch that reads and writes tensors once, `points` values a thread.
double transform_seconds(int64_t elements, int64_t points, double bytes, const GpuModel& gpu) {
  LaunchWork work;
  work.threads = 128;
  work.registers = 40 + 2 * points;
  work.blocks = (elements + work.threads - 1) / work.threads;
  // About two operations a value and dimension, beside loads, stores and their addresses.
  work.issue_cycles = static_cast<double>(points) * 8 * 4 / 4;
  work.chain_cycles = 1500;
  work.l2_bytes = bytes;
  // What one launch has just written stays in the second-level cache if it fits.
  work.memory_bytes = bytes > static_cast<double>(gpu.l2_bytes) / 2 ? bytes : bytes / 4;
  return predicted_seconds(work, gpu) + gpu.launch_seconds;
}

}  // namespace

double predicted_seconds(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                         ConvAlgorithm algorithm, const GpuModel& gpu) {
  int64_t channels = typical(data, 1) / attrs.groups;
  const double data_bytes = 4 * elements(data), result_bytes = 4 * elements(result);
  GemmWork work;
  work.n = attrs.channels / attrs.groups;
  int64_t tile = winograd_tile(algorithm);
  if (tile == 0) {
    work.batch = attrs.groups;
    work.m = typical(result, 0);
    work.k = channels;
    for (size_t i = 2; i < result.shape.size(); ++i) work.m *= typical(result, i);
    for (int64_t extent : attrs.kernel) work.k *= extent;
    work.a_bytes = data_bytes;
    return predicted_seconds(work, choose_gemm_tile(work, gpu), gpu);
  }
  int64_t points = (tile + 2) * (tile + 2);
  work.batch = points;
  work.m = typical(result, 0);
  for (size_t i = 2; i < 4; ++i) work.m *= (typical(result, i) + tile - 1) / tile;
  work.k = channels;
  double transformed = 4.0 * static_cast<double>(points * work.m);
  return transform_seconds(work.m * channels, points,
                           data_bytes + transformed * static_cast<double>(channels), gpu) +
         predicted_seconds(work, choose_gemm_tile(work, gpu), gpu) +
         transform_seconds(work.m * work.n, points, result_bytes + transformed * static_cast<double>(work.n),
                           gpu);
}

}  // namespace gantry::cuda
