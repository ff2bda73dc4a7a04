#include "host/targets/cuda/mma_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "host/support/divide.h"

namespace gantry::cuda {
namespace {

constexpr double kSchedulers = 4;  // of a multiprocessor: each issues one instruction of a warp a cycle
// As in gemm_model.cpp: a trip to the second-level cache and a pair of barriers, in cycles.
constexpr double kStepLatency = 700, kHiddenStepLatency = 150;

double real(int64_t v) {
  return static_cast<double>(v);
}

// 32-bit registers of one instruction's operands.
int64_t a_registers(const MmaTile& t) {
  return geometry_of(t.shape).a_elements() / geometry_of(t.shape).elements_of_register();
}
int64_t b_registers(const MmaTile& t) {
  return geometry_of(t.shape).b_elements() / geometry_of(t.shape).elements_of_register();
}

// Cycles of a multiprocessor for one warp's instructions at one step of the instruction's depth.
double warp_step_cycles(const MmaTile& t, const GpuModel& gpu) {
  double rate = t.shape == MmaShape::kM16N8K8Tf32 ? gpu.tf32_per_cycle : gpu.half_per_cycle;
  int64_t tiles_m = t.warp_rows() / kMmaRows, tiles_n = t.warp_columns() / kMmaColumns;
  double arithmetic = real(t.warp_rows() * t.warp_columns() * t.depth()) / rate;
  // Every load of a warp takes one pass through shared memory's banks.
  double loads = real(tiles_m * a_registers(t) + tiles_n * b_registers(t));
  double issue = (real(tiles_m * tiles_n) + loads + 2) / kSchedulers;
  return std::max({arithmetic, loads, issue});
}

double sum_seconds(const GemmWork& work, int64_t split, const GpuModel& gpu) {
  if (split == 1) return 0;
  LaunchWork sum;
  sum.blocks = ceil_div(work.batch * work.m * work.n, 128);
  sum.chain_cycles = 600;
  sum.l2_bytes = real(work.batch * work.m * work.n) * 4 * real(split);
  sum.memory_bytes = sum.l2_bytes > real(gpu.l2_bytes) / 2 ? sum.l2_bytes : 0;
  return predicted_seconds(sum, gpu) + gpu.launch_seconds;
}

bool can_run(const GemmWork& work, const MmaTile& t, const GpuModel& gpu, int64_t max_points) {
  if (t.warp_rows() % kMmaRows || t.warp_columns() % kMmaColumns || t.threads() > 256) return false;
  if (t.warp_rows() * t.warp_columns() / 32 > max_points) return false;
  // Parts of a depth that is not known have no bounds that lowering could use.
  if (t.split > 1 && (work.symbolic || work.k < t.split * t.bk * 2)) return false;
  return t.shared_bytes() <= gpu.shared_bytes_block &&
         mma_launch(work, t, gpu).registers <= gpu.max_registers_thread;
}

}  // namespace

int64_t MmaTile::shared_bytes() const {
  return (bm + bn) * (bk + row_padding()) * operand_bytes() * (double_buffer ? 2 : 1);
}
std::string MmaTile::str() const {
  return fmt::format("tensor cores, block {}x{}x{}, warps {}x{}, split {}{}", bm, bn, bk, warps_m, warps_n,
                     split, double_buffer ? ", double buffer" : "");
}

std::optional<MmaShape> mma_shape(Precision precision, const GpuModel& gpu) {
  const bool ampere = gpu.compute_capability >= 80;
  switch (precision) {
    case Precision::kTf32:
      if (ampere && gpu.tf32_per_cycle > 0) return MmaShape::kM16N8K8Tf32;
      return std::nullopt;
    case Precision::kBf16:
      if (ampere && gpu.half_per_cycle > 0) return MmaShape::kM16N8K16Bf16;
      return std::nullopt;
    case Precision::kFp16:
      if (gpu.compute_capability < 75 || gpu.half_per_cycle <= 0) return std::nullopt;
      return ampere ? MmaShape::kM16N8K16F16 : MmaShape::kM16N8K8F16;
    case Precision::kFp32:
      break;
  }
  return std::nullopt;
}

LaunchWork mma_launch(const GemmWork& work, const MmaTile& t, const GpuModel& gpu) {
  const int64_t steps = ceil_div(ceil_div(work.k, t.split), t.bk);
  LaunchWork launch;
  launch.blocks = work.batch * t.split * ceil_div(work.m, t.bm) * ceil_div(work.n, t.bn);
  launch.threads = t.threads();
  int64_t staged = t.double_buffer ? ceil_div((t.bm + t.bn) * t.bk, t.threads()) : 4;
  launch.registers = t.warp_rows() * t.warp_columns() / 32 + t.warp_rows() / kMmaRows * a_registers(t) +
                     t.warp_columns() / kMmaColumns * b_registers(t) + staged + 40;
  launch.shared_bytes = t.shared_bytes();
  double step = warp_step_cycles(t, gpu) * real(t.bk / t.depth());
  // Filling a tile: address arithmetic, a load, a conversion and a store of every element.
  double fill = real((t.bm + t.bn) * t.bk) / 32 * 4 / kSchedulers;
  launch.issue_cycles = real(steps) * (step * real(t.warps_m * t.warps_n) + fill);
  launch.chain_cycles = 1500 + real(steps) * ((t.double_buffer ? kHiddenStepLatency : kStepLatency) + step);
  double result_bytes = real(work.batch * work.m * work.n) * 4;
  launch.l2_bytes = real(launch.blocks * steps) * real((t.bm + t.bn) * t.bk) * 4 + result_bytes;
  double a = work.a_bytes > 0 ? work.a_bytes : real(work.batch * work.m * work.k) * 4;
  launch.memory_bytes = a + real(work.batch * work.n * work.k) * 4 + result_bytes * real(t.split);
  return launch;
}

double predicted_seconds(const GemmWork& work, const MmaTile& tile, const GpuModel& gpu) {
  return gpu.launch_seconds + predicted_seconds(mma_launch(work, tile, gpu), gpu) +
         sum_seconds(work, tile.split, gpu);
}

std::optional<MmaTile> choose_mma_tile(const GemmWork& work, Precision precision, const GpuModel& gpu,
                                       int64_t max_points) {
  MmaTile t;
  auto shape = mma_shape(precision, gpu);
  if (!shape) return std::nullopt;
  t.shape = *shape;
  if (work.m < kMmaRows || work.n < kMmaColumns || work.k < t.depth()) return std::nullopt;
  std::optional<MmaTile> best;
  double best_seconds = INFINITY;
  auto consider = [&] {
    if (!can_run(work, t, gpu, max_points) || !work.given.allows(t)) return;
    double seconds = predicted_seconds(work, t, gpu);
    if (seconds >= best_seconds) return;
    best = t;
    best_seconds = seconds;
  };
  for (int64_t rows : {16, 32, 64}) {
    for (int64_t columns : {16, 32, 64}) {
      for (int64_t warps : {1, 2, 4, 8}) {
        for (t.warps_m = 1; t.warps_m <= warps; t.warps_m *= 2) {
          t.warps_n = warps / t.warps_m;
          t.bm = rows * t.warps_m;
          t.bn = columns * t.warps_n;
          for (int64_t bk : {16, 32}) {
            t.bk = bk;
            for (t.split = 1; t.split <= 16; t.split *= 2) {
              for (bool buffered : {false, true}) {
                t.double_buffer = buffered;
                consider();
              }
            }
          }
        }
      }
    }
  }
  return best;
}

}  // namespace gantry::cuda
