#include "host/costs/conv_model.h"

#include <algorithm>
#include <cmath>

#include "host/graph/shape_guess.h"
#include "host/support/divide.h"

namespace gantry::costs {
namespace {

using guess::Extent;

/// Of (N, C, spatial…).
int64_t typical(const TensorType& image, size_t axis) {
  return guess::extent(image.shape[axis],
                       axis == 0 ? Extent::kBatch : axis == 1 ? Extent::kChannels : Extent::kSide);
}

WinogradWork winograd_work(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                           int64_t tile) {
  WinogradWork work;
  work.tile = tile;
  const size_t line = result.shape.size() - 2;
  work.batch = typical(result, 0);
  for (size_t i = 2; i < line; ++i) work.batch *= typical(result, i);
  work.height = typical(result, line);
  work.width = typical(result, line + 1);
  work.symbolic = !result.shape[line].is_constant() || !result.shape[line + 1].is_constant();
  work.inputs = typical(data, 1) / attrs.groups * winograd_slices(attrs);
  work.outputs = attrs.channels / attrs.groups;
  work.groups = attrs.groups;
  work.element_bytes = byte_width(result.dtype);
  return work;
}

/// What is faster of products in f32 and, where the machine may use them, in f16.
struct WinogradChoice {
  WinogradPlan plan;
  bool half = false;
};

WinogradChoice choose_winograd(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                               int64_t tile, const MachineModel& machine, const GivenPlan& given = {},
                               int64_t block = 0) {
  WinogradWork work = winograd_work(attrs, data, result, tile);
  work.given = given;
  const WinogradPlan plan = plan_winograd(work, machine, block);
  // Transformed data of larger tiles grow, and their roundings with them: 4 x 4 loses five bits.
  if (!machine.half_products || tile != 2 || data.dtype != DType::kF32) return {plan, false};
  work.half = true;
  const WinogradPlan half = plan_winograd(work, machine, block);
  return half.cycles < plan.cycles ? WinogradChoice{half, true} : WinogradChoice{plan, false};
}

}  // namespace

ProductWork direct_work(const ConvAttrs& attrs, const TensorType& data, const TensorType& result, bool half) {
  ProductWork work;
  work.half = half;
  work.element_bytes = half ? byte_width(DType::kF16) : byte_width(result.dtype);
  work.channels = attrs.channels / attrs.groups;
  work.whole_blocks = attrs.groups > 1;
  int64_t lines = typical(result, 0);
  for (size_t i = 2; i + 1 < result.shape.size(); ++i) lines *= typical(result, i);
  if (joins_points(attrs, result.shape.back())) {
    work.row_extent = lines * typical(result, result.shape.size() - 1);
    work.scattered_rows = !reads_each_point_once(attrs);
  } else {
    work.row_extent = result.shape.back().constant().value_or(0);
    work.row_count = lines;
  }
  work.reduction = typical(data, 1) / attrs.groups;
  if (attrs.groups == 1 && result.rank() == 4 && data.shape[1].is_constant())
    work.image_points = (result.shape[2] * result.shape[3]).constant().value_or(0);
  work.row_bytes = data.shape[1].constant().value_or(0) * attrs.strides.back() * work.element_bytes;
  for (int64_t extent : attrs.kernel) work.reduction *= extent;
  return work;
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
        double(trial.groups) * predicted_cycles(work, choose_product_tile(work, machine), machine);
    if (cycles < best_cycles) {
      best = merged;
      best_cycles = cycles;
    }
  }
  return best;
}

namespace {

// Of the taps of all windows along a spatial dimension, the share that lies in the image.
double inside_share(const ConvAttrs& attrs, const TensorType& data, const TensorType& result, size_t dim) {
  const auto extent = data.shape[dim + 2].constant(), results = result.shape[dim + 2].constant(),
             before = attrs.padding[dim].constant();
  if (!extent || !results || !before) return 1;
  int64_t inside = 0;
  for (int64_t i = 0; i < *results; ++i)
    for (int64_t k = 0; k < attrs.kernel[dim]; ++k) {
      const int64_t at = i * attrs.strides[dim] + k * attrs.dilations[dim] - *before;
      inside += at >= 0 && at < *extent ? 1 : 0;
    }
  return double(inside) / double(*results * attrs.kernel[dim]);
}

double direct_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                     const MachineModel& machine, bool half, int given_rows = 0, int64_t block = 0) {
  ProductWork work = direct_work(attrs, data, result, half);
  if (work.row_extent == 0) work.row_extent = typical(result, result.shape.size() - 1);
  work.given_rows = given_rows;
  const ProductTile tile = choose_product_tile(work, machine, block);
  const double weights = double(attrs.channels) * double(work.reduction) * work.element_bytes;
  double arithmetic = double(attrs.groups) * predicted_cycles(work, tile, machine);
  if (cuts_reduction(work, tile, machine)) {
    arithmetic *= inside_share(attrs, data, result, 0);
    if (skips_columns(work, tile)) arithmetic *= inside_share(attrs, data, result, 1);
  }
  double cycles = overlapped(arithmetic, weights / machine.memory_bytes_per_cycle);
  if (!half) return cycles;
  int64_t elements = 1;
  for (size_t i = 0; i < data.shape.size(); ++i) elements *= typical(data, i);
  return cycles + rounding_cycles(elements, machine);
}

}  // namespace

