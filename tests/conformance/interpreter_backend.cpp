#include <span>

#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/tensor/interpret.h"
#include "tests/conformance/backend.h"

namespace gantry::conformance {

namespace {

/// Loop nests written by hand are executed as loop IR.
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

std::vector<ConstantPtr> InterpreterBackend::run(const Graph& graph, const std::vector<ConstantPtr>& inputs) {
  const Function& f = graph.main;
  internal_check(inputs.size() == f.parameters.size(), "{} inputs for {} parameters", inputs.size(),
                 f.parameters.size());
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
    std::vector<Tensor> computed = op_def(*node).compute(*node, tensors);
    std::vector<ConstantPtr> results = interpret(computed, data);
    if (results.empty()) results = evaluate_loops(*node, computed, tensors, data);
    for (size_t i = 0; i < results.size(); ++i) values[node->results[i]] = results[i];
  }
  std::vector<ConstantPtr> outputs;
  for (const Value* output : f.outputs)
    outputs.push_back(output->is_constant() ? output->constant : values.at(output));
  return outputs;
}

}  // namespace gantry::conformance
