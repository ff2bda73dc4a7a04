#include "tests/support/interpreted.h"

#include <algorithm>
#include <deque>
#include <map>
#include <span>

#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/ops/bind_dims.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/tensor/interpret.h"

namespace gantry::testing {
namespace {

std::vector<ConstantPtr> evaluate_loops(const Node& node, const std::vector<Tensor>& results,
                                        const std::vector<Tensor>& inputs,
                                        const std::map<const OperationNode*, ConstantPtr>& data) {
  std::vector<Tensor> present;
  for (const Tensor& t : inputs) {
    if (t) present.push_back(t);
  }
  LoopKernel kernel = run_loop_passes(lower_schedule(Schedule(results), present, "kernel"));
  std::vector<std::span<std::byte>> arguments;
  for (const Tensor& t : present) {
    const ConstantPtr& c = data.at(t.op().get());
    arguments.emplace_back(const_cast<std::byte*>(c->bytes), c->size);
  }
  std::vector<ConstantPtr> outputs;
  for (const Value* result : node.results) {
    std::byte* bytes = nullptr;
    auto output = allocate_constant(result->type, &bytes);
    arguments.emplace_back(bytes, output->size);
    outputs.push_back(output);
  }
  evaluate(kernel, arguments);
  return outputs;
}

}  // namespace

std::vector<ConstantPtr> interpret_node(const Node& node, const std::vector<ConstantPtr>& inputs) {
  if (!node.bodies.empty()) return interpret_function(*node.bodies[0], inputs);
  std::vector<Tensor> tensors;
  std::map<const OperationNode*, ConstantPtr> data;
  for (const ConstantPtr& input : inputs) {
    tensors.push_back(input ? placeholder(to_exprs(input->type.shape), input->type.dtype, "x") : Tensor());
    if (input) data[tensors.back().op().get()] = input;
  }
  const std::vector<Tensor> computed = op_def(node).compute(node, tensors);
  // Small tensors are not worth threads.
  std::vector<ConstantPtr> results = interpret(computed, data, 1);
  return results.empty() ? evaluate_loops(node, computed, tensors, data) : results;
}

namespace {

/// Replaces symbols in attributes by what they stand for.
class Substituter : public PartialAttrVisitor {
 public:
  explicit Substituter(const std::map<std::string, Dim>& sizes) : sizes_(sizes) {}
  using PartialAttrVisitor::operator();
  void operator()(std::string_view, Dim& value) override { value = value.substitute(sizes_); }
  void operator()(std::string_view, Shape& value) override {
    for (Dim& dim : value) dim = dim.substitute(sizes_);
  }

 private:
  const std::map<std::string, Dim>& sizes_;
};

/// Symbols that nodes bind on the way, and nodes with what they stand for.
class BoundSymbols {
 public:
  void bind(const BindDimsAttrs& attrs, const ConstantPtr& tensor) {
    for (size_t i = 0; i < attrs.symbols.size(); ++i) {
      const int64_t value = !tensor                            ? attrs.values[i].substitute(sizes_).value()
                            : tensor->type.dtype == DType::kI32 ? tensor->as<int32_t>()[i]
                                                                : tensor->as<int64_t>()[i];
      if (value < 0 && attrs.negatives.empty())
        user_error("the size {} is {}", attrs.symbols[i].str(), value);
      sizes_[attrs.symbols[i].str()] = std::max<int64_t>(value, 0);
      if (!attrs.negatives.empty()) sizes_[attrs.negatives[i].str()] = std::max<int64_t>(-value, 0);
    }
  }

  std::vector<ConstantPtr> interpret(const Node& node, const std::vector<ConstantPtr>& inputs) const {
    if (sizes_.empty() || !node.bodies.empty()) return interpret_node(node, inputs);
    std::deque<Value> values;
    const auto value_of = [&](const TensorType& type) {
      values.emplace_back().type = type;
      for (Dim& dim : values.back().type.shape) dim = dim.substitute(sizes_);
      return &values.back();
    };
    const auto attrs = node.attrs->clone();
    Substituter substitute(sizes_);
    attrs->fields(substitute);
    Node concrete;
    concrete.op = node.op;
    concrete.attrs = attrs;
    for (const ConstantPtr& input : inputs) concrete.inputs.push_back(input ? value_of(input->type) : nullptr);
    for (const Value* result : node.results) concrete.results.push_back(value_of(result->type));
    return interpret_node(concrete, inputs);
  }

  void check(const Function& function) const {
    for (const DimConstraint& constraint : function.constraints) {
      const Dim left = constraint.left.substitute(sizes_), right = constraint.right.substitute(sizes_);
      if (provably_different(left, right)) user_error("{} is not {} for {}", left.str(), right.str(), constraint.origin);
    }
  }

 private:
  std::map<std::string, Dim> sizes_;
};

}  // namespace

std::vector<ConstantPtr> interpret_function(const Function& function,
                                            const std::vector<ConstantPtr>& inputs) {
  internal_check(inputs.size() == function.parameters.size(), "{} inputs for {} parameters", inputs.size(),
                 function.parameters.size());
  std::map<const Value*, ConstantPtr> values{{nullptr, nullptr}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!(inputs[i]->type == function.parameters[i]->type)) {
      user_error("input {} is {} instead of {}", i, inputs[i]->type.str(),
                 function.parameters[i]->type.str());
    }
    values[function.parameters[i]] = inputs[i];
  }
  for (const Value* constant : function.constants()) values[constant] = constant->constant;
  BoundSymbols symbols;
  for (const Node* node : function.nodes()) {
    std::vector<ConstantPtr> arguments;
    for (const Value* input : node->inputs) arguments.push_back(values.at(input));
    if (const auto* binding = node->match(op::bind_dims)) {
      symbols.bind(*binding, arguments.empty() ? nullptr : arguments[0]);
      symbols.check(function);
      continue;
    }
    const std::vector<ConstantPtr> results = symbols.interpret(*node, arguments);
    for (size_t i = 0; i < results.size(); ++i) values[node->results[i]] = results[i];
  }
  std::vector<ConstantPtr> outputs;
  for (const Value* output : function.outputs) outputs.push_back(values.at(output));
  return outputs;
}

}  // namespace gantry::testing
