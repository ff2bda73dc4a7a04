// The analytic models of convolutions on a CPU.
#pragma once

#include "host/costs/tile_model.h"
#include "host/costs/winograd_model.h"
#include "host/machine/target.h"
#include "host/ops/conv.h"

namespace gantry::costs {

/// Direct convolution (host/targets/cpu/rule_product.cpp): arithmetic, and weights from memory.
double predicted_direct_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                               const MachineModel& machine);
/// Of weights in the blocks that `attrs` has; `given_rows` as of ProductWork.
double decided_direct_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result, bool half,
                             int given_rows, const MachineModel& machine);

/// By that Winograd algorithm; `tile_parts` > 0: with products on tile registers.
double predicted_winograd_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                 const MachineModel& machine, ConvAlgorithm algorithm,
                                 int64_t tile_parts = 0);

/// The plan behind predicted_winograd_cycles() of attrs.form's algorithm and tile_parts; `block` > 0: of
/// weights in such blocks of channels.
WinogradPlan predicted_winograd_plan(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                     const MachineModel& machine, const GivenPlan& given = {}, int64_t block = 0);

/// A knob of `given` that no such plan has, of products in f16 with `half`; see unfit_knob().
std::optional<UnfitKnob> unfit_winograd_knob(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                             const MachineModel& machine, const GivenPlan& given, int64_t block,
                                             bool half);

/// Whether a tile of registers has that block, for products of attrs.form.algorithm without tile registers;
/// see has_tile().
bool has_winograd_tile(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                       const MachineModel& machine, int64_t block, bool half);

/// The convolution is direct and reads data (N, C, spatial…) at no loss: a transposition is saved.
bool prefers_plain_data(const ConvAttrs& attrs, const TensorType& data, const MachineModel& machine);

/// The depthwise convolution takes less time along the rows of planes than by channels and two
/// transpositions. Measured on images of 7 to 224 pixels a side by 2 to 1024 channels with windows of 3 to 7,
/// and on sequences.
bool prefers_plain_depthwise(const ConvAttrs& attrs, const TensorType& data, const MachineModel& machine);

/// How many groups of a grouped convolution to compute as one: narrow ones leave lanes and time between loops
/// unused.
int64_t choose_merged_groups(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                             const MachineModel& machine);

/// Output channels a block of the weights of attrs.form.algorithm, a Winograd algorithm.
int64_t winograd_block(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                       const MachineModel& machine);

/// The register-tiled product that a direct convolution is; `half`: with operands rounded to f16.
ProductWork direct_work(const ConvAttrs& attrs, const TensorType& data, const TensorType& result, bool half);

/// Products in f16 compute the convolution, by attrs.form.algorithm, faster than those in f32, on a machine
/// that may use them. Of Winograd's algorithms only F(2x2, 3x3) is exact enough.
bool prefers_half(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                  const MachineModel& machine);

}  // namespace gantry::costs
