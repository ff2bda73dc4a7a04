#include "tests/ops/run_nests.h"

#include <span>

#include "host/loops/evaluate.h"
#include "host/loops/launch.h"
#include "host/loops/lower.h"
#include "host/ops/op.h"

namespace gantry::testing {
namespace {

class OrderReverser : public StmtMutator {
 protected:
  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    Stmt inner = StmtMutator::mutate_for(node, self);
    const auto* loop = inner.as<ForNode>();
    if (loop == nullptr || (loop->loop != LoopKind::kEmulatedBlock && loop->loop != LoopKind::kEmulatedThread))
      return inner;
    Expr forward = make_var("forward");
    return for_loop(forward, loop->low, loop->extent, loop->loop,
                    let(loop->var, loop->low + loop->low + loop->extent - 1 - forward, loop->body));
  }
};

struct Prepared {
  Function function;
  Node* node = nullptr;
  std::vector<Tensor> inputs, results;
};

std::unique_ptr<Prepared> prepare(std::string_view op, std::shared_ptr<Attrs> attrs,
                                  const std::vector<ConstantPtr>& inputs) {
  auto prepared = std::make_unique<Prepared>();
  std::vector<Value*> values;
  std::vector<Tensor> tensors;
  for (const auto& input : inputs) {
    values.push_back(input ? prepared->function.add_parameter("x", input->type) : nullptr);
    tensors.push_back(input ? placeholder(to_exprs(input->type.shape), input->type.dtype, "x") : Tensor());
    if (input) prepared->inputs.push_back(tensors.back());
  }
  prepared->node = infer_and_add(prepared->function, op, std::move(attrs), values, {"node"});
  prepared->results = prepared->node->op->compute(*prepared->node, tensors);
  return prepared;
}

}  // namespace

bool has_gpu_nests(std::string_view op, std::shared_ptr<Attrs> attrs, const std::vector<ConstantPtr>& inputs) {
  return prepare(op, std::move(attrs), inputs)->results[0].op()->extern_gpu_body != nullptr;
}

std::vector<ConstantPtr> run_nests(std::string_view op, std::shared_ptr<Attrs> attrs,
                                   const std::vector<ConstantPtr>& inputs, NestOrder order) {
  auto prepared = prepare(op, std::move(attrs), inputs);
  Schedule schedule(prepared->results);
  schedule.for_gpu = order != NestOrder::kCpu;
  LoopKernel kernel = run_loop_passes(lower_schedule(schedule, prepared->inputs, "kernel"));
  if (schedule.for_gpu) kernel = emulate_launches(std::move(kernel), false);
  if (order == NestOrder::kGpuReversed) kernel.body = OrderReverser().mutate_stmt(kernel.body);
  std::vector<std::span<std::byte>> arguments;
  for (const auto& input : inputs) {
    if (input) arguments.emplace_back(const_cast<std::byte*>(input->bytes), input->size);
  }
  std::vector<ConstantPtr> outputs;
  for (const Value* result : prepared->node->results) {
    std::byte* bytes = nullptr;
    auto output = allocate_constant(result->type, &bytes);
    arguments.emplace_back(bytes, output->size);
    outputs.push_back(output);
  }
  evaluate(kernel, arguments);
  return outputs;
}

}  // namespace gantry::testing
