#include "tests/support/interpreted.h"

#include <map>
#include <span>

#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
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
  for (const Node* node : function.nodes()) {
    std::vector<ConstantPtr> arguments;
    for (const Value* input : node->inputs) arguments.push_back(values.at(input));
    const std::vector<ConstantPtr> results = interpret_node(*node, arguments);
    for (size_t i = 0; i < results.size(); ++i) values[node->results[i]] = results[i];
  }
  std::vector<ConstantPtr> outputs;
  for (const Value* output : function.outputs) outputs.push_back(values.at(output));
  return outputs;
}

}  // namespace gantry::testing
