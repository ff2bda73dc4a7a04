// A plan of a module: which buffers a function's values are, and its steps.
#include "host/driver/plan_builder.h"

#include <algorithm>
#include <set>

#include "device_runtime/src/module_format.h"
#include "host/ops/device_copy.h"
#include "host/ops/op.h"
#include "host/passes/symbol_order.h"
#include "host/support/error.h"

namespace gantry {

ModuleBuilder::PlanBuilder::PlanBuilder(VariantBuilder& variant, const Function& function)
    : builder_(variant.builder()), variant_(variant), function_(function), calls_(variant.calls()) {
  auto plan_for = [&](mf::Device device) {
    auto scratch = [&](const Node& node) {
      auto call = calls_.find(&node);
      return call == calls_.end() ? std::vector<Dim>{} : call->second->sizes.scratch_bytes;
    };
    return plan_memory(function_, scratch, [&](const Node& node) { return device_of(node) == device; });
  };
  plans_[mf::Device::Cpu] = plan_for(mf::Device::Cpu);
  if (variant.has_gpu_memory()) plans_[variant.gpu()] = plan_for(variant.gpu());
  // What shows of what size it is only later is copied when that is known.
  const std::set<const Value*> late = outputs_sized_late(function_);
  for (size_t i = 0; i < function_.outputs.size(); ++i) {
    if (!late.contains(function_.outputs[i])) claim_output(i);
  }
}

mf::PlanT ModuleBuilder::PlanBuilder::build() {
  const bool in_stretches = !variant_.is_main(function_) || has_control_flow(function_) ||
                            binds_symbols(function_) || calls_builtins(function_);
  if (in_stretches) begin_stretch();
  for (const Node* node : function_.nodes()) {
    if (is_device_copy(*node)) {
      add_device_copy(*node);
    } else if (const auto* binding = node->match(op::bind_dims)) {
      add_binding(*node, *binding);
    } else if (const auto* branch = node->match(op::if_else)) {
      add_if(*node, *branch);
    } else if (const auto* loop = node->match(op::loop)) {
      add_loop(*node, *loop);
    } else if (const auto attributes = builtin_attributes(*node)) {
      add_builtin(*node, *attributes);
    } else if (auto call = calls_.find(node); call != calls_.end()) {
      add_call(*call->second);
    }
  }
  for (size_t i = 0; i < function_.outputs.size(); ++i) copy_output(i);
  plan_.results = static_cast<uint32_t>(results_.size());
  return std::move(plan_);
}

mf::Device ModuleBuilder::PlanBuilder::device_of(const Node& node) const {
  if (!variant_.has_gpu_memory()) return mf::Device::Cpu;
  if (is_device_copy(node)) {
    using Destination = DeviceCopyAttrs::Destination;
    const bool to_gpu = node.attrs_as<DeviceCopyAttrs>().destination == Destination::kGpu;
    return to_gpu ? variant_.gpu() : mf::Device::Cpu;
  }
  return node.placement == Placement::kCpu ? mf::Device::Cpu : variant_.gpu();
}

void ModuleBuilder::PlanBuilder::claim_output(size_t index) {
  Value* root = root_of_views(function_.outputs[index]);
  // What control flow gives lies where the plan has put it that it has run.
  if (root->kind != Value::Kind::kResult || is_control_flow(*root->producer)) return;
  written_in_place_.try_emplace(root, index);
}

uint32_t ModuleBuilder::PlanBuilder::add_buffer(mf::BufferKind kind, uint32_t index, const Dim& offset, const Dim& bytes,
                                                mf::Device device) {
  auto buffer = std::make_unique<mf::BufferT>();
  buffer->kind = kind;
  buffer->index = index;
  buffer->offset = builder_.dim_expr(offset);
  buffer->bytes = builder_.dim_expr(bytes);
  buffer->device = device;
  plan_.buffers.push_back(std::move(buffer));
  return static_cast<uint32_t>(plan_.buffers.size() - 1);
}

uint32_t ModuleBuilder::PlanBuilder::buffer_of(Value* value, mf::Device device) {
  Value* root = root_of_views(value);
  const auto key = std::pair(static_cast<const Value*>(root), device);
  auto found = buffers_.find(key);
  if (found != buffers_.end()) return found->second;
  internal_check(root->kind != Value::Kind::kResult || device_of(*root->producer) == device,
                 "value {} is read on another device than it lies on", root->name);
  return buffers_[key] = make_buffer(root, device);
}

uint32_t ModuleBuilder::PlanBuilder::make_buffer(Value* root, mf::Device device) {
  Dim bytes = root->type.byte_size();
  if (root->kind == Value::Kind::kParameter) {
    size_t index = 0;
    while (function_.parameters[index] != root) ++index;
    return add_buffer(mf::BufferKind::Input, static_cast<uint32_t>(index), 0, bytes, device);
  }
  if (root->kind == Value::Kind::kConstant) {
    return add_buffer(mf::BufferKind::Constant, variant_.constant_index(*root), 0, bytes, device);
  }
  if (auto output = written_in_place_.find(root); output != written_in_place_.end()) {
    return add_buffer(mf::BufferKind::Output, static_cast<uint32_t>(output->second), 0, bytes, device);
  }
  if (const auto result = results_.find(root); result != results_.end())
    return add_buffer(mf::BufferKind::Result, result->second, 0, bytes, device);
  const MemoryPlan& plan = plans_[device];
  auto slot = plan.slots.find(root);
  internal_check(slot != plan.slots.end(), "the memory plan has no place for value {}", root->name);
  const auto& [offset, size, kept_by] = slot->second;
  if (kept_by) return add_buffer(mf::BufferKind::Kept, static_cast<uint32_t>(*kept_by), offset, bytes, device);
  return add_buffer(mf::BufferKind::Workspace, 0, offset, bytes, device);
}

void ModuleBuilder::PlanBuilder::add_call(const KernelCall& call) {
  internal_check(call.step == plan_.steps.size(), "step {} of the plan is at {}", call.step,
                 plan_.steps.size());
  const mf::Device device = device_of(*call.node);
  const MemoryPlan& plan = plans_[device];
  mf::CallKernelT action;
  action.kernel = static_cast<uint32_t>(call.kernel);
  for (Value* input : call.inputs) action.buffers.push_back(buffer_of(input, device));
  for (Value* result : call.node->results) action.buffers.push_back(buffer_of(result, device));
  if (auto scratch = plan.scratch.find(call.node); scratch != plan.scratch.end()) {
    for (const MemoryPlan::Slot& slot : scratch->second) {
      action.buffers.push_back(add_buffer(mf::BufferKind::Workspace, 0, slot.offset, slot.bytes, device));
    }
  }
  for (const Dim& dim : call.sizes.dims) action.dims.push_back(builder_.dim_expr(dim));
  for (const Dim& blocks : call.sizes.grids) action.grids.push_back(builder_.dim_expr(blocks));
  for (const Dim& iterations : call.sizes.loops) action.loops.push_back(builder_.dim_expr(iterations));
  action.origin = call.node->origin;
  action.flops = builder_.dim_expr(flops_of(*call.node));
  action.bytes = builder_.dim_expr(bytes_of(*call.node));
  add_step(std::move(action));
}

void ModuleBuilder::PlanBuilder::begin_stretch() {
  const auto& plan = plans_[mf::Device::Cpu].stretches[plan_.stretches.size()];
  auto stretch = std::make_unique<mf::StretchT>();
  stretch->first_step = static_cast<uint32_t>(plan_.steps.size());
  stretch->workspace_bytes = builder_.dim_expr(plan.workspace_bytes);
  stretch->kept_bytes = builder_.dim_expr(plan.kept_bytes);
  plan_.stretches.push_back(std::move(stretch));
}

void ModuleBuilder::PlanBuilder::add_binding(const Node& node, const BindDimsAttrs& attrs) {
  mf::BindSymbolsT action;
  for (const Dim& symbol : attrs.symbols) action.symbols.push_back(builder_.symbol(symbol.str()));
  for (const Dim& symbol : attrs.negatives) action.negatives.push_back(builder_.symbol(symbol.str()));
  for (const Dim& value : attrs.values) action.values.push_back(builder_.dim_expr(value));
  if (!node.inputs.empty() && node.inputs[0] != nullptr) {
    action.buffer = static_cast<int32_t>(buffer_of(node.inputs[0], mf::Device::Cpu));
    action.element = dtype_in_modules(node.inputs[0]->type.dtype);
  }
  action.origin = node.origin;
  add_step(std::move(action));
  begin_stretch();
}

void ModuleBuilder::PlanBuilder::add_if(const Node& node, const IfAttrs& attrs) {
  mf::RunIfT action;
  action.condition = buffer_of(node.inputs[0], mf::Device::Cpu);
  for (Value* input : inputs_of_body(node, 0)) action.then_inputs.push_back(buffer_of(input, mf::Device::Cpu));
  for (Value* input : inputs_of_body(node, 1)) action.else_inputs.push_back(buffer_of(input, mf::Device::Cpu));
  action.then_plan = variant_.add_plan(*node.bodies[0]);
  action.else_plan = variant_.add_plan(*node.bodies[1]);
  action.first_result = static_cast<uint32_t>(results_.size());
  size_t dim = 0;
  for (size_t i = 0; i < node.results.size(); ++i) {
    results_.emplace(node.results[i], static_cast<uint32_t>(results_.size()));
    for (size_t axis = 0; axis < node.results[i]->type.shape.size(); ++axis, ++dim) {
      if (std::ranges::find(attrs.symbols, attrs.dims[dim]) == attrs.symbols.end()) continue;
      action.symbols.emplace_back(builder_.symbol(attrs.dims[dim].str()), static_cast<uint32_t>(i),
                                  static_cast<uint32_t>(axis));
    }
  }
  action.origin = node.origin;
  add_step(std::move(action));
  begin_stretch();
}

void ModuleBuilder::PlanBuilder::add_loop(const Node& node, const LoopAttrs& attrs) {
  const LoopInputs inputs = inputs_of_loop(node);
  const Function& body = *node.bodies[0];
  mf::RunLoopT action;
  const auto buffer = [&](Value* value) { return buffer_of(value, mf::Device::Cpu); };
  if (inputs.count != nullptr) action.count = static_cast<int32_t>(buffer(inputs.count));
  if (inputs.condition != nullptr) action.condition = static_cast<int32_t>(buffer(inputs.condition));
  for (const auto* list : {&inputs.states, &inputs.others}) {
    for (Value* value : *list) action.inputs.push_back(buffer(value));
  }
  action.states = static_cast<uint32_t>(inputs.states.size());
  action.plan = variant_.add_plan(body);
  action.first_result = static_cast<uint32_t>(results_.size());
  const auto add_symbols = [&](const Shape& shape, const Shape& bound, size_t result,
                               std::vector<mf::LoopSymbol>& symbols) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (std::ranges::find(bound, shape[axis]) == bound.end()) continue;
      const Dim initial = result < inputs.states.size() ? inputs.states[result]->type.shape[axis] : Dim(0);
      symbols.emplace_back(builder_.symbol(shape[axis].str()), static_cast<uint32_t>(result),
                           static_cast<uint32_t>(axis), builder_.dim_expr(initial));
    }
  };
  for (size_t i = 0; i < node.results.size(); ++i) {
    results_.emplace(node.results[i], static_cast<uint32_t>(results_.size()));
    add_symbols(node.results[i]->type.shape, attrs.symbols, i, action.symbols);
    if (i < inputs.states.size()) add_symbols(body.parameters[2 + i]->type.shape, attrs.entry, i, action.entry);
  }
  action.origin = node.origin;
  add_step(std::move(action));
  begin_stretch();
}

