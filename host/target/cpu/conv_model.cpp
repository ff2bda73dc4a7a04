#include "host/target/cpu/conv_model.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "host/support/divide.h"

namespace gantry::cpu {
namespace {

// Symbolic extents are planned for as this.
constexpr int64_t kAssumedExtent = 56;
// Bytes a cycle that one core reads of the third-level cache, by those of memory: weights lie in the order in
// which they are read, so that hardware fetches them ahead; rows of the transformed input do not.
constexpr double kOrderedSpeed = 4, kScatteredSpeed = 1.5;
// Of the shorter of arithmetic and traffic, the part that adds to the longer.
constexpr double kUnhidden = 0.3;
// The transformations are predicted less well than the products: Winograd's algorithm must promise this much.
constexpr double kWinogradMargin = 0.9;

int64_t typical(const Dim& dim) {
  return dim.constant().value_or(kAssumedExtent);
}

double joined(double a, double b) {
  return std::max(a, b) + kUnhidden * std::min(a, b);
}

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
  c.rows = ceil_div(work.height == 0 ? kAssumedExtent : work.height, work.tile);
  c.columns = ceil_div(work.width == 0 ? kAssumedExtent : work.width, work.tile);
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
  const double slack = work.tile == 6 ? 1.7 : 1.25;
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
  product.element_bytes = work.product_bytes();
  product.row_bytes = work.inputs * product.element_bytes;
  product.own_weights = true;
  return product;
}

/// Cycles of a plan whose chunks and register tile are given.
double plan_cycles(const WinogradWork& work, const WinogradPlan& plan, const MachineModel& machine) {
  const Counts counts = count_tiles(work);
  const int64_t points = (work.tile + 2) * (work.tile + 2), bytes = work.product_bytes();
  const int64_t columns = plan.tile_columns == 0 ? counts.columns : plan.tile_columns;
  const int64_t chunk = plan.tile_rows * columns;
  const int64_t chunks = std::max<int64_t>(work.batch, 1) * ceil_div(counts.rows, plan.tile_rows) *
                         ceil_div(counts.columns, columns);
  const int64_t block = plan.product.channel_block(), blocks = ceil_div(work.outputs, block);
  const double weights = double(points * work.inputs * blocks * block * bytes);
  const double transformed = double(points * chunk * work.inputs * bytes);
  const double sums = double(points * chunk * block * work.element_bytes);
  const double l2 = double(machine.l2_bytes);
  const double memory = machine.memory_bytes_per_cycle;
  const double ordered = memory * kOrderedSpeed, scattered = memory * kScatteredSpeed;

  double compute = predicted_cycles(product_work(work, chunk, chunks), plan.product, machine);
  double traffic = weights / memory;  // once, in any case
  double kept = sums + (plan.input_at_root ? 0 : transformed);
  if (plan.input_at_root) {
    double all = transformed * double(chunks);
    double panel = weights / double(blocks);
    if (all + panel > 0.75 * l2) traffic += all * double(blocks + 1) / scattered;
    // A block's weights stay near while the chunks go by, unless they are too large.
    if (chunks > 1 && panel + kept > 0.75 * l2) traffic += weights * double(chunks - 1) / ordered;
  } else if (chunks > 1 && weights + kept > 0.75 * l2) {
    traffic += weights * double(chunks - 1) / ordered;
  }
  // The image's rows and the weights go by meanwhile.
  if (kept > 0.375 * l2) {
    const double times = double(chunks) * (plan.input_at_root ? double(blocks) : 1);
    traffic += 2 * (kept - 0.375 * l2) * times / scattered;
  }
  const double cycles = joined(compute, traffic) + transform_cycles(work, machine);
  const int64_t shares = plan.input_at_root ? chunks * blocks : chunks;
  // One thread and two count alike.
  return cycles * (1 + imbalance(shares)) / 2;
}

/// Chunks of whole rows of tiles, or of parts of a row.
std::vector<WinogradPlan> chunk_space(const WinogradWork& work, const MachineModel& machine) {
  const Counts counts = count_tiles(work);
  const bool whole_rows = work.width != 0 && work.height != 0;
  const int64_t points = (work.tile + 2) * (work.tile + 2);
  // What a thread may be asked to keep.
  const int64_t limit = std::max<int64_t>(machine.l2_bytes, int64_t{1} << 20);
  std::vector<WinogradPlan> space;
  for (bool at_root : {true, false}) {
    auto add = [&](int64_t rows, int64_t columns) {
      const int64_t tiles = rows * (columns == 0 ? counts.columns : columns);
      if (points * tiles * work.element_bytes * (at_root ? 64 : work.inputs + 64) > limit) return;
      WinogradPlan plan;
      plan.tile_rows = rows;
      plan.tile_columns = columns;
      plan.input_at_root = at_root;
      space.push_back(plan);
    };
    for (int64_t rows = 1; whole_rows && rows <= counts.rows; ++rows) {
      if (counts.rows % rows == 0) add(rows, 0);
    }
    for (int64_t columns : {7, 14, 28}) {
      if (!whole_rows || columns < counts.columns) add(1, columns);
    }
  }
  return space;
}

}  // namespace

