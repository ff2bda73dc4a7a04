#include "host/driver/module_builder.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "device_runtime/src/module_format.h"
#include "host/codegen/cpu_codegen.h"
#include "host/codegen/custom_code.h"
#include "host/codegen/gpu_codegen.h"
#include "host/driver/decision_file.h"
#include "host/driver/plan_builder.h"
#include "host/graph/strings.h"
#include "host/loops/launch.h"
#include "host/ops/op.h"
#include "host/ops/size_meaning.h"
#include "host/support/error.h"
#include "host/support/spill_file.h"

namespace gantry {
namespace {

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

// The enumerators are declared in the same order on both sides.
mf::DType dtype_in_modules(DType dtype) {
  static_assert(static_cast<int>(DType::kString) == static_cast<int>(mf::DType::String));
  return static_cast<mf::DType>(dtype);
}

ModuleBuilder::ModuleBuilder(const Graph& graph) {
  mf::ManifestT& manifest = module_.manifest;
  manifest.producer = "gantry 0.1.0";
  manifest.model_name = graph.model_name;
  for (const Value* input : graph.main.parameters)
    manifest.inputs.push_back(tensor_info(input->name, input->type));
  for (size_t i = 0; i < graph.main.outputs.size(); ++i) {
    const Value* output = graph.main.outputs[i];
    // A graph that is no file may have no names but those of its values.
    const std::string& name = i < graph.main.output_names.size() ? graph.main.output_names[i] : output->name;
    manifest.outputs.push_back(tensor_info(name, output->type));
  }
  std::vector<DimConstraint> constraints = graph.main.constraints;
  for (const auto& [name, range] : graph.main.ranges()) {
    const Dim symbol = Dim::symbol(name);  // without its range, in which all values are what is asked for
    constraints.push_back({max(Dim(range.low), min(symbol, Dim(range.high))), symbol,
                           fmt::format("the range {} that {} was given", to_string(range), name)});
  }
  for (const DimConstraint& each : constraints) manifest.constraints.push_back(constraint(each));
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

namespace {

/// Runtimes refuse longer expressions.
void require_short(const mf::DimExprT& program, const Dim& dim) {
  size_t depth = 0, deepest = 0;
  for (const mf::DimStep& step : program.steps) {
    const bool is_operand =
        step.opcode() == mf::DimOpcode::Constant || step.opcode() == mf::DimOpcode::Symbol;
    is_operand ? ++depth : --depth;
    deepest = std::max(deepest, depth);
  }
  if (program.steps.size() <= mf::kMaxDimSteps && deepest <= mf::kMaxDimStack) return;
  constexpr size_t kShown = 8;
  std::vector<std::string> names = dim.symbols();
  const std::string_view more = names.size() > kShown ? ", …" : "";
  names.resize(std::min(names.size(), kShown));
  user_error(
      "a size that the model computes of {}{} is too long an expression for a module ({}…); fix some of the "
      "inputs' sizes with --shape or --dim",
      fmt::join(names, ", "), more, dim.str().substr(0, 80));
}

}  // namespace

uint32_t ModuleBuilder::dim_expr(const Dim& dim) {
  auto [entry, is_new] =
      dim_exprs_.try_emplace(dim.str(), static_cast<uint32_t>(module_.manifest.dim_exprs.size()));
  if (is_new) {
    auto program = std::make_unique<mf::DimExprT>();
    dim.visit_postfix([&](Dim::Opcode opcode, int64_t constant, const std::string& name) {
      int64_t value = opcode == Dim::Opcode::kSymbol ? symbol(name) : constant;
      program->steps.emplace_back(value, opcode_of(opcode));
    });
    require_short(*program, dim);
    module_.manifest.dim_exprs.push_back(std::move(program));
  }
  return entry->second;
}

std::unique_ptr<mf::ConstraintT> ModuleBuilder::constraint(const DimConstraint& constraint) {
  auto entry = std::make_unique<mf::ConstraintT>();
  entry->left = dim_expr(constraint.left);
  entry->right = dim_expr(constraint.right);
  entry->origin = constraint.origin;
  return entry;
}

namespace {

void require_module_rank(const TensorType& type, const std::string& what) {
  if (type.shape.size() > mf::kMaxRank)
    user_error("{} has {} dimensions: inputs and outputs have at most {}; reshape it in the model", what,
               type.shape.size(), mf::kMaxRank);
}

}  // namespace

std::unique_ptr<mf::TensorInfoT> ModuleBuilder::tensor_info(const std::string& name, const TensorType& type) {
  require_module_rank(type, fmt::format("'{}'", name));
  auto info = std::make_unique<mf::TensorInfoT>();
  info->name = name;
  info->dtype = dtype_in_modules(type.dtype);
  if (type.dtype == DType::kString) require_feature(mf::kStrings);
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
  const bool on_disk = is_on_disk(constant->owner);
  weights.pieces.push_back({offset,
                            {constant->bytes, constant->size},
                            on_disk ? constant->owner : std::shared_ptr<const void>(constant)});
  weights.size = offset + constant->size;
  placed_.emplace(hash, Placed{constant, weights_segment, offset});
  return {weights_segment, offset, constant->size};
}

ConstantPtr ModuleBuilder::in_module(const ConstantData& strings) {
  std::vector<std::string>& table = module_.manifest.strings;
  std::byte* bytes = nullptr;
  auto numbers = allocate_constant(strings.type, &bytes);
  for (const std::string& text : strings_of(strings)) {
    if (table.empty()) {
      table.emplace_back();
      strings_.emplace("", 0);
    }
    const auto [entry, is_new] = strings_.try_emplace(text, table.size());
    if (is_new) table.push_back(text);
    std::memcpy(bytes, &entry->second, sizeof entry->second);
    bytes += sizeof entry->second;
  }
  require_feature(mf::kStrings);
  return numbers;
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

ModuleBuilder::VariantBuilder::VariantBuilder(ModuleBuilder& builder, const Program& program, const Target& target,
               uint32_t weights_segment)
    : builder_(builder),
      program_(program),
      gpu_(target.device == DeviceKind::kGpu ? device_in_modules(target) : mf::Device::Cpu),
      weights_segment_(weights_segment) {
  for (const auto* calls : {&program.calls, &program.nested}) {
    for (const KernelCall& call : *calls) calls_[call.node] = &call;
  }
}

uint32_t ModuleBuilder::VariantBuilder::constant_index(const Value& value) {
  const bool is_strings = value.type.dtype == DType::kString;
  const mf::ConstantRef place = builder_.place_constant(
      is_strings ? builder_.in_module(*value.constant) : value.constant, weights_segment_);
  const auto [entry, is_new] = constants_.try_emplace({place.segment(), place.offset(), place.size()},
                                                      static_cast<uint32_t>(variant_->constants.size()));
  if (is_new) variant_->constants.push_back(place);
  return entry->second;
}

void ModuleBuilder::VariantBuilder::add_kernel(size_t index) {
  const LoopKernel& kernel = program_.kernels[index];
  auto entry = std::make_unique<mf::KernelT>();
  entry->symbol = kernel.name;
  entry->name = program_.ops[index];
  entry->op = program_.main_ops[index];
  entry->buffer_count = static_cast<uint32_t>(kernel.arguments.size() + kernel.scratch.size());
  entry->dim_count = static_cast<uint32_t>(kernel.symbols.size());
  if (has_gpu_memory() && program_.on_gpu[index]) add_launches(index, *entry);
  variant_->kernels.push_back(std::move(entry));
}

void ModuleBuilder::VariantBuilder::add_launches(size_t index, mf::KernelT& entry) {
  const LoopKernel& kernel = program_.kernels[index];
  const auto custom = program_.custom.find(index);
  entry.device = gpu_;
  const LaunchPlan plan = plan_launches(kernel);
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    auto launch = std::make_unique<mf::LaunchT>();
    launch->symbol = custom == program_.custom.end() ? fmt::format("{}_{}", kernel.name, i)
                                                     : linked_gpu_name(*custom->second->code);
    launch->threads = static_cast<uint32_t>(plan.launches[i].threads);
    launch->shared_bytes = static_cast<uint32_t>(plan.launches[i].shared_bytes);
    launch->loop = plan.launches[i].loop;
    entry.launches.push_back(std::move(launch));
  }
}

std::unique_ptr<mf::VariantT> ModuleBuilder::VariantBuilder::build() {
  for (size_t i = 0; i < program_.kernels.size(); ++i) add_kernel(i);
  PlanBuilder main(*this, program_.graph.main);
  mf::PlanT plan = main.build();
  variant_->buffers = std::move(plan.buffers);
  variant_->steps = std::move(plan.steps);
  variant_->stretches = std::move(plan.stretches);
  variant_->results = plan.results;
  variant_->workspace_bytes = builder_.dim_expr(main.memory(mf::Device::Cpu).workspace_bytes);
  variant_->gpu_workspace_bytes = builder_.dim_expr(has_gpu_memory() ? main.memory(gpu_).workspace_bytes : Dim(0));
  if (!variant_->stretches.empty()) builder_.require_feature(mf::kDataDependentShapes);
  if (!variant_->plans.empty()) builder_.require_feature(mf::kControlFlow);
  return std::move(variant_);
}

uint32_t ModuleBuilder::VariantBuilder::add_plan(const Function& function) {
  const auto index = static_cast<uint32_t>(variant_->plans.size());
  variant_->plans.emplace_back();
  auto plan = std::make_unique<mf::PlanT>(PlanBuilder(*this, function).build());
  plan->inputs = static_cast<uint32_t>(function.parameters.size());
  for (const Value* output : function.outputs) {
    require_module_rank(output->type,
                        fmt::format("'{}', which a branch or the body of a loop gives,", output->name));
    auto info = std::make_unique<mf::PlanOutputT>();
    info->dtype = dtype_in_modules(output->type.dtype);
    for (const Dim& dim : output->type.shape) info->shape.push_back(builder_.dim_expr(dim));
    plan->outputs.push_back(std::move(info));
  }
  for (const DimConstraint& constraint : function.constraints) plan->constraints.push_back(builder_.constraint(constraint));
  variant_->plans[index] = std::move(plan);
  return index;
}

void ModuleBuilder::add_variant(const Program& program, const Target& target, CodeImage image, GpuImage gpu,
                                const VariantSizes& sizes) {
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
  variant->architecture = cpu_codegen_of(target.host ? *target.host : target).in_modules;
  variant->device = device_in_modules(target);
  variant->gpu_arch = target.gpu_arch;
  variant->precision = name_of(program.precision);
  for (std::string& line : network_lines(program.network)) variant->decisions.push_back(std::move(line));
  for (const NodeDecision& decision : program.decisions) variant->decisions.push_back(decision_line(decision));
  variant->features = target.features;
  variant->rank = static_cast<uint32_t>(target.rank);
  variant->code_segment = code;
  variant->ptx_segment = ptx;
  variant->cubin_segment = cubin;
  for (const auto& [name, size] : sizes.values) variant->specialized.emplace_back(size, symbol(name));
  for (const auto& [name, dim] : sizes.equal)
    variant->equal.push_back(constraint({Dim::symbol(name), dim, ""}));
  if (!sizes.all()) require_feature(mf::kSpecialized);
  if (!sizes.equal.empty()) require_feature(mf::kEqualSizes);
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