std::unique_ptr<mf::BuiltinTensorT> ModuleBuilder::PlanBuilder::builtin_tensor(Value* value) {
  auto tensor = std::make_unique<mf::BuiltinTensorT>();
  tensor->buffer = buffer_of(value, mf::Device::Cpu);
  tensor->dtype = dtype_in_modules(value->type.dtype);
  for (const Dim& dim : value->type.shape) tensor->shape.push_back(builder_.dim_expr(dim));
  return tensor;
}

void ModuleBuilder::PlanBuilder::add_builtin(const Node& node, const BuiltinAttributes& attributes) {
  mf::CallBuiltinT action;
  action.function = node.op->name;
  for (Value* input : node.inputs) {
    if (input != nullptr) action.inputs.push_back(builtin_tensor(input));
  }
  for (Value* result : node.results) action.outputs.push_back(builtin_tensor(result));
  action.integers = attributes.integers;
  action.text = attributes.text;
  action.origin = node.origin;
  builder_.require_feature(attributes.feature);
  add_step(std::move(action));
}

void ModuleBuilder::PlanBuilder::add_device_copy(const Node& node) {
  mf::CopyBufferT action;
  Value* source = node.inputs[0];
  const Value* root = root_of_views(source);
  const bool made_here = root->kind == Value::Kind::kResult;
  action.source = buffer_of(source, made_here ? device_of(*root->producer) : mf::Device::Cpu);
  action.target = buffer_of(node.result(), device_of(node));
  add_step(std::move(action));
}

void ModuleBuilder::PlanBuilder::copy_output(size_t index) {
  Value* root = root_of_views(function_.outputs[index]);
  auto in_place = written_in_place_.find(root);
  if (in_place != written_in_place_.end() && in_place->second == index) return;
  mf::CopyBufferT action;
  const bool made_here = root->kind == Value::Kind::kResult;
  const mf::Device device = made_here ? device_of(*root->producer) : mf::Device::Cpu;
  action.source = buffer_of(root, device);
  action.target =
      add_buffer(mf::BufferKind::Output, static_cast<uint32_t>(index), 0, root->type.byte_size(), device);
  add_step(std::move(action));
}

}  // namespace gantry
