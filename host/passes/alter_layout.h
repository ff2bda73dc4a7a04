// Layouts of activations and packed weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "host/graph/graph.h"
#include "host/tensor/tile_unit.h"

namespace gantry {

struct ConvAttrs;
struct Candidate;  // host/passes/node_decision.h
struct PassContext;
struct DilationPhases;
enum class ConvAlgorithm : uint8_t;

/// A convolution on tile registers (host/ops/tiles.h): bf16 parts of its weights, or 0 if it is not to be; by
/// kTiles or a Winograd algorithm.
struct TiledConv {
  int64_t parts = 0;
  ConvAlgorithm algorithm{};
};

/// Columns a strip of a recurrent weight, 0: it is not packed; the sequences that meet it together; and
/// whether threads share a direction (RecurrenceAttrs::directions_in_turn).
struct RecurrentPacking {
  int64_t columns = 0, sequences = 1;
  bool directions_in_turn = false;
};

/// The target's wishes, which choose_form() (host/passes/form_choice.h) makes decisions of. A block of 0 leaves the op as it is; functions that are absent mean direct and false.
struct LayoutPolicy {
  /// Asked first, of convolutions with constant weights that are not depthwise; a Winograd algorithm that
  /// does not fit becomes gemm. Only for kDirect is conv_block asked. `data`, `result`: (N, C, spatial…).
  std::function<ConvAlgorithm(const ConvAttrs& attrs, const TensorType& data, const TensorType& result)>
      conv_algorithm;
  /// Products with constant weights in form gemm (host/ops/dense.h). `data`: (…, K).
  std::function<bool(const TensorType& data, int64_t units)> dense_gemm;
  /// Whether on tile registers. Asked before all others.
  std::function<TiledConv(const ConvAttrs& attrs, const TensorType& data, const TensorType& result)>
      conv_tiles;
  /// Bf16 parts of the weights of products on tile registers, or 0. `data`: (…, K).
  std::function<int64_t(const TensorType& data, int64_t units)> dense_tiles;
  TileUnit tile_unit{};  ///< of both
  /// Products of two tensors in form gemm.
  std::function<bool(const TensorType& a, const TensorType& b)> matmul_gemm;
  /// Convolutions whose weights are data are direct, and these packed when the program runs; else they stay
  /// as they are.
  bool packs_data_weights = false;
  /// How many groups of a grouped convolution that is not depthwise to compute as one, with weights of 0
  /// between them; absent: 1.
  std::function<int64_t(const ConvAttrs& attrs, const TensorType& data, const TensorType& result)>
      merged_groups;
  /// Output channels a block of packed convolution weights. `data`, `result`: (N, C, spatial…).
  std::function<int64_t(const ConvAttrs& attrs, const TensorType& data, const TensorType& result)> conv_block;
  /// Output channels a block of a Winograd algorithm's weights; absent: they are not blocked.
  std::function<int64_t(const ConvAttrs& attrs, const TensorType& data, const TensorType& result)>
      winograd_block;
  /// True: weights that conv_block or dense_block packs are rounded to f16, and so are the data that they
  /// meet; absent: false.
  std::function<bool(const ConvAttrs& attrs, const TensorType& data, const TensorType& result)> conv_half;
  std::function<bool(const TensorType& data, int64_t units)> dense_half;
  /// True: a convolution whose data are there as the model has them reads them so (ConvAttrs::plain_data);
  /// absent: false. Where they are, attrs.plain_data is set when this and conv_tiles are asked.
  std::function<bool(const ConvAttrs& attrs, const TensorType& data, const TensorType& result)>
      conv_plain_data;
  /// True: a dilated convolution is computed as one of its phases (host/passes/dilation_phases.h); absent:
  /// false. Asked of those that conv_tiles leaves.
  std::function<bool(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                     const DilationPhases& phases)>
      conv_phases;
  /// True: a depthwise convolution whose data are there as the model has them stays as it is; absent: false.
  std::function<bool(const ConvAttrs& attrs, const TensorType& data)> depthwise_plain;
  /// Output columns a block of packed dense weights. `data`: (…, K).
  std::function<int64_t(const TensorType& data, int64_t units)> dense_block;
  /// Formats of integers for packed f32 dense weights, the best first, each with its columns a block (see
  /// host/ops/fixed_point.h); the first that is exact enough for the weights is taken. Absent or none:
  /// floats.
  struct FixedPointBlock {
    int64_t bits = 0, columns = 0;
  };
  std::function<std::vector<FixedPointBlock>(const TensorType& data, int64_t units)> dense_fixed_point;
  /// Weights that other nodes read as they are stay so for all: a packed form would be a second copy. Packed
  /// weights of recurrences may be larger than the model's by padding only.
  bool small_weights = false;
  /// What is looked at, for explanations, in the order of the predictions; `why` is left empty for what fits. Absent:
  /// no model looks at it.
  std::function<std::vector<Candidate>(const ConvAttrs& attrs, const TensorType& data, const TensorType& result)>
      conv_candidates;
  std::function<std::vector<Candidate>(const TensorType& data, int64_t units)> dense_candidates;
  /// Of a vector of the CPU; 0: the target is none, and packs no blocks.
  int64_t vector_bytes = 0;
  /// conv_half and dense_half may be true.
  bool half_products = false;
  /// How recurrent weights are packed whose products take so many columns each (host/ops/recurrent.h);
  /// absent: not. `state`: (D, B, H).
  std::function<RecurrentPacking(const TensorType& state, const std::vector<int64_t>& runs)> recurrent;
};

/// Runs convolutions and what surrounds them channels-last, with weights packed for the target; packs the
/// weights of dense nodes. A value keeps both forms only where somebody needs both. The packing itself is
/// left as nodes over constants for fold_constant.
///
///   %1 = nn.conv(%x, @w)                %0 = transpose(%x, axes=[0, 2, 3, 1])
///   %2 = nn.relu(%1)              =>    %1 = nn.conv(%0, @w_packed, channels_last=true, weight_block=32)
///   return %2                           %2 = nn.relu(%1);  return transpose(%2, axes=[0, 3, 1, 2])
///
/// Wants simplify_inference before it, fold_constant and dead_code after. PassContext::layouts is told for whom
/// nodes change layouts. Nodes that have a form, of this target or another, keep it. A node's decision is applied as
/// it is (a user error that names the node says why one does not fit); others get one, so that every node with a
/// choice has one behind this pass.
void alter_layout(Graph& graph, const LayoutPolicy& policy, PassContext& context);

}  // namespace gantry
