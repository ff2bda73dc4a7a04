#include "host/costs/dense_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "host/graph/shape_guess.h"
#include "host/support/divide.h"

namespace gantry::costs {
namespace {

/// Cycles of a tile apart from its sums: clearing and storing accumulators, the epilogue, the loop around it.
constexpr double kTileOverhead = 24.0, kEpiloguePerVector = 2.0;
/// Cycles of a step of the sum apart from its arithmetic: counting, prefetching.
constexpr double kStepOverhead = 0.5;
/// Chains of multiply-adds that hide their latency with some slack for loads that arrive late.
constexpr double kLatencySlack = 1.3;
/// First-level sets span a page: rows a multiple of it apart compete for the ways of the same sets.
constexpr int64_t kSetSpan = 4096;
/// Panels of weights wider than this many vectors gain nothing.
constexpr int kMaxVectors = 8;
/// Of a vector of integers: its conversion, and its part of the shifts, masks and unions that take integers
/// out of the words that they share. Registers for those beside the accumulators.
constexpr double kUnpackingPerVector = 3.5;
constexpr int kUnpackingRegisters = 6;
/// Cycles a line of results waits for its set of the first-level cache, where a tile's rows fill most of its
/// ways, and where they do not fit. Sums of few products are over before: 4096 x 3 by 3 x 256 took five times
/// as long in tiles of 30 rows as in those of 6.
constexpr double kCrowdedLine = 12.0, kEvictedLine = 20.0;
/// A smaller gain is within what this model gets wrong.
constexpr double kLeastGain = 1.05;
/// Weights below this share of the second-level cache may still be there when the network runs again.
constexpr int64_t kLeastStreamedShare = 8;
/// Of the time in which weights arrive, what may pass with other things unnoticed.
constexpr double kHiddenShare = 0.6;
/// Work is cut into at least so many parts, so that two to four threads find equal shares.
constexpr int64_t kWantedParts = 8;

int64_t rows_of(const DenseWork& work) {
  return work.rows == 0 ? guess::value(guess::Extent::kRows) : work.rows;
}

/// Ways of the first-level cache that rows so many bytes apart need in the set that most of them share.
int64_t ways_needed(int64_t stride, int64_t rows) {
  const int64_t distinct = std::max<int64_t>(1, kSetSpan / std::gcd(stride, kSetSpan));
  return ceil_div(rows, std::min(distinct, rows));
}

/// Vectors of integers that share words (host/ops/fixed_point.h); 1 if weights are floats.
int vectors_together(const DenseWork& work) {
  return work.fixed_bits == 0 ? 1 : 32 / std::gcd(work.fixed_bits, 32);
}

double weight_bytes(const DenseWork& work) {
  return work.fixed_bits == 0 ? work.element_bytes : work.fixed_bits / 8.0;
}

double cycles_per_step(const DenseWork& work, const ProductTile& tile, const MachineModel& machine) {
  const double accumulators = double(tile.rows) * tile.vectors;
  const double unpacking = work.fixed_bits == 0 ? 0 : kUnpackingPerVector * tile.vectors;
  const double fmas = (accumulators + unpacking) / machine.fma_per_cycle;
  const double latency = accumulators > 1 ? machine.fma_latency * (tile.rows == 1 ? 1.0 : kLatencySlack)
                                          : double(machine.fma_latency);
  const double loads = double(tile.rows + tile.vectors) / machine.loads_per_cycle;
  // Everything that passes the first-level cache: the panel, and the tile's own data where rows collide.
  double bytes = double(tile.channel_block()) * weight_bytes(work);
  const int64_t ways = machine.l1_bytes / kSetSpan;
  if (ways_needed(work.row_stride() * work.element_bytes, tile.rows) + 2 > ways) bytes += 64.0 * tile.rows;
  return kStepOverhead + std::max({fmas, latency, loads, bytes / (0.6 * machine.l2_bytes_per_cycle)});
}

/// Cycles until a tile's results are stored, sums apart.
double store_cycles(const DenseWork& work, const ProductTile& tile, const MachineModel& machine) {
  const int64_t ways = machine.l1_bytes / kSetSpan;
  const int64_t needed = ways_needed(work.units * work.element_bytes, tile.rows);
  const double line = needed > ways ? kEvictedLine : 2 * needed > ways ? kCrowdedLine : 0;
  return line * tile.rows * tile.vectors;
}

bool fits_registers(const DenseWork& work, const ProductTile& tile, const MachineModel& machine) {
  if (work.fixed_bits != 0) return tile.rows * tile.vectors + kUnpackingRegisters <= machine.vector_registers;
  const bool folded = machine.broadcast_operand && tile.vectors == 1;
  return tile.rows * tile.vectors + tile.vectors + (folded ? 0 : 1) <= machine.vector_registers;
}

double tiles_of(const DenseWork& work, const ProductTile& tile) {
  return double(ceil_div(rows_of(work), tile.rows)) * double(ceil_div(work.units, tile.channel_block()));
}

/// Of two threads the second finds nothing to do.
double idle_factor(double tiles) {
  return tiles < 2 ? 2 : 1;
}

double predicted(const DenseWork& work, const ProductTile& tile, const MachineModel& machine) {
  const double tiles = tiles_of(work, tile);
  double epilogue = kTileOverhead + kEpiloguePerVector * tile.rows * tile.vectors * (work.half ? 2 : 1);
  if (work.half) epilogue += half_sum_cycles(work.depth, tile, machine);
  const double sums = double(work.depth) * cycles_per_step(work, tile, machine);
  return tiles * (std::max(sums, store_cycles(work, tile, machine)) + epilogue) * idle_factor(tiles);
}

int64_t choose_block_rows(const DenseWork& work, const ProductTile& tile, const MachineModel& machine) {
  const int64_t rows = rows_of(work), tiles = ceil_div(rows, tile.rows);
  const int64_t row_bytes = std::max<int64_t>(1, work.depth * work.element_bytes);
  const int64_t fitting = std::max<int64_t>(1, machine.l2_bytes / 2 / row_bytes / tile.rows);
  int64_t blocks = ceil_div(tiles, fitting);
  const int64_t panels = ceil_div(work.units, tile.channel_block());
  blocks = std::max(blocks, std::min(tiles, ceil_div(kWantedParts, panels)));
  // More blocks where the shares of two threads come closer to each other, or the last block is less empty.
  auto longest = [&](int64_t size) {
    const int64_t parts = ceil_div(tiles, size) * panels;
    return double(ceil_div(parts, 2) * 2 * size) / double(panels);
  };
  int64_t best = ceil_div(tiles, blocks);
  for (int64_t size = best - 1; size >= std::max<int64_t>(1, best / 2); --size)
    if (longest(size) < 0.97 * longest(best)) best = size;
  return best * tile.rows;
}

/// While all weights come from memory.
double stream_cycles(const DenseWork& work, const MachineModel& machine) {
  return double(work.units) * double(work.depth) * weight_bytes(work) / machine.memory_bytes_per_cycle;
}

double busy_cycles(const DenseWork& work, const MachineModel& machine) {
  return predicted_dense_cycles(work, choose_dense_tile(work, machine), machine);
}

/// Lanes of the widest vectors.
int widest_lanes(const DenseWork& work, const MachineModel& machine) {
  return std::max(1, machine.vector_bytes / work.element_bytes);
}

/// Calls `visit` with every tile that fits the registers, of blocks of so many channels; 0: of all.
template <typename Visit>
void each_tile(const DenseWork& work, const MachineModel& machine, int64_t channel_block, const Visit& visit) {
  for (int lanes = widest_lanes(work, machine); lanes >= 1; lanes /= 2) {
    for (int vectors = 1; vectors <= kMaxVectors; ++vectors) {
      if (vectors % vectors_together(work) != 0) continue;
      // A block may pad the units, but by less than one vector, or by less than what shares words.
      if (vectors > vectors_together(work) && int64_t{lanes} * (vectors - 1) >= work.units) break;
      for (int rows = 1; rows <= std::min<int64_t>(rows_of(work), 30); ++rows) {
        const ProductTile tile{lanes, vectors, rows};
        if (!fits_registers(work, tile, machine)) break;
        if (channel_block == 0 || tile.channel_block() == channel_block) visit(tile);
      }
    }
    if (lanes <= 4) break;
  }
}

/// Products of nothing are scheduled like those of one element.
DenseWork of_something(DenseWork work) {
  work.units = std::max<int64_t>(work.units, 1);
  work.depth = std::max<int64_t>(work.depth, 1);
  return work;
}

}  // namespace

bool has_dense_tile(const DenseWork& work, const MachineModel& machine, int64_t channel_block) {
  bool found = false;
  each_tile(of_something(work), machine, channel_block, [&](const ProductTile&) { found = true; });
  return found;
}

DenseTile choose_dense_tile(const DenseWork& given, const MachineModel& machine, int64_t channel_block) {
  const DenseWork work = of_something(given);
  ProductTile best;
  double best_cycles = INFINITY;
  each_tile(work, machine, channel_block, [&](const ProductTile& tile) {
    if (work.given_rows != 0 && tile.rows != work.given_rows) return;
    const double cycles = predicted(work, tile, machine);
    if (cycles >= best_cycles * 0.998) return;
    best = tile;
    best_cycles = cycles;
  });
  if (std::isinf(best_cycles)) {
    // Packed for another machine: one row of whatever vectors divide the block.
    int lanes = widest_lanes(work, machine);
    while (lanes > 1 && channel_block % lanes != 0) lanes /= 2;
    best = {lanes, std::max(1, int(channel_block / lanes)), 1};
  }
  return {best, choose_block_rows(work, best, machine)};
}

double predicted_dense_cycles(const DenseWork& work, const DenseTile& tile, const MachineModel& machine) {
  return predicted(work, tile.tile, machine);
}

bool prefers_fixed_point(const DenseWork& work, int fixed_bits, const MachineModel& machine) {
  if (work.rows == 0 || work.half || work.element_bytes != 4) return false;
  if (work.units * work.depth * work.element_bytes < machine.l2_bytes / kLeastStreamedShare) return false;
  DenseWork fixed = work;
  fixed.fixed_bits = fixed_bits;
  auto cycles = [&](const DenseWork& form) {
    const ProductTile tile = choose_dense_tile(form, machine).tile;
    return std::max(predicted(form, tile, machine),
                    stream_cycles(form, machine) * idle_factor(tiles_of(form, tile)));
  };
  return cycles(fixed) * kLeastGain < cycles(work);
}

bool waits_for_weights(const DenseWork& work, const MachineModel& machine) {
  return busy_cycles(work, machine) < kHiddenShare * stream_cycles(work, machine);
}

int64_t dense_depth_parts(const DenseWork& work, const MachineModel& machine) {
  constexpr int64_t kLeastDepth = 512, kLeastRows = 32, kMaxRows = 256;
  if (rows_of(work) < kLeastRows) return 1;
  const int64_t bytes = std::min(rows_of(work), kMaxRows) * work.depth * work.element_bytes;
  int64_t parts = std::min(ceil_div(bytes, machine.l2_bytes / 2), work.depth / kLeastDepth);
  while (parts > 1 && work.depth % parts != 0) --parts;
  return std::max<int64_t>(parts, 1);
}

}  // namespace gantry::costs
