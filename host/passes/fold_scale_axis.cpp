// Scales of channels go into the constant weights of the convolution or matrix product beside them.
//
//   %1 = nn.conv(%0, @w); %2 = multiply(%1, @s)        =>   %2 = nn.conv(%0, multiply(@w, reshape(@s)))
//   %1 = add(nn.conv(%0, @w), @b); %2 = multiply(%1, @s)
//                                 =>   %2 = add(nn.conv(%0, multiply(@w, reshape(@s))), multiply(@b, @s))
//   %1 = multiply(%0, @s); %2 = nn.conv(%1, @w)        =>   %2 = nn.conv(%0, multiply(@w, reshape(@s)))
//
// Every weight is rounded once more; the results stay within what reordering a sum may change. The technique is
// that of batch normalisation folding (Jacob et al. 2018, arXiv:1712.05877, 3.2).
#include <cmath>
#include <optional>

#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/passes/passes.h"
#include "host/passes/pattern.h"

namespace gantry {
namespace {

/// A weight whose axes are split into (groups, output channels or input channels of a group, …), and which of
/// the split axes the channels lie on.
struct WeightAxes {
  Shape split;
  Shape outputs;  ///< the split shape of a vector of output channels: 1 on all other axes
  Shape inputs;   ///< likewise of input channels
  Dim output_count, input_count;
};

/// (O, I/groups, spatial…), or of a transposed convolution (I, O/groups, spatial…).
WeightAxes conv_weight(const Shape& weight, int64_t groups, bool transposed) {
  WeightAxes axes;
  const Dim first = weight[0], per_group = floordiv(first, groups);
  axes.split = {groups, per_group};
  axes.split.insert(axes.split.end(), weight.begin() + 1, weight.end());
  Shape along_first(axes.split.size(), Dim(1)), along_second = along_first;
  along_first[0] = along_second[0] = groups;
  along_first[1] = per_group;
  along_second[2] = weight[1];
  axes.outputs = transposed ? along_second : along_first;
  axes.inputs = transposed ? along_first : along_second;
  axes.output_count = transposed ? weight[1] * groups : first;
  axes.input_count = transposed ? first : weight[1] * groups;
  return axes;
}

/// Nothing for a node that is none of those with weights, or already in a form for some target.
std::optional<WeightAxes> weight_axes(const Node& node) {
  const Shape& weight = node.inputs[1]->type.shape;
  if (const auto* conv = node.match(nn::conv)) {
    if (!conv->as_in_model()) return std::nullopt;
    return conv_weight(weight, conv->groups, false);
  }
  if (const auto* conv = node.match(nn::conv_transpose)) return conv_weight(weight, conv->groups, true);
  const auto* dense = node.match(nn::dense);
  if (dense == nullptr || !dense->as_in_model()) return std::nullopt;
  return WeightAxes{weight, {1, weight[1]}, {weight[0], 1}, weight[1], weight[0]};
}

/// The axis of channels in what the node computes, and in its data: 1 of images, the last of rows.
int channel_axis_of(const Node& node, int rank) {
  return node.is(nn::dense) ? rank - 1 : 1;
}

bool are_finite_factors(const ConstantData& data, const OpHandle& by) {
  const auto count = static_cast<size_t>(element_count(data.type.shape).value());
  for (size_t i = 0; i < count; ++i) {
    const double element = data.type.dtype == DType::kF64 ? data.as<double>()[i] : data.as<float>()[i];
    if (!std::isfinite(element) || (&by == &op::divide && element == 0)) return false;
  }
  return true;
}

/// Whether the constant has one element, or one a channel, beside a tensor of that rank.
bool is_per_channel(const Value& scale, const Dim& channels, int axis, int rank) {
  const Shape& shape = scale.type.shape;
  if (static_cast<int>(shape.size()) > rank) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int at = rank - static_cast<int>(shape.size()) + static_cast<int>(i);
    if (!(shape[i] == Dim(1)) && !(at == axis && shape[i] == channels)) return false;
  }
  return true;
}

/// Padding is 0, which only finite factors leave alone; what was rounded to 16 bits is the model's own; and a weight that
/// others read as it is would be there twice.
bool may_scale(const Value& scale, const Value& weight, const OpHandle& by) {
  const DType dtype = scale.type.dtype;
  return (dtype == DType::kF32 || dtype == DType::kF64) && weight.type.dtype == dtype && weight.users.size() == 1 &&
         are_finite_factors(*scale.constant, by);
}

/// The weight with its output (input) channels scaled, or divided.
Value* scaled(const Builder& build, const Op<NoAttrs>& by, Value* weight, const WeightAxes& axes,
              const Shape& along, Value* scale) {
  const bool one = element_count(scale->type.shape) == Dim(1);
  Value* factors = build.reshape(scale, one ? Shape{1} : along);
  return build.reshape(build(by, {build.reshape(weight, axes.split), factors}), weight->type.shape);
}

/// The node with its results scaled by `scale`; null if it is no scale of channels.
Value* with_scaled_outputs(const Builder& build, const Node& node, const Op<NoAttrs>& by, Value* scale) {
  const auto axes = weight_axes(node);
  const int rank = node.result()->type.rank();
  if (!axes || !may_scale(*scale, *node.inputs[1], by) ||
      !is_per_channel(*scale, axes->output_count, channel_axis_of(node, rank), rank))
    return nullptr;
  std::vector<Value*> inputs = node.inputs;
  inputs[1] = scaled(build, by, inputs[1], *axes, axes->outputs, scale);
  return build.again(node, std::move(inputs))->result();
}

/// The node on data before they are scaled.
Value* with_scaled_inputs(const Builder& build, const Node& node, Value* data, Value* scale) {
  const auto axes = weight_axes(node);
  const int rank = data->type.rank();
  if (!axes || !may_scale(*scale, *node.inputs[1], op::multiply) || !(data->type == node.inputs[0]->type) ||
      !is_per_channel(*scale, axes->input_count, channel_axis_of(node, rank), rank))
    return nullptr;
  std::vector<Value*> inputs = node.inputs;
  inputs[0] = data;
  inputs[1] = scaled(build, op::multiply, inputs[1], *axes, axes->inputs, scale);
  return build.again(node, std::move(inputs))->result();
}

void add_rules_of(const OpHandle& op, std::vector<Rule>& rules) {
  const Pattern product = node(op, {any("data"), constant("weight")}).as("product");
  const Pattern scale = constant("scale");
  const Pattern sum = commuted(op::add, product, constant("bias"));
  const auto outputs = [](const Op<NoAttrs>& by) {
    return [&by](const Builder& build, const Match& m) {
      return with_scaled_outputs(build, *m["product"]->producer, by, m["scale"]);
    };
  };
  const auto outputs_and_bias = [](const Op<NoAttrs>& by) {
    return [&by](const Builder& build, const Match& m) -> Value* {
      Value* product = with_scaled_outputs(build, *m["product"]->producer, by, m["scale"]);
      return product == nullptr ? nullptr : build(op::add, {product, build(by, {m["bias"], m["scale"]})});
    };
  };
  rules.push_back({commuted(op::multiply, product, scale), outputs(op::multiply)});
  rules.push_back({node(op::divide, {product, scale}), outputs(op::divide)});
  rules.push_back({commuted(op::multiply, sum, scale), outputs_and_bias(op::multiply)});
  rules.push_back({node(op::divide, {sum, scale}), outputs_and_bias(op::divide)});
  rules.push_back({node(op, {commuted(op::multiply, any("data"), scale), constant("weight")}),
                   [](const Builder& build, const Match& m) {
                     return with_scaled_inputs(build, *m.root()->producer, m["data"], m["scale"]);
                   }});
}

std::vector<Rule> scale_rules() {
  std::vector<Rule> rules;
  for (const OpHandle* op : {static_cast<const OpHandle*>(&nn::conv), static_cast<const OpHandle*>(&nn::dense),
                             static_cast<const OpHandle*>(&nn::conv_transpose)})
    add_rules_of(*op, rules);
  return rules;
}

}  // namespace

void fold_scale_axis(Graph& graph, PassContext& context) {
  static const std::vector<Rule> rules = scale_rules();
  apply_rules(Rewriter(graph.main, context), rules);
}

extern const Pass fold_scale_axis_pass{
    .name = "fold_scale_axis",
    .purpose = "scales of channels go into the weights beside them",
    .after = {"simplify_inference"},
    .run = fold_scale_axis,
};

}  // namespace gantry