bool prefers_half(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                  const MachineModel& machine) {
  if (const int64_t tile = winograd_tile(attrs.form.algorithm); tile > 0)
    return choose_winograd(attrs, data, result, tile, machine).half;
  return machine.half_products && data.dtype == DType::kF32 &&
         direct_cycles(attrs, data, result, machine, true) <
             direct_cycles(attrs, data, result, machine, false);
}

double predicted_direct_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                               const MachineModel& machine) {
  return direct_cycles(attrs, data, result, machine, prefers_half(attrs, data, result, machine));
}

double decided_direct_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result, bool half,
                             int given_rows, const MachineModel& machine) {
  return direct_cycles(attrs, data, result, machine, half, given_rows, attrs.form.weight_block);
}

double predicted_winograd_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                 const MachineModel& machine, ConvAlgorithm algorithm, int64_t tile_parts) {
  if (tile_parts > 0) {
    WinogradWork work = winograd_work(attrs, data, result, winograd_tile(algorithm));
    work.tile_parts = tile_parts;
    work.tile_unit = attrs.form.tile_unit;
    return plan_winograd(work, machine).cycles;
  }
  return choose_winograd(attrs, data, result, winograd_tile(algorithm), machine).plan.cycles;
}

WinogradPlan predicted_winograd_plan(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                     const MachineModel& machine, const GivenPlan& given, int64_t block) {
  const int64_t tile = winograd_tile(attrs.form.algorithm);
  if (!attrs.form.on_tiles()) return choose_winograd(attrs, data, result, tile, machine, given, block).plan;
  WinogradWork work = winograd_work(attrs, data, result, tile);
  work.tile_parts = attrs.form.tile_parts;
  work.given = given;
  work.tile_unit = attrs.form.tile_unit;
  return plan_winograd(work, machine);
}

std::optional<UnfitKnob> unfit_winograd_knob(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                             const MachineModel& machine, const GivenPlan& given, int64_t block,
                                             bool half) {
  WinogradWork work = winograd_work(attrs, data, result, winograd_tile(attrs.form.algorithm));
  work.half = half;
  work.given = given;
  work.tile_parts = attrs.form.tile_parts;
  work.tile_unit = attrs.form.tile_unit;
  // Weights for tile registers suit blocks of any number of columns.
  return unfit_knob(work, plan_winograd(work, machine, attrs.form.on_tiles() ? 0 : block));
}

bool has_winograd_tile(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                       const MachineModel& machine, int64_t block, bool half) {
  WinogradWork work = winograd_work(attrs, data, result, winograd_tile(attrs.form.algorithm));
  work.half = half;
  return has_tile(chunk_product(work, WinogradPlan()), machine, block);
}

bool prefers_plain_data(const ConvAttrs& attrs, const TensorType& data, const MachineModel& machine) {
  if (attrs.form.algorithm != ConvAlgorithm::kDirect || !data.shape[1].is_constant()) return false;
  // Where a product takes a lane of a register, the lanes are neighbouring channels.
  if (takes_lanes(machine)) return false;
  // Rows of as many planes are read at once as a line of pixels has channels for each row of the window; more
  // than the first-level cache has ways would drive each other out.
  constexpr int64_t kStreams = 32;
  return data.shape[1].value() * attrs.kernel[0] <= kStreams;
}

bool prefers_plain_depthwise(const ConvAttrs& attrs, const TensorType& data, const MachineModel& machine) {
  // Each tap of a row is an unaligned load where channels would share one; rows of strided windows are read
  // element by element. Long rows make up for some of both.
  constexpr int64_t kFewTaps = 9, kManyTaps = 25, kLongRow = 28, kLongStridedRow = 56;
  constexpr int kStridedVectorBytes = 32;
  int64_t taps = 1;
  for (int64_t extent : attrs.kernel) taps *= extent;
  const int64_t row = typical(data, data.shape.size() - 1);
  const bool strided = std::ranges::any_of(attrs.strides, [](int64_t stride) { return stride != 1; });
  if (strided)
    return machine.vector_bytes >= kStridedVectorBytes && taps <= kFewTaps && row >= kLongStridedRow;
  return taps <= kFewTaps || (taps <= kManyTaps && row >= kLongRow);
}

int64_t winograd_block(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                       const MachineModel& machine) {
  return choose_winograd(attrs, data, result, winograd_tile(attrs.form.algorithm), machine)
      .plan.product.channel_block();
}

}  // namespace gantry::costs