ProductWork chunk_product(const WinogradWork& work, const WinogradPlan& plan) {
  const int64_t columns = plan.tile_columns == 0 ? count_tiles(work).columns : plan.tile_columns;
  return product_work(work, plan.tile_rows * columns, 1);
}

WinogradPlan plan_winograd(const WinogradWork& work, const MachineModel& machine, int64_t channel_block) {
  WinogradPlan best;
  best.cycles = INFINITY;
  best.tile_columns = work.width == 0 ? 7 : 0;
  for (WinogradPlan plan : chunk_space(work, machine)) {
    const int64_t columns = plan.tile_columns == 0 ? count_tiles(work).columns : plan.tile_columns;
    ProductWork product = product_work(work, plan.tile_rows * columns, 1);
    std::vector<ProductTile> tiles;
    // One register tile for each block of channels.
    for (const ProductTile& tile : product_tile_space(product, machine)) {
      if (channel_block != 0 && tile.channel_block() != channel_block) continue;
      auto same = std::ranges::find_if(
          tiles, [&](const ProductTile& t) { return t.channel_block() == tile.channel_block(); });
      if (same == tiles.end()) {
        tiles.push_back(tile);
      } else if (predicted_cycles(product, tile, machine) < predicted_cycles(product, *same, machine)) {
        *same = tile;
      }
    }
    if (tiles.empty()) tiles.push_back(choose_product_tile(product, machine, channel_block));
    for (const ProductTile& tile : tiles) {
      plan.product = tile;
      plan.cycles = plan_cycles(work, plan, machine);
      if (plan.cycles < best.cycles) best = plan;
    }
  }
  if (std::isinf(best.cycles)) {
    best.product = choose_product_tile(product_work(work, 7, 1), machine, channel_block);
    best.tile_columns = 7;
  }
  return best;
}

namespace {

WinogradWork winograd_work(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                           int64_t tile) {
  WinogradWork work;
  work.tile = tile;
  work.batch = result.shape[0].constant().value_or(1);
  work.height = result.shape[2].constant().value_or(0);
  work.width = result.shape[3].constant().value_or(0);
  work.inputs = typical(data.shape[1]);
  work.outputs = attrs.channels;
  work.element_bytes = byte_width(result.dtype);
  return work;
}

/// What is faster of products in f32 and, where the machine may use them, in f16.
struct WinogradChoice {
  WinogradPlan plan;
  bool half = false;
};

WinogradChoice choose_winograd(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                               int64_t tile, const MachineModel& machine) {
  WinogradWork work = winograd_work(attrs, data, result, tile);
  const WinogradPlan plan = plan_winograd(work, machine);
  // Transformed data of larger tiles grow, and their roundings with them: 4 x 4 loses five bits.
  if (!machine.half_products || tile != 2 || data.dtype != DType::kF32) return {plan, false};
  work.half = true;
  const WinogradPlan half = plan_winograd(work, machine);
  return half.cycles < plan.cycles ? WinogradChoice{half, true} : WinogradChoice{plan, false};
}

}  // namespace

ProductWork direct_work(const ConvAttrs& attrs, const TensorType& data, const TensorType& result, bool half) {
  ProductWork work;
  work.half = half;
  work.element_bytes = half ? byte_width(DType::kF16) : byte_width(result.dtype);
  work.channels = attrs.channels / attrs.groups;
  work.row_extent = result.shape.back().constant().value_or(0);
  work.row_count = result.shape[0].constant().value_or(1);
  for (size_t i = 2; i + 1 < result.shape.size(); ++i)
    work.row_count *= result.shape[i].constant().value_or(1);
  work.reduction = data.shape[1].constant().value_or(64) / attrs.groups;
  if (attrs.groups == 1 && result.rank() == 4 && data.shape[1].is_constant())
    work.image_points = (result.shape[2] * result.shape[3]).constant().value_or(0);
  work.row_bytes = data.shape[1].constant().value_or(0) * attrs.strides.back() * work.element_bytes;
  for (int64_t extent : attrs.kernel) work.reduction *= extent;
  return work;
}

ProductTile choose_grouped_tile(const ProductWork& work, const MachineModel& machine) {
  ProductTile best;
  double best_cycles = INFINITY;
  for (const ProductTile& tile : product_tile_space(work, machine)) {
    if (work.channels % tile.channel_block() != 0) continue;
    const double cycles = predicted_cycles(work, tile, machine);
    if (cycles < best_cycles) {
      best = tile;
      best_cycles = cycles;
    }
  }
  return best;
}

