#include "host/target/layout_policy.h"

#include <algorithm>
#include <limits>

#include "host/ops/conv.h"
#include "host/ops/recurrent.h"
#include "host/support/divide.h"
#include "host/target/cpu/candidates.h"
#include "host/target/cpu/conv_model.h"
#include "host/target/cpu/dense_model.h"
#include "host/target/cpu/dense_work.h"
#include "host/target/cpu/tile_model.h"
#include "host/target/cpu/tile_policy.h"
#include "host/target/cuda/conv_model.h"

namespace gantry {
namespace {

int64_t conv_block(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                   const MachineModel& machine) {
  const ProductWork work =
      cpu::direct_work(attrs, data, result, cpu::prefers_half(attrs, data, result, machine));
  return choose_product_tile(work, machine).channel_block();
}

/// Products in f16 are predicted to be faster, with what rounding the data takes.
bool dense_half(const TensorType& data, int64_t units, const MachineModel& machine) {
  if (!machine.half_products || data.dtype != DType::kF32) return false;
  auto cycles = [&](bool half) {
    const DenseWork work = cpu::dense_work(data, units, machine, half);
    const double parts = double(work.data_depth) / double(std::max<int64_t>(work.depth, 1));
    return parts * predicted_dense_cycles(work, choose_dense_tile(work, machine), machine);
  };
  const DenseWork work = cpu::dense_work(data, units, machine, true);
  return cycles(true) + rounding_cycles(work.rows * work.data_depth, machine) < cycles(false);
}

/// Formats of integers with which the product is predicted to be faster, the shortest first. `tiles`: than
/// one on tile registers.
std::vector<LayoutPolicy::FixedPointBlock> dense_fixed_point(const TensorType& data, int64_t units,
                                                             const Target& target, bool tiles) {
  if (data.dtype != DType::kF32 || !data.shape.back().is_constant()) return {};
  if (target.precision == Precision::kBf16 || dense_half(data, units, target.machine)) return {};
  DenseWork work = cpu::dense_work(data, units, target.machine, false);
  std::vector<LayoutPolicy::FixedPointBlock> formats;
  for (int bits : {20, 24}) {
    // Products of bf16 parts are about as exact.
    if (bits == 20 && target.precision != Precision::kFp32Split) continue;
    if (!prefers_fixed_point(work, bits, target.machine)) continue;
    DenseWork fixed = work;
    fixed.fixed_bits = bits;
    if (tiles && !waits_for_weights(fixed, target.machine)) continue;
    formats.push_back({bits, choose_dense_tile(fixed, target.machine).tile.channel_block()});
  }
  return formats;
}

int64_t dense_block(const TensorType& data, int64_t units, const MachineModel& machine) {
  const DenseWork work = cpu::dense_work(data, units, machine, dense_half(data, units, machine));
  return choose_dense_tile(work, machine).tile.channel_block();
}

/// How many of a direction's sequences to take together, of `most` whose sums fit the registers: one thread
/// reads the weights once for all of these, but two want rows for each.
int64_t recurrent_sequences(const TensorType& state, int64_t most) {
  constexpr int64_t kUnknown = 4, kFew = 4;
  const auto batch = state.shape[1].constant();
  if (!batch) return std::min(kUnknown, most);
  const bool halves = state.shape[0] == Dim(1) && *batch > kFew;
  int64_t parts = ceil_div(*batch, most);
  if (halves) parts = ceil_div(parts, int64_t{2}) * 2;
  return std::max<int64_t>(1, ceil_div(*batch, parts));
}

/// Where a direction's weights are more than a second-level cache holds, and two of them hold a good part.
bool takes_directions_in_turn(const TensorType& state, const std::vector<int64_t>& runs,
                              const RecurrentPacking& packing, const MachineModel& machine) {
  const auto batch = state.shape[1].constant();
  const bool single = state.shape[0] == Dim(2) && batch && *batch <= packing.sequences;
  int64_t columns = 0;
  bool even = true;
  for (int64_t run : runs) {
    columns += run;
    even = even && run / packing.columns % 2 == 0;
  }
  const int64_t bytes = columns * state.shape[2].value() * byte_width(DType::kF32);
  // Two threads then have half as much to read each; one thread alone finds less in its cache than if steps
  // took turns over all weights. Measured up to 7.1 MB, caches of 2 MiB: the one gains more than the other
  // loses.
  constexpr double kCaches = 4.4;
  return single && even && bytes > machine.l2_bytes && double(bytes) <= kCaches * double(machine.l2_bytes);
}

/// Sums fill half of the registers for one sequence (eight vectors of AVX-512 hide a multiply-add's latency),
/// three quarters for several, which share the weights' loads.
RecurrentPacking recurrent_packing(const TensorType& state, const std::vector<int64_t>& runs,
                                   const MachineModel& machine) {
  constexpr int64_t kMostVectors = 8, kMostSequences = 8;
  // Registers, in vectors of kRecurrentLanes.
  const int64_t registers = machine.vector_registers * int64_t{machine.vector_bytes} / 4 / kRecurrentLanes;
  RecurrentPacking packing;
  packing.sequences = recurrent_sequences(state, std::clamp<int64_t>(registers * 3 / 4, 1, kMostSequences));
  const int64_t sums = packing.sequences == 1 ? registers / 2 : registers * 3 / 4 / packing.sequences;
  const int64_t widest = std::clamp<int64_t>(sums, 1, kMostVectors);
  // Of strips about as wide, those of which the last ones lack the least.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t vectors = widest; vectors >= (widest + 1) / 2; --vectors) {
    const int64_t block = vectors * kRecurrentLanes;
    int64_t missing = 0;
    for (int64_t run : runs) missing += ceil_div(run, block) * block - run;
    if (missing < least) packing.columns = block, least = missing;
  }
  packing.directions_in_turn = takes_directions_in_turn(state, runs, packing, machine);
  return packing;
}

LayoutPolicy gpu_policy(const Target& target) {
  LayoutPolicy policy;
  policy.conv_algorithm = [target](const ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
    return cuda::choose_conv_algorithm(attrs, data, result, target);
  };
  policy.conv_candidates = [target](const ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
    return cuda::conv_candidates(attrs, data, result, target);
  };
  policy.dense_gemm = [](const TensorType&, int64_t) { return true; };
  policy.matmul_gemm = [](const TensorType&, const TensorType&) { return true; };
  policy.conv_block = [](const ConvAttrs&, const TensorType&, const TensorType&) { return int64_t{0}; };
  policy.dense_block = [](const TensorType&, int64_t) { return int64_t{0}; };
  return policy;
}

}  // namespace

