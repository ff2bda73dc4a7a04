#include "host/driver/module_builder.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <tuple>

#include "device_runtime/src/module_format.h"
#include "host/codegen/cpu_family.h"
#include "host/codegen/gpu_family.h"
#include "host/driver/decision_file.h"
#include "host/loops/launch.h"
#include "host/ops/bind_dims.h"
#include "host/ops/device_copy.h"
#include "host/ops/op.h"
#include "host/ops/size_meaning.h"
#include "host/passes/passes.h"
#include "host/support/error.h"

namespace gantry {
namespace {

namespace mf = module_format;

constexpr uint64_t kConstantAlignment = 64;

mf::DimOpcode opcode_of(Dim::Opcode opcode) {
  switch (opcode) {
    case Dim::Opcode::kConstant:
      return mf::DimOpcode::Constant;
    case Dim::Opcode::kSymbol:
      return mf::DimOpcode::Symbol;
    case Dim::Opcode::kAdd:
      return mf::DimOpcode::Add;
    case Dim::Opcode::kMul:
      return mf::DimOpcode::Mul;
    case Dim::Opcode::kFloorDiv:
      return mf::DimOpcode::FloorDiv;
    case Dim::Opcode::kMod:
      return mf::DimOpcode::Mod;
    case Dim::Opcode::kMax:
      return mf::DimOpcode::Max;
    case Dim::Opcode::kMin:
      return mf::DimOpcode::Min;
  }
  internal_error("unknown dimension opcode");
}

// The enumerators are declared in the same order on both sides.
mf::DType dtype_of(DType dtype) {
  static_assert(static_cast<int>(DType::kU2) == static_cast<int>(mf::DType::U2));
  return static_cast<mf::DType>(dtype);
}

mf::SizeMeaning meaning_of(SizeMeaning meaning) {
  static_assert(static_cast<int>(SizeMeaning::kSamples) == static_cast<int>(mf::SizeMeaning::Samples));
  return static_cast<mf::SizeMeaning>(meaning);
}

// Of the size and both ends: constants that agree in these are compared byte by byte.
size_t content_hash(const ConstantData& constant) {
  constexpr size_t kEnd = 4096;
  const std::string_view bytes(reinterpret_cast<const char*>(constant.bytes), constant.size);
  const std::string_view last = bytes.substr(bytes.size() - std::min(bytes.size(), kEnd));
  const std::hash<std::string_view> hash;
  return hash(bytes.substr(0, kEnd)) ^ (hash(last) * 31) ^ bytes.size();
}

uint64_t aligned(uint64_t offset) {
  return (offset + kConstantAlignment - 1) / kConstantAlignment * kConstantAlignment;
}

/// Code is whole when it is added; weights come one by one, and each is looked for among all.
bool is_complete(mf::SegmentKind kind) {
  return kind != mf::SegmentKind::Weights;
}

bool equal_bytes(const SegmentData& a, const SegmentData& b) {
  return a.size == b.size && std::ranges::equal(a.pieces, b.pieces, [](const auto& x, const auto& y) {
           return x.offset == y.offset && std::ranges::equal(x.bytes, y.bytes);
         });
}

SegmentData segment_of(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  SegmentData data;
  data.size = owner->size();
  data.pieces.push_back({0, {owner->data(), owner->size()}, owner});
  return data;
}

}  // namespace

ModuleBuilder::ModuleBuilder(const Graph& graph) {
  mf::ManifestT& manifest = module_.manifest;
  manifest.producer = "gantry 0.1.0";
  manifest.model_name = graph.model_name;
  for (const Value* input : graph.main.parameters)
    manifest.inputs.push_back(tensor_info(input->name, input->type));
  for (size_t i = 0; i < graph.main.outputs.size(); ++i) {
    const Value* output = graph.main.outputs[i];
    // A graph read from text has no names but those of its values.
    const std::string& name = i < graph.main.output_names.size() ? graph.main.output_names[i] : output->name;
    manifest.outputs.push_back(tensor_info(name, output->type));
  }
  std::vector<DimConstraint> constraints = graph.main.constraints;
  for (const auto& [name, range] : graph.main.ranges()) {
    const Dim symbol = Dim::symbol(name);  // without its range, in which all values are what is asked for
    constraints.push_back({max(Dim(range.low), min(symbol, Dim(range.high))), symbol,
                           fmt::format("the range {} that {} was given", to_string(range), name)});
  }
  for (const DimConstraint& constraint : constraints) {
    auto entry = std::make_unique<mf::ConstraintT>();
    entry->left = dim_expr(constraint.left);
    entry->right = dim_expr(constraint.right);
    entry->origin = constraint.origin;
    manifest.constraints.push_back(std::move(entry));
  }
  // Here all symbols are known: each is a dimension of an input.
  const auto meanings = size_meanings(graph.main);
  for (const std::string& name : manifest.symbols) {
    const auto found = meanings.find(name);
    manifest.symbol_meanings.push_back(found == meanings.end() ? mf::SizeMeaning::Unknown
                                                               : meaning_of(found->second));
  }
}

uint32_t ModuleBuilder::symbol(const std::string& name) {
  auto [entry, is_new] = symbols_.try_emplace(name, static_cast<uint32_t>(module_.manifest.symbols.size()));
  if (is_new) module_.manifest.symbols.push_back(name);
  return entry->second;
}

uint32_t ModuleBuilder::dim_expr(const Dim& dim) {
  auto [entry, is_new] =
      dim_exprs_.try_emplace(dim.str(), static_cast<uint32_t>(module_.manifest.dim_exprs.size()));
  if (is_new) {
    auto program = std::make_unique<mf::DimExprT>();
    dim.visit_postfix([&](Dim::Opcode opcode, int64_t constant, const std::string& name) {
      int64_t value = opcode == Dim::Opcode::kSymbol ? symbol(name) : constant;
      program->steps.emplace_back(value, opcode_of(opcode));
    });
    module_.manifest.dim_exprs.push_back(std::move(program));
  }
  return entry->second;
}

std::unique_ptr<mf::TensorInfoT> ModuleBuilder::tensor_info(const std::string& name, const TensorType& type) {
  auto info = std::make_unique<mf::TensorInfoT>();
  info->name = name;
  info->dtype = dtype_of(type.dtype);
  for (const Dim& dim : type.shape) info->shape.push_back(dim_expr(dim));
  return info;
}

mf::ConstantRef ModuleBuilder::place_constant(const ConstantPtr& constant, uint32_t weights_segment) {
  size_t hash = content_hash(*constant);
  auto [first, end] = placed_.equal_range(hash);
  for (auto it = first; it != end; ++it) {
    const Placed& placed = it->second;
    if (placed.constant->size == constant->size &&
        std::memcmp(placed.constant->bytes, constant->bytes, constant->size) == 0) {
      return {placed.segment, placed.offset, constant->size};
    }
  }
  SegmentData& weights = module_.segments[weights_segment];
  uint64_t offset = aligned(weights.size);
  weights.pieces.push_back({offset, {constant->bytes, constant->size}, constant});
  weights.size = offset + constant->size;
  placed_.emplace(hash, Placed{constant, weights_segment, offset});
  return {weights_segment, offset, constant->size};
}

uint32_t ModuleBuilder::add_segment(mf::SegmentKind kind, SegmentData data) {
  for (size_t i = 0; i < module_.segments.size(); ++i) {
    if (module_.segment_kinds[i] == kind && is_complete(kind) && equal_bytes(module_.segments[i], data))
      return static_cast<uint32_t>(i);
  }
  module_.segments.push_back(std::move(data));
  module_.segment_kinds.push_back(kind);
  return static_cast<uint32_t>(module_.segments.size() - 1);
}

// Assigns buffers to values and writes the steps of one variant.
class ModuleBuilder::VariantBuilder {
 public:
  VariantBuilder(ModuleBuilder& builder, const Program& program, const Target& target,
                 uint32_t weights_segment)
      : builder_(builder),
        program_(program),
        main_(program.graph.main),
        gpu_(target.device == DeviceKind::kGpu ? device_in_modules(target) : mf::Device::Cpu),
        weights_segment_(weights_segment) {
    for (const KernelCall& call : program.calls) calls_[call.node] = &call;
    auto plan_for = [&](mf::Device device) {
      auto scratch = [&](const Node& node) {
        auto call = calls_.find(&node);
        return call == calls_.end() ? std::vector<Dim>{} : call->second->sizes.scratch_bytes;
      };
      return plan_memory(main_, scratch, [&](const Node& node) { return device_of(node) == device; });
    };
    plans_[mf::Device::Cpu] = plan_for(mf::Device::Cpu);
    if (has_gpu_memory()) plans_[gpu_] = plan_for(gpu_);
    for (size_t i = 0; i < main_.outputs.size(); ++i) claim_output(i);
  }

