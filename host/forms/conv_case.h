// Convolutions that are not depthwise, as their forms see them: groups may be computed several at once, and a dilated one
// as one of its phases (host/passes/dilation_phases.h).
#pragma once

#include <optional>
#include <vector>

#include "host/forms/form.h"
#include "host/ops/conv.h"

namespace gantry::forms {

struct ConvCase {
  ConvAttrs attrs;  ///< channels-last, with groups merged; plain_data: the data may be read as the model has them
  TensorType data, result;  ///< (N, C, spatial…)
  DType weight = DType::kF32;
  bool constant_weight = true;
  std::optional<DilationPhases> phases;  ///< it is the convolution of these
  std::string no;                        ///< why it is not to be so
};

/// Whether every channel is a group: the forms are then plain and depthwise.
bool is_depthwise(const ConvAttrs& attrs, const TensorType& data);
/// Of a convolution that has no form yet, with weights that can be packed.
bool is_packable_conv(const FormQuestion& question, const FormContext& context);
/// The same of one that is not depthwise.
bool is_product_conv(const FormQuestion& question, const FormContext& context);

/// The convolution as it is, then as that of its phases where it has any. The question keeps them.
const std::vector<ConvCase>& conv_cases(const FormQuestion& question, const FormContext& context);
/// As the decision has it; groups as it merges them.
ConvCase decided_case(const FormCase& given);

/// The direct form's, and that of Winograd's algorithm with products of multiply-adds.
Bid direct_bid(const ConvCase& conv, const FormContext& context);
Bid winograd_bid(const ConvCase& conv, ConvAlgorithm algorithm, const FormContext& context);

/// What a form proposes for each of conv_cases(). It says all but merged_groups and phases.
std::vector<Bid> bids_of_cases(const FormQuestion& question, const FormContext& context,
                               std::vector<Bid> (*of)(const ConvCase&, const FormContext&));

/// Knobs that all these forms have.
KnobRange merged_groups_range(const FormCase& given);
constexpr Knob kMergedGroups{"merged_groups", 1, "so many groups are computed as one, with zeros between them",
                             merged_groups_range};
constexpr Knob kPhases{"phases", 0, "a dilated convolution is computed as its phases"};
/// Of those two.
Misfit unfit_case(const FormCase& given);

/// Attributes by the decision: its case and knobs, and that algorithm.
std::shared_ptr<ConvAttrs> formed_attrs(const FormCase& given, ConvAlgorithm algorithm);
/// Whether the node has those of that.
bool is_made_with(const Node& node, const Decision& decision, ConvAlgorithm algorithm);
/// The weight with groups merged as the decision says.
Value* merged_weight(const FormCase& given, WeightPacker& packer);
/// A node of images with one weight.
FormedNode formed_conv(const FormCase& given, std::shared_ptr<ConvAttrs> attrs, Value* packed);

/// Terms of a sum.
int64_t depth_of(const ConvCase& conv);
/// Of the decision's case: channels-last on both sides. `stages_data`: of the form's kernels.
NodeOrders conv_orders(const FormCase& given, bool stages_data);

}  // namespace gantry::forms