int64_t choose_merged_groups(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                             const MachineModel& machine) {
  // Beyond this, weights of 0 cost more than anything that they save.
  constexpr int64_t kMaxChannels = 64;
  const int64_t channels = attrs.channels / attrs.groups;
  int64_t best = 1;
  double best_cycles = INFINITY;
  for (int64_t merged = 1; merged <= attrs.groups && merged * channels <= std::max(kMaxChannels, channels);
       ++merged) {
    if (attrs.groups % merged != 0) continue;
    ConvAttrs trial = attrs;
    trial.groups /= merged;
    const ProductWork work = direct_work(trial, data, result, prefers_half(trial, data, result, machine));
    const double cycles =
        double(trial.groups) * predicted_cycles(work, choose_grouped_tile(work, machine), machine);
    if (cycles < best_cycles) {
      best = merged;
      best_cycles = cycles;
    }
  }
  return best;
}

namespace {

double direct_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                     const MachineModel& machine, bool half) {
  ProductWork work = direct_work(attrs, data, result, half);
  for (size_t i = 2; i < result.shape.size(); ++i) {
    if (!result.shape[i].is_constant()) work.row_count *= kAssumedExtent;
  }
  const ProductTile tile =
      attrs.groups > 1 ? choose_grouped_tile(work, machine) : choose_product_tile(work, machine);
  const double weights = double(attrs.channels) * double(work.reduction) * work.element_bytes;
  double cycles = joined(double(attrs.groups) * predicted_cycles(work, tile, machine),
                         weights / machine.memory_bytes_per_cycle);
  if (!half) return cycles;
  int64_t elements = 1;
  for (const Dim& extent : data.shape) elements *= typical(extent);
  return cycles + rounding_cycles(elements, machine);
}

}  // namespace

bool prefers_half(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                  const MachineModel& machine) {
  if (const int64_t tile = winograd_tile(attrs.algorithm); tile > 0)
    return choose_winograd(attrs, data, result, tile, machine).half;
  return machine.half_products && data.dtype == DType::kF32 &&
         direct_cycles(attrs, data, result, machine, true) <
             direct_cycles(attrs, data, result, machine, false);
}

double predicted_direct_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                               const MachineModel& machine) {
  return direct_cycles(attrs, data, result, machine, prefers_half(attrs, data, result, machine));
}

double predicted_winograd_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                 const MachineModel& machine, ConvAlgorithm algorithm) {
  return choose_winograd(attrs, data, result, winograd_tile(algorithm), machine).plan.cycles;
}

ConvAlgorithm choose_conv_algorithm(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                    const MachineModel& machine) {
  bool constant = data.shape[1].is_constant();
  for (const Dim& extent : result.shape) constant = constant && extent.is_constant();
  // The buffers of a chunk need constant sizes, and narrow layers have too little to multiply between the
  // transformations.
  if (!fits_winograd(attrs) || data.dtype != DType::kF32 || !constant || data.shape[1].value() < 8 ||
      attrs.channels < 8)
    return ConvAlgorithm::kDirect;
  ConvAlgorithm best = ConvAlgorithm::kDirect;
  const double direct = predicted_direct_cycles(attrs, data, result, machine);
  double limit = kWinogradMargin * direct;
  for (ConvAlgorithm algorithm :
       {ConvAlgorithm::kWinograd2, ConvAlgorithm::kWinograd4, ConvAlgorithm::kWinograd6}) {
    const WinogradPlan plan = choose_winograd(attrs, data, result, winograd_tile(algorithm), machine).plan;
    spdlog::debug(
        "convolution {} -> {}: F({}) {:.0f} kcycles (block {}, {} rows, {} x {} chunks, {}), direct {:.0f}",
        data.str(), result.str(), winograd_tile(algorithm), plan.cycles / 1e3, plan.product.channel_block(),
        plan.product.rows, plan.tile_rows, plan.tile_columns,
        plan.input_at_root ? "input first" : "input by chunk", direct / 1e3);
    if (plan.cycles < limit) {
      best = algorithm;
      limit = plan.cycles;
    }
  }
  return best;
}

bool prefers_plain_data(const ConvAttrs& attrs, const TensorType& data, const MachineModel& machine) {
  if (attrs.algorithm != ConvAlgorithm::kDirect || !data.shape[1].is_constant()) return false;
  // Where a product takes a lane of a register, the lanes are neighbouring channels.
  if (takes_lanes(machine)) return false;
  // Rows of as many planes are read at once as a line of pixels has channels for each row of the window; more
  // than the first-level cache has ways would drive each other out.
  constexpr int64_t kStreams = 32;
  return data.shape[1].value() * attrs.kernel[0] <= kStreams;
}

int64_t winograd_block(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                       const MachineModel& machine) {
  return choose_winograd(attrs, data, result, winograd_tile(attrs.algorithm), machine)
      .plan.product.channel_block();
}

}  // namespace gantry::cpu