  std::unique_ptr<mf::VariantT> build() {
    for (size_t i = 0; i < program_.kernels.size(); ++i) add_kernel(i);
    if (plans_[mf::Device::Cpu].stretches.size() > 1) begin_stretch();
    for (const Node* node : main_.nodes()) {
      if (is_device_copy(*node)) {
        add_device_copy(*node);
      } else if (const auto* binding = node->match(op::bind_dims)) {
        add_binding(*node, *binding);
      } else if (auto call = calls_.find(node); call != calls_.end()) {
        add_call(*call->second);
      }
    }
    for (size_t i = 0; i < main_.outputs.size(); ++i) copy_output(i);
    variant_->workspace_bytes = builder_.dim_expr(plans_[mf::Device::Cpu].workspace_bytes);
    variant_->gpu_workspace_bytes = builder_.dim_expr(has_gpu_memory() ? plans_[gpu_].workspace_bytes : Dim(0));
    if (!variant_->stretches.empty()) builder_.require_feature(mf::kDataDependentShapes);
    return std::move(variant_);
  }

 private:
  // Where a node runs and its results lie. An emulated GPU has no memory of its own.
  bool has_gpu_memory() const { return gpu_ != mf::Device::Cpu; }
  mf::Device device_of(const Node& node) const {
    if (!has_gpu_memory()) return mf::Device::Cpu;
    if (is_device_copy(node)) {
      using Destination = DeviceCopyAttrs::Destination;
      const bool to_gpu = node.attrs_as<DeviceCopyAttrs>().destination == Destination::kGpu;
      return to_gpu ? gpu_ : mf::Device::Cpu;
    }
    return node.placement == Placement::kCpu ? mf::Device::Cpu : gpu_;
  }

