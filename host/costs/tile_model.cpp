#include "host/costs/tile_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "host/graph/shape_guess.h"
#include "host/support/divide.h"
#include "host/support/error.h"

namespace gantry::costs {
namespace {

// Storing, converting and looping cost of a tile, in cycles a vector of results.
constexpr double kEpiloguePerVector = 3.0;
constexpr double kTileOverhead = 12.0;
// Counting and branching, a step of the reduction.
constexpr double kLoopInstructions = 3.0;

int max_lanes(const ProductWork& work, const MachineModel& machine) {
  return std::max(1, machine.vector_bytes / work.element_bytes);
}

// Rows whose distance is a multiple of a large power of two share few sets of the first-level cache. Where
// they are more than about half of its ways, each row is fetched anew in every step.
double conflict_bytes(const ProductWork& work, const ProductTile& tile) {
  constexpr int64_t kSetBytes = 4096, kLine = 64, kWays = 8;
  if (work.row_bytes == 0) return 0;
  const int64_t sets = kSetBytes / std::gcd(std::max(work.row_bytes, kLine), kSetBytes);
  return tile.rows > sets * kWays ? double(tile.rows * kLine) : 0;
}

// Addresses of rows that registers do not hold beside those of a loop: each is loaded anew in every step.
int64_t reloaded_addresses(const ProductWork& work, const ProductTile& tile, const MachineModel& machine) {
  const int64_t held = takes_lanes(machine) ? 20 : 8;
  return work.scattered_rows ? std::max<int64_t>(0, tile.rows - held) : 0;
}

// Bytes of sums that are kept while the parts go by.
constexpr int64_t kKeptSums = 28 << 10;

int64_t sum_bytes(const ProductWork& work) {
  return work.half ? 4 : work.element_bytes;
}

// Cycles of one step of the reduction: what the ports do at once, and the part of the weights' way from the
// caches that nothing hides.
double cycles_per_step(const ProductWork& work, const ProductTile& tile, const MachineModel& machine) {
  double fmas = double(tile.rows) * tile.vectors / machine.fma_per_cycle;
  // As many sums as hide the latency just so stall whenever an operand is late.
  double latency = machine.fma_latency + 1.5;
  double loads = double(tile.rows + tile.vectors + reloaded_addresses(work, tile, machine)) / machine.loads_per_cycle;
  bool folded_broadcast = machine.broadcast_operand && tile.vectors == 1;
  // A load in every multiply-add: the ports never quite keep up.
  if (folded_broadcast) loads *= 1.08;
  double issue = (double(tile.rows) * tile.vectors + tile.vectors + (folded_broadcast ? 0 : tile.rows) +
                  kLoopInstructions) /
                 (2.0 * machine.fma_per_cycle + 1);
  double bytes = double(tile.channel_block()) * work.element_bytes;
  double panel = double(work.reduction) * bytes;
  double stream = 0;
  if (panel > 0.5 * double(machine.l1_bytes)) stream = bytes / machine.l2_bytes_per_cycle;
  if (panel > 0.75 * double(machine.l2_bytes)) stream = 2 * bytes / machine.l2_bytes_per_cycle;
  if (work.own_weights) {
    const double tiles = double(ceil_div(work.row_extent, tile.rows));
    stream = bytes / machine.l2_bytes_per_cycle / (panel > double(machine.l1_bytes) ? 1 : tiles);
  }
  // Cut, a part's weights come once for all tiles of an image.
  if (cuts_reduction(work, tile, machine)) stream *= double(tile.rows) / double(work.image_points);
  stream +=
      (double(tile.rows) * work.element_bytes + conflict_bytes(work, tile)) / machine.l2_bytes_per_cycle;
  double busy = std::max({fmas, latency, loads, issue});
  return overlapped(busy, stream);
}

}  // namespace

bool takes_lanes(const MachineModel& machine) {
  return machine.broadcast_operand && machine.vector_bytes == 16;
}

int64_t half_part(int64_t extent, int64_t limit) {
  if (extent <= limit) return extent;
  // Multiples of 8 use whole registers of operands (host/targets/arm/lane_operands.cpp).
  for (int64_t unit : {8, 1}) {
    for (int64_t part = limit; part >= limit / 2 && part % unit == 0; part -= unit)
      if (extent % part == 0) return part;
  }
  return limit;
}

double half_sum_cycles(int64_t reduction, const ProductTile& tile, const MachineModel& machine) {
  // To f16: one addition a vector. To f32: two conversions and two additions, with both halves' loads and
  // stores.
  constexpr double kOverhead = 6.0, kNarrow = 1.5, kWide = 6.0;
  const double vectors = double(tile.rows) * tile.vectors / machine.fma_per_cycle;
  const auto chunks = double(ceil_div(reduction, kHalfChunk)),
             sums = double(ceil_div(reduction, kHalfChunk * kHalfChunks));
  return chunks * (kOverhead + kNarrow * vectors) + sums * (kOverhead + kWide * vectors);
}

double rounding_cycles(int64_t elements, const MachineModel& machine) {
  return double(elements) * (4 + 2) / machine.l2_bytes_per_cycle;
}

int registers_of(const ProductTile& tile, const MachineModel& machine) {
  if (takes_lanes(machine)) return tile.rows * tile.vectors + tile.vectors + tile.rows;
  bool folded_broadcast = machine.broadcast_operand && tile.vectors == 1;
  return tile.rows * tile.vectors + tile.vectors + (folded_broadcast ? 0 : 1);
}

bool cuts_reduction(const ProductWork& work, const ProductTile& tile, const MachineModel& machine) {
  if (work.image_points == 0 || work.row_extent == 0 || work.row_extent % tile.rows != 0) return false;
  const int64_t bytes = tile.channel_block() * work.element_bytes;
  // Weights that stay near for all tiles as they are need no cut.
  if (work.own_weights && work.reduction * bytes <= machine.l1_bytes) return false;
  // Too few sums at once would wait for each other.
  return work.image_points > tile.rows &&
         work.image_points * tile.channel_block() * sum_bytes(work) <= kKeptSums &&
         work.reduction * bytes > machine.l1_bytes / 2 &&
         tile.rows * tile.vectors >= machine.fma_latency * machine.fma_per_cycle;
}

bool skips_columns(const ProductWork& work, const ProductTile& tile) {
  return work.row_extent == tile.rows;
}

int64_t reduction_part(int64_t inputs, const ProductWork& work, const ProductTile& tile,
                       const MachineModel& machine) {
  const int64_t limit =
      std::max<int64_t>(machine.l1_bytes / 2 / (tile.channel_block() * work.element_bytes), 16);
  if (inputs <= limit) return inputs;
  for (int64_t part = limit; part > limit / 2; --part) {
    if (inputs % part == 0) return part;
  }
  return limit;
}

namespace {

// Blocks of one row that the channels may be cut into.
std::vector<ProductTile> block_space(const ProductWork& work, const MachineModel& machine) {
  std::vector<ProductTile> blocks;
  for (int lanes = max_lanes(work, machine); lanes >= 1; lanes /= 2) {
    for (int vectors = 1; vectors <= 8; ++vectors) {
      // A block may pad the channels, but by less than one vector.
      if (vectors > 1 && int64_t{lanes} * (vectors - 1) >= work.channels) break;
      ProductTile block{.lanes = lanes, .vectors = vectors};
      if (work.whole_blocks && !work.half && lanes > 4 && work.channels % block.channel_block() != 0)
        block.missing = lanes / 2;
      if (!work.whole_blocks || work.channels % block.channel_block() == 0) blocks.push_back(block);
    }
    if (lanes <= 4) break;
  }
  return blocks;
}

}  // namespace

std::vector<ProductTile> product_tile_space(const ProductWork& work, const MachineModel& machine) {
  std::vector<ProductTile> space;
  int64_t rows_limit = work.row_extent == 0 ? guess::value(guess::Extent::kSide) : work.row_extent;
  for (ProductTile tile : block_space(work, machine)) {
    for (tile.rows = 1; tile.rows <= std::min<int64_t>(rows_limit, 30); ++tile.rows) {
      if (registers_of(tile, machine) > machine.vector_registers) break;
      space.push_back(tile);
    }
  }
  if (space.empty()) space.push_back({1, 1, 1});
  return space;
}

bool has_tile(const ProductWork& work, const MachineModel& machine, int64_t channel_block) {
  return std::ranges::any_of(product_tile_space(work, machine),
                             [&](const ProductTile& tile) { return tile.channel_block() == channel_block; });
}

double predicted_cycles(const ProductWork& work, const ProductTile& tile, const MachineModel& machine) {
  int64_t extent = work.row_extent == 0 ? guess::value(guess::Extent::kSide) : work.row_extent;
  double tiles = double(ceil_div(extent, tile.rows)) * double(work.row_count) *
                 double(ceil_div(work.channels, tile.channel_block()));
  double step = cycles_per_step(work, tile, machine);
  double epilogue = kTileOverhead + kEpiloguePerVector * tile.rows * tile.vectors * (work.half ? 2 : 1);
  if (work.half) epilogue += half_sum_cycles(work.reduction, tile, machine);
  if (cuts_reduction(work, tile, machine)) {
    // Sums are loaded and stored for every part.
    const int64_t part = reduction_part(work.reduction, work, tile, machine);
    epilogue += double(ceil_div(work.reduction, part)) * (kTileOverhead + 5.0 * tile.rows * tile.vectors);
  }
  return tiles * (double(work.reduction) * step + epilogue);
}

ProductTile choose_product_tile(const ProductWork& work, const MachineModel& machine, int64_t channel_block) {
  ProductTile best;
  double best_cycles = INFINITY;
  for (const ProductTile& tile : product_tile_space(work, machine)) {
    if (channel_block != 0 && tile.channel_block() != channel_block) continue;
    if (work.given_rows != 0 && tile.rows != work.given_rows) continue;
    double cycles = predicted_cycles(work, tile, machine);
    // Fewer registers at the same prediction leave the compiler room.
    if (cycles < best_cycles * 0.995) {
      best = tile;
      best_cycles = cycles;
    }
  }
  if (std::isinf(best_cycles)) {
    // Packed by other knobs than this machine's: one row of whatever vectors divide the block.
    int lanes = max_lanes(work, machine);
    while (lanes > 1 && channel_block % lanes != 0) lanes /= 2;
    best = {lanes, int(channel_block / lanes), 1};
  }
  return best;
}

std::optional<UnfitKnob> unfit_rows(int given_rows, const ProductTile& chosen) {
  if (given_rows == 0 || chosen.rows == given_rows) return std::nullopt;
  return UnfitKnob{"rows", given_rows, "such a tile takes more registers, or more rows, than there are"};
}

double overlapped(double arithmetic, double traffic) {
  // Of the shorter, the part that adds to the longer.
  constexpr double kUnhidden = 0.3;
  return std::max(arithmetic, traffic) + kUnhidden * std::min(arithmetic, traffic);
}

double imbalance(int64_t tasks) {
  return double(ceil_div(tasks, 2) * 2) / double(tasks);
}

int choose_lanes(int64_t extent, int element_bytes, const MachineModel& machine) {
  int lanes = std::max(1, machine.vector_bytes / element_bytes);
  while (lanes > 1 && lanes > extent) lanes /= 2;
  return lanes;
}

}  // namespace gantry::costs
