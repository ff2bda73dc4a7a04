#include "host/driver/kernel_builder.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "host/loops/launch.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/targets/common/schedule_rules.h"
#include "host/targets/common/unit_axes.h"

namespace gantry {
namespace {

double scalar_value(const ConstantData& constant) {
  switch (constant.type.dtype) {
    case DType::kF32:
      return *constant.as<float>();
    case DType::kF64:
      return *constant.as<double>();
    case DType::kI4:
    case DType::kI2:
    case DType::kI8:
      return *constant.as<int8_t>();
    case DType::kI16:
      return *constant.as<int16_t>();
    case DType::kI32:
      return *constant.as<int32_t>();
    case DType::kU4:
    case DType::kU2:
    case DType::kU8:
    case DType::kBool:
      return *constant.as<uint8_t>();
    case DType::kU16:
      return *constant.as<uint16_t>();
    case DType::kU32:
      return *constant.as<uint32_t>();
    default:
      internal_error("a scalar constant of type {} cannot be an immediate", name_of(constant.type.dtype));
  }
}

// A one-element constant as a tensor expression that is inlined as an immediate.
Tensor immediate(const ConstantData& constant) {
  DType dtype = constant.type.dtype;
  Expr imm;
  if (is_float(dtype)) {
    imm = float_imm(dtype, scalar_value(constant));
  } else if (dtype == DType::kI64) {
    imm = int_imm(dtype, *constant.as<int64_t>());
  } else {
    imm = int_imm(dtype, static_cast<int64_t>(scalar_value(constant)));
  }
  return compute(
      to_exprs(constant.type.shape), [&](const std::vector<Expr>&) { return imm; }, "immediate");
}

std::string source_of(const KernelWork::Step& step) {
  if (step.origin.empty()) return step.op->name;
  return fmt::format("{} of {}", step.op->name, fmt::join(step.origin, ", "));
}

// Everything between the inputs and the results comes from one step, and is computed as was decided for it.
void name_source(const std::vector<Tensor>& results, const std::vector<Tensor>& inputs,
                 const KernelWork::Step& step) {
  const std::string source = source_of(step);
  for (const Operation& op : topological_order(results)) {
    const bool given = std::ranges::any_of(inputs, [&](const Tensor& t) { return t && t.op() == op; });
    const bool is_input = given || op->kind == OperationNode::Kind::kPlaceholder;
    if (is_input || !op->source.empty()) continue;
    op->source = source;
    op->decision = step.decision;
  }
}

// Asks the op for its expression, of a node that says what the step says.
std::vector<Tensor> compute_step(const KernelWork::Step& step, const std::vector<Tensor>& inputs) {
  internal_check(step.op->compute != nullptr, "op {} has no tensor expression", step.op->name);
  std::vector<std::unique_ptr<Value>> values;
  const auto value_of = [&](const TensorType& type) {
    values.push_back(std::make_unique<Value>());
    values.back()->type = type;
    return values.back().get();
  };
  Node node;
  node.op = step.op;
  node.origin = step.origin;
  node.attrs = step.attrs;
  for (size_t i = 0; i < step.inputs.size(); ++i)
    node.inputs.push_back(step.inputs[i] == KernelWork::kAbsent ? nullptr : value_of(step.input_types[i]));
  for (const TensorType& type : step.result_types) node.results.push_back(value_of(type));
  std::vector<Tensor> results = step.op->compute(node, inputs);
  name_source(results, inputs, step);
  return results;
}

KernelTensors expressions_of(const KernelWork& work) {
  KernelTensors kernel;
  std::vector<Tensor> tensors(work.slots().size());
  for (const int slot : work.buffer_slots()) {
    const TensorType& type = work.slots()[static_cast<size_t>(slot)].type;
    tensors[static_cast<size_t>(slot)] =
        placeholder(to_exprs(type.shape), type.dtype, "in" + std::to_string(kernel.inputs.size()));
    kernel.inputs.push_back(tensors[static_cast<size_t>(slot)]);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (const ConstantPtr& constant = work.slots()[i].immediate) tensors[i] = immediate(*constant);
  }
  for (const KernelWork::Step& step : work.steps()) {
    std::vector<Tensor> inputs;
    for (const int slot : step.inputs)
      inputs.push_back(slot == KernelWork::kAbsent ? Tensor() : tensors[static_cast<size_t>(slot)]);
    std::ranges::move(compute_step(step, inputs), tensors.begin() + step.first_result);
  }
  for (const int slot : work.outputs()) kernel.outputs.push_back(tensors[static_cast<size_t>(slot)]);
  return kernel;
}

// Sizes of buffers and grids are built from shapes, so they hold only what dimensions can express.
Dim to_dim(const Expr& e) {
  if (auto* imm = e.as<IntImmNode>()) return Dim(imm->value);
  if (auto* var = e.as<VarNode>(); var && var->is_symbol) return Dim::symbol(var->name);
  if (auto* binary = e.as<BinaryNode>()) {
    Dim a = to_dim(binary->a), b = to_dim(binary->b);
    switch (binary->op) {
      case BinaryOp::kAdd:
        return a + b;
      case BinaryOp::kSub:
        return a - b;
      case BinaryOp::kMul:
        return a * b;
      case BinaryOp::kDiv:  // sizes are not negative
      case BinaryOp::kFloorDiv:
        return floordiv(a, b);
      case BinaryOp::kMod:
        return mod(a, b);
      case BinaryOp::kMin:
        return min(a, b);
      case BinaryOp::kMax:
        return max(a, b);
      default:
        break;
    }
  }
  internal_error("the size of a buffer or grid is not a dimension: {}", to_string(e));
}

const Function* body_of(const Node& node) {
  return node.bodies.empty() ? nullptr : node.bodies.front().get();
}

// What a kernel is for are its sums rather than its arithmetic, and that rather than index maps.
int weight_of(FusionClass fusion) {
  switch (fusion) {
    case FusionClass::kInjective:
      return 0;
    case FusionClass::kElementwise:
    case FusionClass::kBroadcast:
      return 1;
    case FusionClass::kReduction:
    case FusionClass::kOutElementwiseFusable:
    case FusionClass::kOpaque:
      return 2;
  }
  internal_error("unknown fusion class");
}

// What a node must read of an input: all of it, or as much as it picks.
Dim bytes_read(const Node& node, size_t input) {
  const Dim all = node.inputs[input]->type.byte_size();
  const Function* body = body_of(node);
  if (!body) {
    if (!op_def(node).reads_part || input != 0) return all;
    return min(all, element_count(node.result()->type.shape) * byte_width(node.inputs[0]->type.dtype));
  }
  Dim picked = 0;
  for (const Node* inner : body->nodes()) {
    for (size_t i = 0; i < inner->inputs.size(); ++i) {
      if (inner->inputs[i] == body->parameters[input]) picked = picked + bytes_read(*inner, i);
    }
  }
  return min(all, picked);
}

/// A kernel whose schedule fits; an internal error otherwise.
LoopKernel fitting(std::variant<LoopKernel, ScheduleMisfit> lowered, const std::string& name) {
  if (const auto* misfit = std::get_if<ScheduleMisfit>(&lowered))
    internal_error("kernel {}: its schedule asks for more than there is: {}", name, misfit->reason);
  return std::move(std::get<LoopKernel>(lowered));
}

/// What a target's rules make of it. A GPU's blocks have hard limits, and a slow kernel serves a user better than none:
/// where the rules ask for more, there are no tiles, and `misfit` says why.
LoopKernel lower_by_rules(const KernelTensors& kernel, const Target& target, const std::string& name, bool verified,
                          const LoopObserver& observe, std::string& misfit) {
  if (!target.for_gpu()) {
    const KernelTensors plain = without_unit_axes(kernel);
    return fitting(lower_kernel(make_schedule(plain.outputs, target), plain.inputs, name, observe, verified), name);
  }
  Schedule schedule = make_schedule(kernel.outputs, target);
  auto lowered = lower_kernel(schedule, kernel.inputs, name, {}, verified);
  if (const auto* why = std::get_if<ScheduleMisfit>(&lowered)) {
    misfit = why->reason;
    schedule = make_plain_gpu_schedule(kernel.outputs, target);
    lowered = lower_kernel(schedule, kernel.inputs, name, {}, verified);
  }
  // A listener hears only of the schedule that is taken.
  if (observe) lowered = lower_kernel(schedule, kernel.inputs, name, observe, verified);
  return fitting(std::move(lowered), name);
}

}  // namespace

KernelSizes KernelSizes::bound_by(const KernelWork& work) const {
  KernelSizes bound = *this;
  for (std::vector<Dim>* dims : {&bound.dims, &bound.scratch_bytes, &bound.grids, &bound.loops}) {
    for (Dim& dim : *dims) dim = work.bound(dim);
  }
  return bound;
}

BuiltKernel build_kernel(const Node& node, const KernelWork& work, const Target& target,
                         const std::string& name, const LoopObserver& observe,
                         const CompileOptions& options) {
  BuiltKernel built;
  const bool verified = options.verify || verifies_always();
  const KernelTensors tensors = expressions_of(work);
  if (const auto own = options.own_kernel ? options.own_kernel(node, tensors.outputs) : std::nullopt) {
    auto lowered = lower_kernel(*own->schedule, own->inputs, name, observe, verified);
    if (const auto* misfit = std::get_if<ScheduleMisfit>(&lowered))
      user_error("the schedule that was given asks for more than there is: {}", misfit->reason);
    built.kernel = std::move(std::get<LoopKernel>(lowered));
  } else {
    built.kernel = lower_by_rules(tensors, target, name, verified, observe, built.misfit);
  }
  KernelSizes& sizes = built.sizes;
  for (const std::string& symbol : built.kernel.symbols) sizes.dims.push_back(Dim::symbol(symbol));
  for (const Buffer& buffer : built.kernel.scratch)
    sizes.scratch_bytes.push_back(to_dim(buffer->element_count) * byte_width(buffer->dtype));
  if (target.device == DeviceKind::kGpu) {
    const LaunchPlan plan = plan_launches(built.kernel);
    for (const LaunchShape& launch : plan.launches) {
      for (const Expr& blocks : launch.grid) sizes.grids.push_back(to_dim(blocks));
    }
    for (const Expr& iterations : plan.loops) sizes.loops.push_back(to_dim(iterations));
  }
  return built;
}

std::string display_name(const Node& node) {
  const Function* body = body_of(node);
  if (!body) {
    const std::string algorithm = op_def(node).algorithm ? op_def(node).algorithm(node) : std::string();
    return algorithm.empty() ? node.op->name : fmt::format("{}[{}]", node.op->name, algorithm);
  }
  std::string name;
  for (const Node* inner : body->nodes()) name += (name.empty() ? "" : "+") + display_name(*inner);
  return name;
}

std::string main_op(const Node& node) {
  const Function* body = body_of(node);
  if (!body) return node.op->name;
  // Of those that weigh as much the first: others follow it.
  const Node* main = body->nodes().front();
  for (const Node* inner : body->nodes()) {
    if (weight_of(op_def(*inner).fusion) > weight_of(op_def(*main).fusion)) main = inner;
  }
  return main->op->name;
}

Dim flops_of(const Node& node) {
  if (const Function* body = body_of(node)) {
    Dim total = 0;
    for (const Node* inner : body->nodes()) total = total + flops_of(*inner);
    return total;
  }
  if (op_def(node).flops) return op_def(node).flops(node);
  return element_count(node.result()->type.shape);
}

Dim bytes_of(const Node& node) {
  Dim total = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i]) total = total + bytes_read(node, i);
  }
  for (const Value* result : node.results) total = total + result->type.byte_size();
  return total;
}

}  // namespace gantry