  // The first output that shows a kernel's result is written by the kernel itself; the others are copies.
  void claim_output(size_t index) {
    Value* root = root_of_views(main_.outputs[index]);
    if (root->kind != Value::Kind::kResult) return;
    written_in_place_.try_emplace(root, index);
  }

  uint32_t add_buffer(mf::BufferKind kind, uint32_t index, const Dim& offset, const Dim& bytes,
                      mf::Device device) {
    auto buffer = std::make_unique<mf::BufferT>();
    buffer->kind = kind;
    buffer->index = index;
    buffer->offset = builder_.dim_expr(offset);
    buffer->bytes = builder_.dim_expr(bytes);
    buffer->device = device;
    variant_->buffers.push_back(std::move(buffer));
    return static_cast<uint32_t>(variant_->buffers.size() - 1);
  }

  // The value as `device` sees it. Inputs and constants have a buffer in each memory that wants them.
  uint32_t buffer_of(Value* value, mf::Device device) {
    Value* root = root_of_views(value);
    const auto key = std::pair(static_cast<const Value*>(root), device);
    auto found = buffers_.find(key);
    if (found != buffers_.end()) return found->second;
    internal_check(root->kind != Value::Kind::kResult || device_of(*root->producer) == device,
                   "value {} is read on another device than it lies on", root->name);
    return buffers_[key] = make_buffer(root, device);
  }

