// The analytic model that picks the algorithm of each convolution on a CPU, and the tiles of Winograd's.
#pragma once

#include "host/codegen/target.h"
#include "host/ops/conv.h"
#include "host/target/cpu/tile_model.h"

namespace gantry::cpu {

/// A convolution by Winograd's algorithm, F(tile x tile, 3x3). Extents of the result; 0: symbolic.
struct WinogradWork {
  int64_t tile = 4;
  int64_t batch = 1, height = 0, width = 0;
  int64_t inputs = 1, outputs = 1;
  int element_bytes = 4;
  bool half = false;  ///< transformed data and weights in f16, multiplied and summed as ProductWork::half
  int product_bytes() const { return half ? 2 : element_bytes; }
};

/// How its loops are cut (host/target/cpu/rule_winograd.cpp).
struct WinogradPlan {
  ProductTile product;       ///< register tile of the products; its channel block is the weights'
  int64_t tile_rows = 1;     ///< rows of tiles a chunk; divides their number where that is known
  int64_t tile_columns = 0;  ///< tiles of a row a chunk; 0: all
  bool input_at_root =
      true;           ///< the whole transformed input is made first; else each chunk's where it is used
  double cycles = 0;  ///< on one core
};

/// The products of a chunk at one position.
ProductWork chunk_product(const WinogradWork& work, const WinogradPlan& plan);

/// The best plan; with channel_block > 0, of those that read weights so packed.
WinogradPlan plan_winograd(const WinogradWork& work, const MachineModel& machine, int64_t channel_block = 0);

/// Direct convolution (host/target/cpu/rule_product.cpp): arithmetic, and weights from memory.
double predicted_direct_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                               const MachineModel& machine);

/// By that Winograd algorithm.
double predicted_winograd_cycles(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                 const MachineModel& machine, ConvAlgorithm algorithm);

/// kDirect or one of Winograd's. `data`, `result`: (N, C, spatial…).
ConvAlgorithm choose_conv_algorithm(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                    const MachineModel& machine);

/// The convolution is direct and reads data (N, C, spatial…) at no loss: a transposition is saved.
bool prefers_plain_data(const ConvAttrs& attrs, const TensorType& data, const MachineModel& machine);

/// How many groups of a grouped convolution to compute as one: narrow ones leave lanes and time between loops
/// unused.
int64_t choose_merged_groups(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                             const MachineModel& machine);

/// The channel block of a group's product: it divides the channels, so that no block crosses into the next
/// group.
ProductTile choose_grouped_tile(const ProductWork& work, const MachineModel& machine);

/// Output channels a block of the weights of attrs.algorithm, a Winograd algorithm.
int64_t winograd_block(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                       const MachineModel& machine);

/// The register-tiled product that a direct convolution is; `half`: with operands rounded to f16.
ProductWork direct_work(const ConvAttrs& attrs, const TensorType& data, const TensorType& result, bool half);

/// Products in f16 compute the convolution, by attrs.algorithm, faster than those in f32, on a machine that
/// may use them. Of Winograd's algorithms only F(2x2, 3x3) is exact enough.
bool prefers_half(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                  const MachineModel& machine);

}  // namespace gantry::cpu
