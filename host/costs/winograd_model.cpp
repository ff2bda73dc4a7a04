#include "host/costs/winograd_model.h"

#include <algorithm>
#include <cmath>

#include "host/costs/tile_costs.h"
#include "host/ops/tiles.h"
#include "host/support/divide.h"

namespace gantry::costs {
namespace {

// Tiles a chunk of an image whose extents are symbolic: a few register tiles of rows, a fraction of the
// caches.
constexpr int64_t kSymbolicChunk = 28;
// Bytes a cycle that one core reads of the third-level cache, by those of memory: weights lie in the order in
// which they are read, so that hardware fetches them ahead; rows of the transformed input do not.
constexpr double kOrderedSpeed = 4, kScatteredSpeed = 2.5;
// Channels whose products are made at once, at most.
constexpr int64_t kMaxTileBlock = 256;
// Rows of the operand a chunk: the last tile is rounded up by less than the operand has beyond its end.
constexpr int64_t kMaxTileRows = 448;

// Cycles a byte of transformed data that is made first, one thread and two averaged. Of an only chunk, whose
// blocks are divided, each of two cores fetches half from the other; of several, each finds its own, only
// further away. Measured on images of 14 x 14 and 28 x 28 points.
constexpr double kFetchedByte = 0.26, kStoredByte = 0.08;
// Of the tiles of an image, what chunks of equal size may come to.
constexpr double kMostChunkWork = 1.07;

/// With products on tile registers, in cycles. Fitted by hand to measured plans of F(4x4, 3x3) for nine
/// convolutions; of the plans that it then picks, times were within 20 %.
struct TileWinogradCosts {
  double store = 40;  ///< to clear a tile of results and to store it
  double part = 4;    ///< to cut a part of 32 elements off that are in registers
  double lone_tile =
      1.3;  ///< instructions take so much longer where one tile of rows meets the weights, not two
  double block = 2000;  ///< a chunk's block by itself
  double weight_byte = 0.15;
  double far_byte = 0.08;  ///< of the operand or the sums that left the second-level cache
  double far_image_byte = 0.12, near_image_byte = 0.03;  ///< of an image that is larger than it, or not
};
constexpr TileWinogradCosts kTileWinograd;

/// Vector operations of one transformation of t values (input) or to m values (output).
double input_operations(int64_t m) {
  return m == 2 ? 4 : m == 4 ? 12 : 26;
}
double output_operations(int64_t m) {
  return m == 2 ? 4 : m == 4 ? 10 : 22;
}

struct Counts {
  int64_t rows, columns, tiles;  ///< tiles along y, x; of all images
};

Counts count_tiles(const WinogradWork& work) {
  Counts c;
  c.rows = ceil_div(work.height, work.tile);
  c.columns = ceil_div(work.width, work.tile);
  c.tiles = std::max<int64_t>(work.batch, 1) * c.rows * c.columns;
  return c;
}

/// Both transformations: what the ports do for every tile and vector of channels.
double transform_cycles(const WinogradWork& work, const MachineModel& machine) {
  const auto m = static_cast<double>(work.tile), t = m + 2;
  const double lanes = std::max(1, machine.vector_bytes / work.element_bytes);
  const double ports = machine.fma_per_cycle;
  // Two passes of t values each, through the first-level cache; stores take as long as two loads.
  double input = 2 * t * input_operations(work.tile) / ports + t * t * (2.0 / machine.loads_per_cycle + 2);
  double output = (t + m) * output_operations(work.tile) / ports + (t * t + m * t) / machine.loads_per_cycle +
                  m * t + m * m * 2;
  double inputs = std::ceil(double(work.inputs) / lanes), outputs = std::ceil(double(work.outputs) / lanes);
  // Measured beside these counts: tiles of 8 x 8 do not fit the registers.
  const double slack = work.tile == 6 ? 2.0 : 1.25;
  return slack * double(count_tiles(work).tiles) * (input * inputs + output * outputs);
}

ProductWork product_work(const WinogradWork& work, int64_t chunk_tiles, int64_t chunks) {
  ProductWork product;
  product.channels = work.outputs;
  product.row_extent = chunk_tiles;
  product.row_count = chunks * (work.tile + 2) * (work.tile + 2);
  product.reduction = work.inputs;
  product.image_points = chunk_tiles;
  product.half = work.half;
  product.element_bytes = int(work.weight_bytes());
  product.row_bytes = work.inputs * product.element_bytes;
  product.own_weights = true;
  product.whole_blocks = work.groups > 1;
  return product;
}

/// What the loops of a plan touch.
struct PlanSizes {
  int64_t chunk = 1, chunks = 1;  ///< tiles of one; chunks
  int64_t blocks = 1;             ///< of channels
  double weights = 0;             ///< bytes: all of them
  double transformed = 0;         ///< of a chunk's input
  double sums = 0;                ///< of the products of a chunk and a block
};

PlanSizes plan_sizes(const WinogradWork& work, const WinogradPlan& plan) {
  const Counts counts = count_tiles(work);
  const int64_t points = (work.tile + 2) * (work.tile + 2);
  const int64_t block = plan.product.channel_block();
  PlanSizes sizes;
  sizes.chunk = plan.chunk;
  sizes.chunks = std::max<int64_t>(work.batch, 1) *
                 (plan.within_row ? counts.rows * ceil_div(counts.columns, plan.chunk)
                                  : ceil_div(counts.rows * counts.columns, plan.chunk));
  sizes.blocks = ceil_div(work.outputs, block);
  sizes.weights = double(points * work.inputs * sizes.blocks * block * work.weight_bytes());
  sizes.transformed = double(points * sizes.chunk * work.inputs * work.data_bytes());
  sizes.sums = double(points * sizes.chunk * block * work.element_bytes);
  return sizes;
}

/// With products on tile registers: nothing hides their wait for operands.
double tile_plan_cycles(const WinogradWork& work, const WinogradPlan& plan, const PlanSizes& sizes,
                        const MachineModel& machine) {
  const int64_t points = (work.tile + 2) * (work.tile + 2);
  const TileGeometry& tile = geometry_of(work.tile_unit);
  const TileCosts costs = tile_costs(tile.unit, machine);
  const TileProduct product{.unit = tile.unit,
                            .parts = work.tile_parts,
                            .rows = sizes.chunk,
                            .columns = work.outputs,
                            .depth_blocks = ceil_div(work.inputs, tile.block_depth)};
  const double dot = costs.dot * (sizes.chunk > tile.rows ? 1 : kTileWinograd.lone_tile);
  const double parts = double(sizes.chunk * product.depth_blocks * tile_row_parts(work.tile_parts));
  const double compute =
      double(points * sizes.chunks) *
      (product.dots() * dot + product.tiles() * kTileWinograd.store + parts * kTileWinograd.part);

  const auto chunks = double(sizes.chunks), blocks = double(sizes.blocks);
  const double l2 = double(machine.l2_bytes), panel = sizes.weights / blocks;
  const double all = sizes.transformed * chunks;
  // All blocks go by in a chunk, or all chunks in a block.
  // In networks more of the cache is taken by what goes by than in a layer alone (where 0.75 fits).
  const double room = 0.65 * l2;
  const bool weights_stay =
      (plan.input_at_root ? panel : sizes.weights) + sizes.transformed + sizes.sums <= room;
  const bool input_stays = (plan.input_at_root ? all : sizes.transformed) + panel <= room;
  const double kept = sizes.sums + (plan.input_at_root ? 0 : sizes.transformed);
  const double far = (input_stays ? 0 : all * blocks) + (plan.input_at_root && !input_stays ? all : 0) +
                     2 * std::max(0.0, kept - room) * chunks * (plan.input_at_root ? blocks : 1);
  const double image =
      double(std::max<int64_t>(work.batch, 1) * std::max<int64_t>(work.height, 1) *
             std::max<int64_t>(work.width, 1) * (work.inputs + work.outputs) * work.element_bytes);
  return compute + chunks * blocks * kTileWinograd.block +
         sizes.weights * (weights_stay ? 1 : chunks) * kTileWinograd.weight_byte +
         far * kTileWinograd.far_byte +
         image * (image > l2 ? kTileWinograd.far_image_byte : kTileWinograd.near_image_byte) +
         transform_cycles(work, machine);
}

/// What goes by while products are made, in cycles.
struct ChunkTraffic {
  double weights = 0;  ///< when a thread's first chunk reads them, from memory
  double again = 0;    ///< when each other chunk does
  double data = 0;     ///< of a chunk
};

ChunkTraffic chunk_traffic(const WinogradPlan& plan, const PlanSizes& sizes, const MachineModel& machine) {
  const double near = 0.75 * double(machine.l2_bytes), memory = machine.memory_bytes_per_cycle;
  const double ordered = memory * kOrderedSpeed, scattered = memory * kScatteredSpeed;
  const auto chunks = double(sizes.chunks), blocks = double(sizes.blocks);
  const double rounds = plan.input_at_root ? blocks : 1;
  const double panel = sizes.weights / rounds;
  const double kept = sizes.sums + (plan.input_at_root ? 0 : sizes.transformed);
  ChunkTraffic traffic;
  traffic.weights = sizes.weights / memory;
  traffic.again = rounds * std::clamp(panel + kept - near, 0.0, panel) / ordered;
  if (plan.input_at_root) {
    // Of the input that all blocks read, what a block's weights drive out.
    const double all = sizes.transformed * chunks;
    traffic.data += std::clamp(all + panel - near, 0.0, all) / chunks * (blocks + 1) / scattered;
  }
  // The image's rows and the weights go by meanwhile.
  traffic.data += 2 * std::max(0.0, kept - near / 2) * rounds / scattered;
  return traffic;
}

/// Of so many threads together. They divide the blocks of an only chunk, else the chunks: then each reads all
/// weights, while the arithmetic of its first chunk is all there is to hide that.
double vector_product_cycles(const PlanSizes& sizes, const ChunkTraffic& traffic, double compute,
                             bool divided, int64_t threads) {
  if (divided) return overlapped(compute, traffic.weights + traffic.data);
  const double chunk = compute / double(sizes.chunks);
  const auto others = double(ceil_div(sizes.chunks, threads) - 1);
  return double(threads) * (overlapped(chunk, traffic.weights + traffic.data) +
                            others * overlapped(chunk, traffic.again + traffic.data));
}

double vector_plan_cycles(const WinogradWork& work, const WinogradPlan& plan, const PlanSizes& sizes,
                          const MachineModel& machine) {
  const double compute =
      predicted_cycles(product_work(work, sizes.chunk, sizes.chunks), plan.product, machine);
  const ChunkTraffic traffic = chunk_traffic(plan, sizes, machine);
  const bool divided = plan.input_at_root && sizes.chunks == 1;
  const double one = vector_product_cycles(sizes, traffic, compute, divided, 1);
  // Threads divide the groups, if there are any.
  const double two = work.groups > 1 ? one
                                     : vector_product_cycles(sizes, traffic, compute, divided, 2) *
                                           (divided ? imbalance(sizes.blocks) : 1);
  return (one + two) / 2 + transform_cycles(work, machine);
}

/// Cycles of a plan whose chunks and register tile are given; one thread and two count alike.
double plan_cycles(const WinogradWork& work, const WinogradPlan& plan, const MachineModel& machine) {
  const PlanSizes sizes = plan_sizes(work, plan);
  double cycles = 0;
  if (work.tile_parts > 0) {
    const int64_t shares = plan.input_at_root ? sizes.chunks * sizes.blocks : sizes.chunks;
    cycles = tile_plan_cycles(work, plan, sizes, machine) * (1 + imbalance(shares)) / 2;
  } else {
    cycles = vector_plan_cycles(work, plan, sizes, machine);
  }
  if (!plan.input_at_root) return cycles;
  const double fetched = sizes.chunks == 1 ? kFetchedByte : kStoredByte;
  return cycles + fetched * sizes.transformed * double(sizes.chunks);
}

/// Chunks of an image's tiles.
std::vector<WinogradPlan> chunk_space(const WinogradWork& work, const MachineModel& machine) {
  const Counts counts = count_tiles(work);
  const int64_t points = (work.tile + 2) * (work.tile + 2);
  // What a thread may be asked to keep.
  const int64_t limit = std::max<int64_t>(machine.l2_bytes, int64_t{1} << 20);
  std::vector<WinogradPlan> space;
  for (bool at_root : {true, false}) {
    if (at_root && (work.groups > 1 || work.symbolic)) continue;
    if (work.given.input_at_root >= 0 && at_root != (work.given.input_at_root == 1)) continue;
    auto add = [&](int64_t tiles, bool within_row) {
      if (work.tile_parts > 0 && tiles > kMaxTileRows) return;
      const int64_t kept = (at_root ? 0 : work.inputs * work.data_bytes()) + 64 * work.element_bytes;
      if (points * tiles * kept > limit) return;
      WinogradPlan plan;
      plan.chunk = tiles;
      plan.within_row = within_row;
      plan.input_at_root = at_root;
      space.push_back(plan);
    };
    if (work.given.chunk != 0) {
      if (work.symbolic || work.given.chunk <= counts.rows * counts.columns) add(work.given.chunk, false);
      continue;
    }
    if (work.symbolic) {
      add(kSymbolicChunk, false);
      continue;
    }
    const int64_t tiles = counts.rows * counts.columns;
    // The last chunk has fewer tiles, and takes as long.
    for (int64_t chunks = 1, last = 0; chunks <= counts.rows; ++chunks) {
      const int64_t chunk = ceil_div(tiles, chunks);
      if (chunk != last && ceil_div(tiles, chunk) * chunk <= tiles * kMostChunkWork) add(chunk, false);
      last = chunk;
    }
    for (int64_t chunk : {7, 14, 28}) {
      if (chunk < counts.columns) add(chunk, true);
    }
  }
  return space;
}

}  // namespace

GivenPlan given_plan(const Decision* decision) {
  if (decision == nullptr) return {};
  return {static_cast<int>(decision->knob("rows")), decision->knob("chunk"),
          static_cast<int>(decision->knob("input_first", -1))};
}

int64_t WinogradWork::data_bytes() const {
  return tile_parts > 0 ? 2 * tile_row_parts(tile_parts) : half ? 2 : element_bytes;
}

int64_t WinogradWork::weight_bytes() const {
  return tile_parts > 0 ? 2 * tile_parts : half ? 2 : element_bytes;
}

ProductWork chunk_product(const WinogradWork& work, const WinogradPlan& plan) {
  return product_work(work, plan.chunk, 1);
}

namespace {

/// One register tile for each block of channels that weights may be packed in.
std::vector<ProductTile> tile_space(const WinogradWork& work, const WinogradPlan& plan,
                                    const MachineModel& machine, int64_t channel_block) {
  std::vector<ProductTile> tiles;
  if (work.tile_parts > 0) {
    const int lanes = std::max(1, machine.vector_bytes / work.element_bytes);
    const TileGeometry& tile = geometry_of(work.tile_unit);
    const int64_t unit = tile.column_tiles * tile.columns;
    for (int64_t block = unit; block <= std::min(work.outputs, kMaxTileBlock); block += unit)
      if (work.outputs % block == 0) tiles.push_back({lanes, int(block / lanes), 1});
    return tiles;
  }
  const ProductWork product = chunk_product(work, plan);
  for (const ProductTile& tile : product_tile_space(product, machine)) {
    if (channel_block != 0 && tile.channel_block() != channel_block) continue;
    if (work.given.rows != 0 && tile.rows != work.given.rows) continue;
    auto same = std::ranges::find_if(
        tiles, [&](const ProductTile& t) { return t.channel_block() == tile.channel_block(); });
    if (same == tiles.end()) {
      tiles.push_back(tile);
    } else if (predicted_cycles(product, tile, machine) < predicted_cycles(product, *same, machine)) {
      *same = tile;
    }
  }
  if (!tiles.empty()) return tiles;
  // Of rows that are given other chunks may have room.
  const ProductTile other = choose_product_tile(product, machine, channel_block);
  if (work.given.rows == 0 || other.rows == work.given.rows) tiles.push_back(other);
  return tiles;
}

}  // namespace

WinogradPlan plan_winograd(const WinogradWork& work, const MachineModel& machine, int64_t channel_block) {
  WinogradPlan best;
  best.cycles = INFINITY;
  for (WinogradPlan plan : chunk_space(work, machine)) {
    for (const ProductTile& tile : tile_space(work, plan, machine, channel_block)) {
      plan.product = tile;
      plan.cycles = double(work.groups) * plan_cycles(work, plan, machine);
      if (plan.cycles < best.cycles) best = plan;
    }
  }
  if (std::isinf(best.cycles) && work.tile_parts == 0) {
    best.chunk = 7;
    best.within_row = true;
    best.input_at_root = work.groups == 1;
    best.product = choose_product_tile(chunk_product(work, best), machine, channel_block);
  }
  return best;
}

std::optional<UnfitKnob> unfit_knob(const WinogradWork& work, const WinogradPlan& best) {
  const GivenPlan& given = work.given;
  const bool none = std::isinf(best.cycles);
  if (given.chunk != 0 && (none || best.chunk != given.chunk))
    return UnfitKnob{"chunk", given.chunk, "an image has fewer tiles, or no cache keeps so many"};
  if (given.input_at_root >= 0 && (none || best.input_at_root != (given.input_at_root == 1)))
    return UnfitKnob{"input_first", given.input_at_root,
                     "groups and images of unknown size are transformed chunk by chunk, and what is made first has to "
                     "fit a cache"};
  if (given.rows == 0 || (!none && best.product.rows == given.rows)) return std::nullopt;
  return UnfitKnob{"rows", given.rows, "such a tile takes more registers, or more rows, than there are"};
}

}  // namespace gantry::costs