  uint32_t make_buffer(Value* root, mf::Device device) {
    Dim bytes = root->type.byte_size();
    if (root->kind == Value::Kind::kParameter) {
      size_t index = 0;
      while (main_.parameters[index] != root) ++index;
      return add_buffer(mf::BufferKind::Input, static_cast<uint32_t>(index), 0, bytes, device);
    }
    if (root->kind == Value::Kind::kConstant) {
      return add_buffer(mf::BufferKind::Constant, constant_index(*root), 0, bytes, device);
    }
    if (auto output = written_in_place_.find(root); output != written_in_place_.end()) {
      return add_buffer(mf::BufferKind::Output, static_cast<uint32_t>(output->second), 0, bytes, device);
    }
    const MemoryPlan& plan = plans_[device];
    auto slot = plan.slots.find(root);
    internal_check(slot != plan.slots.end(), "the memory plan has no place for value {}", root->name);
    const auto& [offset, size, kept_by] = slot->second;
    if (kept_by) return add_buffer(mf::BufferKind::Kept, static_cast<uint32_t>(*kept_by), offset, bytes, device);
    return add_buffer(mf::BufferKind::Workspace, 0, offset, bytes, device);
  }

  // Values of equal bytes are one constant of the variant.
  uint32_t constant_index(const Value& value) {
    const mf::ConstantRef place = builder_.place_constant(value.constant, weights_segment_);
    const auto [entry, is_new] = constants_.try_emplace({place.segment(), place.offset(), place.size()},
                                                        static_cast<uint32_t>(variant_->constants.size()));
    if (is_new) variant_->constants.push_back(place);
    return entry->second;
  }

  void add_kernel(size_t index) {
    const LoopKernel& kernel = program_.kernels[index];
    auto entry = std::make_unique<mf::KernelT>();
    entry->symbol = kernel.name;
    entry->name = program_.ops[index];
    entry->op = program_.main_ops[index];
    entry->buffer_count = static_cast<uint32_t>(kernel.arguments.size() + kernel.scratch.size());
    entry->dim_count = static_cast<uint32_t>(kernel.symbols.size());
    if (has_gpu_memory() && program_.on_gpu[index]) add_launches(kernel, *entry);
    variant_->kernels.push_back(std::move(entry));
  }

  void add_launches(const LoopKernel& kernel, mf::KernelT& entry) {
    entry.device = gpu_;
    const LaunchPlan plan = plan_launches(kernel);
    for (size_t i = 0; i < plan.launches.size(); ++i) {
      auto launch = std::make_unique<mf::LaunchT>();
      launch->symbol = fmt::format("{}_{}", kernel.name, i);
      launch->threads = static_cast<uint32_t>(plan.launches[i].threads);
      launch->shared_bytes = static_cast<uint32_t>(plan.launches[i].shared_bytes);
      launch->loop = plan.launches[i].loop;
      entry.launches.push_back(std::move(launch));
    }
  }

