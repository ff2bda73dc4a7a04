#include "host/targets/cuda/gpu_model.h"

#include <algorithm>
#include <cmath>

#include "host/support/divide.h"

namespace gantry::cuda {
namespace {

// Registers are given out by the warp in units of 256.
constexpr int64_t kRegisterUnit = 256;
constexpr int64_t kWarp = 32;
// Warps a multiprocessor needs in flight to keep its units as busy as they can be, given independent
// instructions within each warp.
constexpr double kWarpsToSaturate = 8;
// Bytes that must be on their way to memory at once for its full bandwidth: latency times bandwidth, with
// some 500 ns of latency.
constexpr double kMemoryLatency = 500e-9;
constexpr double kBytesInFlightThread = 16;

}  // namespace

int64_t resident_blocks(const LaunchWork& work, const GpuModel& gpu) {
  if (work.registers > gpu.max_registers_thread || work.shared_bytes > gpu.shared_bytes_block) return 0;
  int64_t warps = (work.threads + kWarp - 1) / kWarp;
  int64_t registers = warps * round_up(work.registers * kWarp, kRegisterUnit);
  int64_t blocks = std::min<int64_t>(gpu.max_blocks, gpu.max_threads / (warps * kWarp));
  blocks = std::min(blocks, gpu.registers / std::max<int64_t>(registers, 1));
  // Each block also takes a kilobyte of shared memory for the system.
  if (work.shared_bytes > 0) blocks = std::min(blocks, gpu.shared_bytes / (work.shared_bytes + 1024));
  return blocks;
}

double predicted_seconds(const LaunchWork& work, const GpuModel& gpu) {
  const int64_t resident = resident_blocks(work, gpu);
  if (resident == 0) return INFINITY;
  const double hz = gpu.clock_ghz * 1e9;
  const auto at_once = static_cast<double>(resident * gpu.multiprocessors);
  const auto blocks = static_cast<double>(work.blocks);
  double warps = static_cast<double>((work.threads + kWarp - 1) / kWarp);
  double cycles = 0;
  // Full waves, then the rest, whose blocks share multiprocessors less.
  double full = std::floor(blocks / at_once), rest = blocks - full * at_once;
  auto wave = [&](double blocks_each) {
    double busy = std::min(1.0, 0.25 + 0.75 * blocks_each * warps / kWarpsToSaturate);
    return std::max(blocks_each * work.issue_cycles / busy, work.chain_cycles);
  };
  cycles += full * wave(static_cast<double>(resident));
  if (rest > 0) cycles += wave(std::ceil(rest / gpu.multiprocessors));
  double threads_at_once = std::min(blocks, at_once) * static_cast<double>(work.threads);
  double reach = threads_at_once * kBytesInFlightThread / kMemoryLatency;
  double memory = work.memory_bytes / std::min(gpu.memory_gb_per_second * 1e9, reach);
  double l2 = work.l2_bytes / std::min(gpu.l2_gb_per_second * 1e9, 2 * reach);
  return std::max({cycles / hz, memory, l2});
}

}  // namespace gantry::cuda
