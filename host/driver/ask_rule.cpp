#include "host/driver/ask_rule.h"

#include <algorithm>
#include <any>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/forms/choose.h"
#include "host/ops/builder.h"
#include "host/passes/weight_packing.h"
#include "host/targets/common/knob_misfit.h"
#include "host/targets/common/schedule_rules.h"
#include "host/tensor/tensor.h"

namespace gantry {
namespace {

using forms::Form, forms::FormCase, forms::Knob;

/// (N, C, spatial…) as it lies.
TensorType ordered(TensorType type, ImageOrder order) {
  if (order == ImageOrder::kChannelsLast)
    std::rotate(type.shape.begin() + 1, type.shape.begin() + 2, type.shape.end());
  return type;
}

/// Null where the form has no such knob.
const Knob* find_knob(const Form& form, std::string_view name) {
  const auto found = std::ranges::find(form.knobs, name, &Knob::name);
  return found == form.knobs.end() ? nullptr : &*found;
}

/// The decision without what the schedule's rule may choose.
Decision packing_of(const FormCase& given) {
  Decision packing{given.decision.form, {}};
  const Form* form = forms::find_form(packing.form, given.question, given.context);
  if (form == nullptr) return packing;
  for (const auto& [name, value] : given.decision.knobs) {
    const Knob* knob = find_knob(*form, name);
    if (knob != nullptr && !knob->of_schedule) packing.knobs.emplace_back(name, value);
  }
  return packing;
}

/// A node as a decision has it, alone in a function: packed weights are nodes that nobody computes.
struct Formed {
  Decision packing;
  std::shared_ptr<Function> function;
  const Node* node = nullptr;
};

Formed formed_by(const FormCase& given, Decision packing) {
  const Node& node = given.question.node;
  const auto function = std::make_shared<Function>("asked");
  const auto copy = [&](const Value& value) {
    return value.is_constant() ? function->add_constant(value.name, value.constant)
                               : function->add_parameter(value.name, value.type);
  };
  FormQuestion question{.node = node,
                        .weight = given.question.weight == nullptr ? nullptr : copy(*given.question.weight),
                        .plain_data = given.question.plain_data,
                        .may_split = given.question.may_split};
  const std::unique_ptr<FormSet> forms = forms::make_forms(given.context);
  const NodeOrders orders = forms->orders(question, packing);
  WeightPacker packer(*function, node.origin);
  const FormedNode formed = forms->apply(question, packing, packer);
  const TensorType data = formed.phases ? formed.phases->data : node.inputs[0]->type;
  std::vector<Value*> inputs{function->add_parameter("data", ordered(data, orders.data))};
  inputs.insert(inputs.end(), formed.weights.begin(), formed.weights.end());
  for (size_t i = formed.weights.empty() ? 1 : 2; i < node.inputs.size(); ++i)
    inputs.push_back(node.inputs[i] == nullptr ? nullptr : copy(*node.inputs[i]));
  const Node* made = Builder(*function, node.origin).again(node, std::move(inputs), formed.attrs);
  return {std::move(packing), function, made};
}

/// Kept with the question: to pack weights may take a while, and who asks asks of many schedules.
Formed formed_node(const FormCase& given) {
  Decision packing = packing_of(given);
  const auto* known = std::any_cast<Formed>(&given.question.asked);
  if (known != nullptr && known->packing == packing) return *known;
  Formed formed = formed_by(given, std::move(packing));
  given.question.asked = formed;
  return formed;
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
  const Formed formed = formed_node(given);
  try {
    make_schedule(expressions_of(*formed.node, given.decision), given.context.target);
  } catch (const KnobMisfit& misfit) {
    return misfit.what();
  }
  return std::nullopt;
}

Misfit refused_by_rule(const FormQuestion& question, const Decision& decision,
                       const forms::FormContext& context) {
  const Form* form = forms::find_form(decision.form, question, context);
  if (form == nullptr) return std::nullopt;
  const bool schedules = std::ranges::any_of(decision.knobs, [&](const auto& given) {
    const Knob* knob = find_knob(*form, given.first);
    return knob != nullptr && knob->of_schedule;
  });
  if (!schedules) return std::nullopt;
  if (form->refused != nullptr) return form->refused({question, decision, context});
  const bool asks = form->asks_rule && is_for(*form->asks_rule, context.target);
  return asks ? ask_rule({question, decision, context}) : std::nullopt;
}

}  // namespace gantry
