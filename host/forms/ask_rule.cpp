#include "host/forms/ask_rule.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/forms/choose.h"
#include "host/ops/builder.h"
#include "host/passes/weight_packing.h"
#include "host/targets/common/knob_misfit.h"
#include "host/targets/common/schedule_rules.h"
#include "host/tensor/tensor.h"

namespace gantry::forms {
namespace {

/// (N, C, spatial…) as it lies.
TensorType ordered(TensorType type, ImageOrder order) {
  if (order == ImageOrder::kChannelsLast)
    std::rotate(type.shape.begin() + 1, type.shape.begin() + 2, type.shape.end());
  return type;
}

/// Of the node as the decision has it, alone in a function: packed weights are nodes that nobody computes.
const Node& formed_node(const FormCase& given, Function& function) {
  const Node& node = given.question.node;
  const auto copy = [&](const Value& value) {
    return value.is_constant() ? function.add_constant(value.name, value.constant)
                               : function.add_parameter(value.name, value.type);
  };
  FormQuestion question{.node = node,
                        .weight = given.question.weight == nullptr ? nullptr : copy(*given.question.weight),
                        .plain_data = given.question.plain_data,
                        .may_split = given.question.may_split};
  const std::unique_ptr<FormSet> forms = make_forms(given.context);
  const NodeOrders orders = forms->orders(question, given.decision);
  WeightPacker packer(function, node.origin);
  const FormedNode formed = forms->apply(question, given.decision, packer);
  const TensorType data = formed.phases ? formed.phases->data : node.inputs[0]->type;
  std::vector<Value*> inputs{function.add_parameter("data", ordered(data, orders.data))};
  inputs.insert(inputs.end(), formed.weights.begin(), formed.weights.end());
  for (size_t i = formed.weights.empty() ? 1 : 2; i < node.inputs.size(); ++i)
    inputs.push_back(node.inputs[i] == nullptr ? nullptr : copy(*node.inputs[i]));
  return *Builder(function, node.origin).again(node, std::move(inputs), formed.attrs);
}

/// Over placeholders; the decision is the kernel's.
std::vector<Tensor> expressions_of(const Node& node, const Decision& decision) {
  std::vector<Tensor> inputs;
  for (const Value* input : node.inputs)
    inputs.push_back(input == nullptr
                         ? Tensor()
                         : placeholder(to_exprs(input->type.shape), input->type.dtype, input->name));
  std::vector<Tensor> results = op_def(node).compute(node, inputs);
  const auto shared = std::make_shared<const Decision>(decision);
  for (const Operation& op : topological_order(results)) {
    if (op->kind == OperationNode::Kind::kPlaceholder) continue;
    op->source = node.op->name;
    op->decision = shared;
  }
  return results;
}

}  // namespace

Misfit ask_rule(const FormCase& given) {
  Function function("asked");
  const Node& node = formed_node(given, function);
  try {
    make_schedule(expressions_of(node, given.decision), given.context.target);
  } catch (const KnobMisfit& misfit) {
    return misfit.what();
  }
  return std::nullopt;
}

}  // namespace gantry::forms