  void add_call(const KernelCall& call) {
    internal_check(call.step == variant_->steps.size(), "step {} of the plan is at {}", call.step,
                   variant_->steps.size());
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

  template <typename Action>
  void add_step(Action action) {
    auto step = std::make_unique<mf::StepT>();
    step->action.Set(std::move(action));
    variant_->steps.push_back(std::move(step));
  }

  // The steps that follow are of the next stretch.
  void begin_stretch() {
    const auto& plan = plans_[mf::Device::Cpu].stretches[variant_->stretches.size()];
    auto stretch = std::make_unique<mf::StretchT>();
    stretch->first_step = static_cast<uint32_t>(variant_->steps.size());
    stretch->workspace_bytes = builder_.dim_expr(plan.workspace_bytes);
    stretch->kept_bytes = builder_.dim_expr(plan.kept_bytes);
    variant_->stretches.push_back(std::move(stretch));
  }

  void add_binding(const Node& node, const BindDimsAttrs& attrs) {
    mf::BindSymbolsT action;
    for (const Dim& symbol : attrs.symbols) action.symbols.push_back(builder_.symbol(symbol.str()));
    for (const Dim& symbol : attrs.negatives) action.negatives.push_back(builder_.symbol(symbol.str()));
    for (const Dim& value : attrs.values) action.values.push_back(builder_.dim_expr(value));
    if (!node.inputs.empty() && node.inputs[0] != nullptr) {
      action.buffer = static_cast<int32_t>(buffer_of(node.inputs[0], mf::Device::Cpu));
      action.element = dtype_of(node.inputs[0]->type.dtype);
    }
    action.origin = node.origin;
    add_step(std::move(action));
    begin_stretch();
  }

  void add_device_copy(const Node& node) {
    mf::CopyBufferT action;
    Value* source = node.inputs[0];
    const Value* root = root_of_views(source);
    const bool made_here = root->kind == Value::Kind::kResult;
    action.source = buffer_of(source, made_here ? device_of(*root->producer) : mf::Device::Cpu);
    action.target = buffer_of(node.result(), device_of(node));
    add_step(std::move(action));
  }

  void copy_output(size_t index) {
    Value* root = root_of_views(main_.outputs[index]);
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

  ModuleBuilder& builder_;
  const Program& program_;
  const Function& main_;
  mf::Device gpu_;  ///< the CPU: there is no GPU with memory of its own
  uint32_t weights_segment_;
  std::map<const Node*, const KernelCall*> calls_;
  std::map<mf::Device, MemoryPlan> plans_;
  std::map<const Value*, size_t> written_in_place_;
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, uint32_t> constants_;  ///< by place; index
  std::map<std::pair<const Value*, mf::Device>, uint32_t> buffers_;
  std::unique_ptr<mf::VariantT> variant_ = std::make_unique<mf::VariantT>();
};

void ModuleBuilder::add_variant(const Program& program, const Target& target, CodeImage image, GpuImage gpu,
                                const std::map<std::string, int64_t>& sizes) {
  const uint32_t code = add_segment(mf::SegmentKind::Code, segment_of(std::move(image.elf)));
  int32_t ptx = -1, cubin = -1;
  if (!gpu.entries.empty()) {
    const std::span text = std::as_bytes(std::span(gpu.ptx));
    ptx = static_cast<int32_t>(add_segment(mf::SegmentKind::Ptx, segment_of({text.begin(), text.end()})));
  }
  if (!gpu.cubin.empty()) {
    cubin = static_cast<int32_t>(add_segment(mf::SegmentKind::Cubin, segment_of(std::move(gpu.cubin))));
  }
  const uint32_t weights = add_segment(mf::SegmentKind::Weights, {});

  auto variant = VariantBuilder(*this, program, target, weights).build();
  variant->target = target.name;
  variant->architecture = family_of(target.host ? *target.host : target).in_modules;
  variant->device = device_in_modules(target);
  variant->gpu_arch = target.gpu_arch;
  variant->precision = name_of(target.precision);
  for (const NodeDecision& decision : program.decisions) variant->decisions.push_back(decision_line(decision));
  variant->features = target.features;
  variant->rank = static_cast<uint32_t>(target.rank);
  variant->code_segment = code;
  variant->ptx_segment = ptx;
  variant->cubin_segment = cubin;
  for (const auto& [name, size] : sizes) variant->specialized.emplace_back(size, symbol(name));
  if (!sizes.empty()) require_feature(mf::kSpecialized);
  module_.manifest.variants.push_back(std::move(variant));
  if (module_.segments.back().pieces.empty()) {
    module_.segments.pop_back();
    module_.segment_kinds.pop_back();
  }
}

void ModuleBuilder::require_feature(const char* feature) {
  auto& required = module_.manifest.requires_;
  if (std::ranges::find(required, feature) == required.end()) required.emplace_back(feature);
}

ModuleFile ModuleBuilder::finish() {
  return std::move(module_);
}

}  // namespace gantry