LayoutPolicy make_layout_policy(const Target& target, const Function* network) {
  if (target.for_gpu()) return gpu_policy(target);
  MachineModel machine = target.machine;
  LayoutPolicy policy;
  policy.conv_algorithm = [machine](const ConvAttrs& attrs, const TensorType& data,
                                    const TensorType& result) {
    return cpu::choose_conv_algorithm(attrs, data, result, machine);
  };
  policy.packs_data_weights = true;
  policy.vector_bytes = machine.vector_bytes;
  policy.half_products = machine.half_products;
  policy.merged_groups = [machine](const ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
    return cpu::choose_merged_groups(attrs, data, result, machine);
  };
  policy.winograd_block = [machine](const ConvAttrs& attrs, const TensorType& data,
                                    const TensorType& result) {
    return cpu::winograd_block(attrs, data, result, machine);
  };
  policy.conv_block = [machine](const ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
    return conv_block(attrs, data, result, machine);
  };
  policy.dense_block = [machine](const TensorType& data, int64_t units) {
    return dense_block(data, units, machine);
  };
  policy.conv_half = [machine](const ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
    return cpu::prefers_half(attrs, data, result, machine);
  };
  policy.conv_plain_data = [machine](const ConvAttrs& attrs, const TensorType& data, const TensorType&) {
    return cpu::prefers_plain_data(attrs, data, machine);
  };
  policy.conv_phases = [machine](const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                 const DilationPhases& phases) {
    return cpu::prefers_phases(attrs, data, result, phases, machine);
  };
  policy.depthwise_plain = [machine](const ConvAttrs& attrs, const TensorType& data) {
    return cpu::prefers_plain_depthwise(attrs, data, machine);
  };
  policy.recurrent = [machine](const TensorType& state, const std::vector<int64_t>& runs) {
    return recurrent_packing(state, runs, machine);
  };
  policy.dense_half = [machine](const TensorType& data, int64_t units) {
    return dense_half(data, units, machine);
  };
  policy.conv_candidates = [target](const ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
    return cpu::conv_candidates(attrs, data, result, target);
  };
  policy.dense_candidates = [target](const TensorType& data, int64_t units) {
    return cpu::dense_candidates(data, units, target);
  };
  cpu::prefer_tiles(policy, target, network);
  policy.dense_fixed_point = [target, tiles = policy.dense_tiles](const TensorType& data, int64_t units) {
    return dense_fixed_point(data, units, target, tiles && tiles(data, units) > 0);
  };
  return policy;
}

AttentionPolicy make_attention_policy(const Target& target) {
  AttentionPolicy policy;
  policy.lanes = std::max(1, target.machine.vector_bytes / 4);
  policy.registers = target.machine.vector_registers;
  return policy;
}

}  // namespace gantry
