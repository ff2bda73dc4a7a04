// Which form computes a convolution, a matrix product or a recurrence: what the target wishes, as a Decision,
// and what a Decision makes of the node's attributes. Forms and their knobs, with the values that they have
// where they are left out:
//
//   nn.conv     plain                                   as the model has it
//               depthwise                               channels-last, along vectors of channels
//               direct: block, half=0, plain_data=0     every window by itself, weights in blocks of outputs
//               gemm                                    a matrix product over the unrolled windows
//               winograd2, winograd4, winograd6: block=0, half=0, parts=0
//               tiles: parts                            on tile registers
//               all but plain and depthwise: merged_groups=1, phases=0
//   nn.dense    plain; packed: block, half=0; integers: bits, block; tiles: parts; gemm
//   matmul      plain; gemm
//   recurrences plain; packed: columns, sequences=1, in_turn=0
//
// block, columns: outputs a block of packed weights. half: these and their data are rounded to f16. parts: bf16
// parts of each weight. plain_data: images are read as the model has them. merged_groups: of the model, computed
// as one. phases: a dilation is computed as its phases. bits: of weights as integers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/passes/alter_layout.h"

namespace gantry {

struct ConvAttrs;
struct DenseAttrs;

/// What the form of a convolution depends on beside its attributes.
struct ConvQuestion {
  const TensorType &data, &result;  ///< (N, C, spatial…)
  DType weight = DType::kF32;
  bool constant_weight = true;
  bool plain_data = false;  ///< the data are there as the model has them, and not channels-last
};

/// Whether every channel is a group: the forms are then plain and depthwise.
bool is_depthwise(const ConvAttrs& attrs, const TensorType& data);

/// What the target wishes, of what fits.
Decision choose_form(const LayoutPolicy& policy, const ConvAttrs& attrs, const ConvQuestion& question);
/// `is_exact`: whether integers of so many bits, with so many columns a block, are near enough to the weights.
Decision choose_form(const LayoutPolicy& policy, const DenseAttrs& attrs, const TensorType& data,
                     const std::function<bool(int64_t bits, int64_t columns)>& is_exact);
/// Of a product of two tensors.
Decision choose_form(const LayoutPolicy& policy, const TensorType& a, const TensorType& b);
/// Of a recurrence. `state`: (D, B, H); `runs`: the columns of each product of a step.
Decision choose_form(const LayoutPolicy& policy, const TensorType& state, const std::vector<int64_t>& runs);

/// Why a decision that somebody else has made does not fit, to stand behind the name of the node; none where it
/// does.
using Misfit = std::optional<std::string>;
Misfit misfit(const LayoutPolicy& policy, const Decision& decision, const ConvAttrs& attrs,
              const ConvQuestion& question);
Misfit misfit(const LayoutPolicy& policy, const Decision& decision, const DenseAttrs& attrs,
              const TensorType& data);
Misfit misfit_of_matmul(const LayoutPolicy& policy, const Decision& decision);
Misfit misfit_of_recurrence(const LayoutPolicy& policy, const Decision& decision);

/// The attributes by a decision that fits, but `plain` and `depthwise`; `data` are those of the phases where the
/// attributes are.
ConvAttrs with_form(const LayoutPolicy& policy, const Decision& decision, const ConvAttrs& attrs,
                    const TensorType& data);
/// By one that fits, but `plain`.
DenseAttrs with_form(const LayoutPolicy& policy, const Decision& decision, const DenseAttrs& attrs);

}  // namespace gantry
