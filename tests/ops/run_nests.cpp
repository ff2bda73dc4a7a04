#include "tests/ops/run_nests.h"

#include <span>

#include "host/loops/evaluate.h"
#include "host/loops/launch.h"
#include "host/loops/lower.h"
#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry::testing {
namespace {

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
  prepared->node = infer_and_add(prepared->function, *op_set().find(op), std::move(attrs), values, {"node"});
  prepared->results = op_def(*prepared->node).compute(*prepared->node, tensors);
  return prepared;
}

/// What a GPU asks of the kernel.
void check_launches(const LoopKernel& kernel) {
  for (const LaunchShape& launch : plan_launches(kernel).launches) {
    internal_check(launch.shared_bytes <= 48 << 10, "a launch with {} bytes of shared memory",
                   launch.shared_bytes);
    internal_check(launch.threads <= 1024 && launch.threads % 32 == 0, "a launch of {} threads",
                   launch.threads);
  }
}

}  // namespace

std::vector<ConstantPtr> run_nests(std::string_view op, std::shared_ptr<Attrs> attrs,
                                   const std::vector<ConstantPtr>& inputs, NestKind kind) {
  auto prepared = prepare(op, std::move(attrs), inputs);
  Schedule schedule(prepared->results);
  schedule.for_gpu = kind == NestKind::kGpu;
  LoopKernel kernel = run_loop_passes(lower_schedule(schedule, prepared->inputs, "kernel"));
  if (schedule.for_gpu) check_launches(kernel);
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
