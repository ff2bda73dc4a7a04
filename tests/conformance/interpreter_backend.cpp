#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/tensor/interpret.h"
#include "tests/conformance/backend.h"

namespace gantry::conformance {

std::vector<ConstantPtr> InterpreterBackend::run(const Graph& graph, const std::vector<ConstantPtr>& inputs) {
  const Function& f = graph.main;
  internal_check(inputs.size() == f.parameters.size(), "{} inputs for {} parameters", inputs.size(), f.parameters.size());
  std::map<const Value*, ConstantPtr> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!(inputs[i]->type == f.parameters[i]->type)) {
      user_error("input {} is {} instead of {}", i, inputs[i]->type.str(), f.parameters[i]->type.str());
    }
    values[f.parameters[i]] = inputs[i];
  }
  for (const Node* node : f.nodes()) {
    std::vector<Tensor> tensors;
    std::map<const OperationNode*, ConstantPtr> data;
    for (const Value* input : node->inputs) {
      tensors.push_back(input ? placeholder(to_exprs(input->type.shape), input->type.dtype, "x") : Tensor());
      if (input) data[tensors.back().op().get()] = input->is_constant() ? input->constant : values.at(input);
    }
    std::vector<ConstantPtr> results = interpret(node->op->compute(*node, tensors), data);
    if (results.empty()) user_error("{} is not interpreted", node->op->name);
    for (size_t i = 0; i < results.size(); ++i) values[node->results[i]] = results[i];
  }
  std::vector<ConstantPtr> outputs;
  for (const Value* output : f.outputs) outputs.push_back(output->is_constant() ? output->constant : values.at(output));
  return outputs;
}

}  // namespace gantry::conformance
