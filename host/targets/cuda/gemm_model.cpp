#include "host/targets/cuda/gemm_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "host/support/divide.h"

namespace gantry::cuda {
namespace {

constexpr int64_t kWarp = 32;
constexpr double kSchedulers = 4;  // of a multiprocessor: each issues one instruction of a warp a cycle
// A trip to the second-level cache or memory and a pair of barriers, in cycles.
constexpr double kStepLatency = 700, kHiddenStepLatency = 150;

double real(int64_t v) {
  return static_cast<double>(v);
}

// Cycles of a multiprocessor for one step along k of one warp: multiply-adds, issue slots, shared memory.
double warp_step_cycles(const GemmTile& t, const GpuModel& gpu) {
  double products = real(t.tm * t.tn);
  double reads = std::ceil(real(t.tm) / 4) + std::ceil(real(t.tn) / 4);
  double arithmetic = products * real(kWarp) / gpu.fp32_per_cycle;
  double issue = (products + reads + 2) / kSchedulers;
  double wavefronts = std::max(std::ceil(real(t.tm) / 4), real(t.lane_rows() * t.tm) / 32) +
                      std::max(std::ceil(real(t.tn) / 4), real(t.lane_columns() * t.tn) / 32);
  return std::max({arithmetic, issue, wavefronts});
}

// Seconds of the launch that adds `split` partial results.
double sum_seconds(const GemmWork& work, int64_t split, const GpuModel& gpu) {
  if (split == 1) return 0;
  double elements = real(work.batch * work.m * work.n);
  LaunchWork sum;
  sum.blocks = ceil_div(work.batch * work.m * work.n, 128);
  sum.chain_cycles = 600;
  sum.l2_bytes = elements * 4 * real(split);
  sum.memory_bytes = sum.l2_bytes > real(gpu.l2_bytes) / 2 ? sum.l2_bytes : 0;
  return predicted_seconds(sum, gpu) + gpu.launch_seconds;
}

double compulsory_bytes(const GemmWork& work, int64_t split) {
  double a = work.a_bytes > 0 ? work.a_bytes : real(work.batch * work.m * work.k) * 4;
  return a + real(work.batch * work.n * work.k) * 4 + real(work.batch * work.m * work.n) * 4 * real(split);
}

}  // namespace

int64_t GemmTile::lane_columns() const {
  // Eight lanes read 16 bytes each at once: best as many columns as fill 128 bytes.
  const int64_t wanted = std::clamp<int64_t>(32 / tn, 2, 16);
  for (int64_t factor : {1, 2, 4, 8}) {
    for (int64_t columns : {wanted * factor, wanted / factor}) {
      bool fits = columns >= 1 && columns <= kWarp && (bn / tn) % columns == 0;
      if (fits && (bm / tm) % (kWarp / columns) == 0) return columns;
    }
  }
  return 0;
}

int64_t GemmTile::shared_bytes() const {
  return (bk * (bm + kGemmRowPadding) + bk * (bn + kGemmRowPadding)) * 4 * (double_buffer ? 2 : 1);
}

std::string GemmTile::str() const {
  return fmt::format("block {}x{}x{}, thread {}x{}, {} threads, split {}{}", bm, bn, bk, tm, tn, threads(),
                     split, double_buffer ? ", double buffer" : "");
}
std::string GemvTile::str() const {
  return fmt::format("split {}, {} threads", split, threads);
}

std::vector<GemmTile> gemm_tile_space(const GemmWork& work, const GpuModel& gpu) {
  std::vector<GemmTile> space;
  auto consider = [&](GemmTile t) {
    if (t.bm % t.tm || t.bn % t.tn || t.threads() < kWarp || t.threads() > 256 || t.threads() % kWarp) return;
    if (t.lane_columns() == 0) return;
    if (t.shared_bytes() > gpu.shared_bytes_block) return;
    if (gemm_launch(work, t, gpu).registers > gpu.max_registers_thread) return;
    for (int64_t split = 1; split <= 32; split *= 2) {
      if (split > 1 && work.k < split * t.bk * 2) break;
      t.split = split;
      space.push_back(t);
    }
  };
  for (int64_t bm : {16, 32, 64, 128}) {
    for (int64_t bn : {16, 32, 64, 128}) {
      for (int64_t bk : {8, 16, 32}) {
        for (int64_t tm : {2, 4, 8}) {
          for (int64_t tn : {2, 4, 8}) {
            for (bool buffered : {false, true}) {
              consider({.bm = bm, .bn = bn, .bk = bk, .tm = tm, .tn = tn, .double_buffer = buffered});
            }
          }
        }
      }
    }
  }
  return space;
}

LaunchWork gemm_launch(const GemmWork& work, const GemmTile& t, const GpuModel& gpu) {
  int64_t depth = ceil_div(ceil_div(work.k, t.split), t.bk);  // steps of a block
  LaunchWork launch;
  launch.blocks = work.batch * t.split * ceil_div(work.m, t.bm) * ceil_div(work.n, t.bn);
  launch.threads = t.threads();
  int64_t staged = t.double_buffer ? ceil_div((t.bm + t.bn) * t.bk, t.threads()) : 4;
  launch.registers = t.tm * t.tn + t.tm + t.tn + staged + 32;
  launch.shared_bytes = t.shared_bytes();
  double warps = real(t.threads() / kWarp);
  // Filling a tile: address arithmetic, a load and a store of every element.
  double fill = real((t.bm + t.bn) * t.bk) / real(kWarp) * 3 / kSchedulers;
  launch.issue_cycles = real(depth) * (warp_step_cycles(t, gpu) * warps * real(t.bk) + fill);
  launch.chain_cycles =
      1500 + real(depth) * (t.double_buffer ? kHiddenStepLatency + warp_step_cycles(t, gpu) * real(t.bk)
                                            : kStepLatency + warp_step_cycles(t, gpu) * real(t.bk));
  launch.l2_bytes =
      real(launch.blocks * depth) * real((t.bm + t.bn) * t.bk) * 4 + real(work.batch * work.m * work.n) * 4;
  launch.memory_bytes = compulsory_bytes(work, t.split);
  return launch;
}

double predicted_seconds(const GemmWork& work, const GemmTile& tile, const GpuModel& gpu) {
  return gpu.launch_seconds + predicted_seconds(gemm_launch(work, tile, gpu), gpu) +
         sum_seconds(work, tile.split, gpu);
}

GemmTile choose_gemm_tile(const GemmWork& work, const GpuModel& gpu, int64_t max_points) {
  GemmTile best;
  double best_seconds = INFINITY;
  for (const GemmTile& tile : gemm_tile_space(work, gpu)) {
    if (tile.tm * tile.tn > max_points || !work.given.allows(tile)) continue;
    double seconds = predicted_seconds(work, tile, gpu);
    if (seconds < best_seconds) {
      best = tile;
      best_seconds = seconds;
    }
  }
  return best;
}

double predicted_seconds(const GemmWork& work, const GemvTile& tile, const GpuModel& gpu) {
  int64_t depth = ceil_div(work.k, tile.split);
  LaunchWork launch;
  launch.blocks = ceil_div(work.batch * tile.split * work.n, tile.threads);
  launch.threads = tile.threads;
  double warps = real(tile.threads / kWarp);
  launch.issue_cycles = warps * real(depth) * (2 + 2 * real(work.m)) / kSchedulers;
  launch.chain_cycles = 1000 + real(depth) / 8 * 500;
  launch.memory_bytes = compulsory_bytes(work, 0);
  launch.l2_bytes = launch.memory_bytes;
  return gpu.launch_seconds + predicted_seconds(launch, gpu) + sum_seconds(work, tile.split, gpu);
}

GemvTile choose_gemv_tile(const GemmWork& work, const GpuModel& gpu) {
  GemvTile best;
  double best_seconds = INFINITY;
  for (int64_t split = 1; split <= 128 && (split == 1 || work.k >= split * 8); split *= 2) {
    for (int64_t threads : {64, 128, 256}) {
      GemvTile tile{split, threads};
      double seconds = predicted_seconds(work, tile, gpu);
      if (seconds < best_seconds) {
        best = tile;
        best_seconds = seconds;
      }
    }
  }
  return best;
}

}  // namespace gantry::cuda
