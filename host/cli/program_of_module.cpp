#include "host/cli/program_of_module.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "device_runtime/src/data_type.h"
#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/module_reader.h"
#include "device_runtime/src/module_format.h"
#include "host/support/lifetimes.h"

namespace gantry::cli {
namespace {

using module_format::Buffer;
using module_format::BufferKind;
using module_format::Device;
using module_format::DimOpcode;
using module_format::DimStep;
using module_format::Manifest;
using module_format::TensorInfo;
using module_format::Variant;

std::string text_of(const flatbuffers::String* text) {
  return text == nullptr ? "" : text->str();
}

/// Dimension expressions where the inputs have these shapes.
class Sizes {
 public:
  Sizes(const Manifest& manifest, const std::vector<std::vector<int64_t>>& shapes) : manifest_(manifest) {
    const uint32_t count = manifest.symbols() == nullptr ? 0 : manifest.symbols()->size();
    values_.resize(count);
    known_.resize(count);
    for (uint32_t i = 0; i < manifest.inputs()->size() && i < shapes.size(); ++i) {
      const auto& dims = *manifest.inputs()->Get(i)->shape();
      for (uint32_t axis = 0; axis < dims.size() && axis < shapes[i].size(); ++axis) {
        const auto symbol = runtime::symbol_dim(*manifest.dim_exprs()->Get(dims.Get(axis)));
        if (!symbol || known_[*symbol] || shapes[i][axis] < 0) continue;
        known_[*symbol] = true;
        values_[*symbol] = shapes[i][axis];
      }
    }
  }

  std::map<std::string, int64_t> by_name() const {
    std::map<std::string, int64_t> sizes;
    for (uint32_t i = 0; i < values_.size(); ++i) {
      if (known_[i]) sizes[manifest_.symbols()->Get(i)->str()] = values_[i];
    }
    return sizes;
  }

  bool fit(const Variant& specialized) const {
    const auto* sizes = specialized.specialized();
    const auto* equal = specialized.equal();
    const auto has_size = [&](const auto* size) {
      return known_[size->symbol()] && values_[size->symbol()] == size->value();
    };
    const auto are_equal = [&](const auto* pair) {
      const auto left = get(pair->left());
      return left && left == get(pair->right());
    };
    return (sizes == nullptr || std::ranges::all_of(*sizes, has_size)) &&
           (equal == nullptr || std::ranges::all_of(*equal, are_equal));
  }

  /// None: depends on a symbol that is not known, or is no size.
  std::optional<uint64_t> get(uint32_t expression) const {
    const module_format::DimExpr& program = *manifest_.dim_exprs()->Get(expression);
    for (const DimStep* step : *program.steps()) {
      if (step->opcode() == DimOpcode::Symbol && !known_[static_cast<size_t>(step->value())])
        return std::nullopt;
    }
    runtime::Result<int64_t> value = runtime::evaluate_dim(program, values_);
    if (!value.ok() || *value < 0) return std::nullopt;
    return static_cast<uint64_t>(*value);
  }

  /// "f32[1,3,224,224]"; dimensions that are not known as they are written: "f32[N,3]".
  std::string type(const TensorInfo& tensor) const {
    std::vector<std::string> dims;
    for (const uint32_t dim : *tensor.shape()) {
      const auto value = get(dim);
      dims.push_back(value ? std::to_string(*value)
                           : runtime::dim_text(*manifest_.dim_exprs()->Get(dim), manifest_));
    }
    const auto type = static_cast<runtime::ElementType>(tensor.dtype());
    return fmt::format("{}[{}]", runtime::element_name(type), fmt::join(dims, ","));
  }

 private:
  const Manifest& manifest_;
  std::vector<int64_t> values_;  ///< by symbol
  std::vector<bool> known_;      ///< by symbol
};

ProgramValue value_of(const Manifest& manifest, const Buffer& buffer, const Sizes& sizes) {
  ProgramValue value;
  value.bytes = sizes.get(buffer.bytes());
  value.on_gpu = buffer.device() == Device::Cuda;
  const auto describe = [&](ProgramValue::Kind kind, const TensorInfo& tensor) {
    value.kind = kind;
    value.name = text_of(tensor.name());
    value.type = sizes.type(tensor);
  };
  switch (buffer.kind()) {
    case BufferKind::Input:
      describe(ProgramValue::Kind::kInput, *manifest.inputs()->Get(buffer.index()));
      break;
    case BufferKind::Output:
      describe(ProgramValue::Kind::kOutput, *manifest.outputs()->Get(buffer.index()));
      break;
    case BufferKind::Constant:
      value.kind = ProgramValue::Kind::kConstant;
      value.name = fmt::format("constant {}", buffer.index());
      break;
    case BufferKind::Kept:  // lies by itself
    case BufferKind::Result:
      break;
    case BufferKind::Workspace:
      value.offset = sizes.get(buffer.offset());
      break;
  }
  return value;
}

bool is_written(const ProgramValue& value) {
  return value.kind == ProgramValue::Kind::kOutput || value.kind == ProgramValue::Kind::kWorkspace;
}

/// Reads a variant's steps in their order. The manifest lists a call's buffers without saying which the
/// kernel writes; but each that can be written has one writer, and steps that read it follow: it is written
/// where it is seen first.
class StepReader {
 public:
  StepReader(const Variant& variant, const Sizes& sizes, ProgramFacts& program)
      : variant_(variant), sizes_(sizes), program_(program), seen_(program.values.size()) {}

  void read() {
    for (const auto* step : *variant_.steps()) {
      if (const auto* call = step->action_as_CallKernel()) {
        add_call(*call);
      } else if (const auto* copy = step->action_as_CopyBuffer()) {
        add_copy(*copy);
      } else if (const auto* binding = step->action_as_BindSymbols()) {
        add_binding(*binding);
      } else if (const auto* branch = step->action_as_RunIf()) {
        add_call(*branch, "if", {branch->condition()}, {branch->then_inputs(), branch->else_inputs()});
      } else if (const auto* loop = step->action_as_RunLoop()) {
        add_call(*loop, "loop", {loop->count(), loop->condition()}, {loop->inputs()});
      } else if (const auto* builtin = step->action_as_CallBuiltin()) {
        add_builtin(*builtin);
      }
    }
    name_workspace_values();
  }

 private:
  void add_call(const module_format::CallKernel& call) {
    ProgramStep& step = program_.steps.emplace_back();
    const auto* kernel = variant_.kernels()->Get(call.kernel());
    step.symbol = text_of(kernel->symbol());
    step.name = text_of(kernel->name());
    step.op = text_of(kernel->op());
    if (call.origin() != nullptr) {
      for (const auto* node : *call.origin()) step.nodes.push_back(node->str());
    }
    step.flops = sizes_.get(call.flops());
    step.bytes = sizes_.get(call.bytes());
    for (const uint32_t buffer : *call.buffers()) {
      const ProgramValue& value = program_.values[buffer];
      const bool writes = is_written(value) && !seen_[buffer];
      auto& list = writes ? step.writes : step.reads;
      if (std::ranges::find(list, buffer) == list.end()) list.push_back(buffer);
    }
    for (const auto* list : {&step.writes, &step.reads}) {
      for (const uint32_t buffer : *list) touch(buffer);
    }
  }

  /// A step that runs plans. `read`: buffers, or -1.
  template <typename Action>
  void add_call(const Action& action, const char* name, std::initializer_list<int64_t> read,
                std::initializer_list<const flatbuffers::Vector<uint32_t>*> inputs) {
    ProgramStep& step = program_.steps.emplace_back();
    step.name = name;
    for (uint32_t i = 0; action.origin() != nullptr && i < action.origin()->size(); ++i)
      step.nodes.push_back(action.origin()->Get(i)->str());
    const auto add = [&](uint32_t buffer) {
      if (std::ranges::find(step.reads, buffer) == step.reads.end()) step.reads.push_back(buffer);
    };
    for (const int64_t buffer : read) {
      if (buffer >= 0) add(static_cast<uint32_t>(buffer));
    }
    for (const auto* list : inputs) {
      for (uint32_t i = 0; list != nullptr && i < list->size(); ++i) add(list->Get(i));
    }
    for (const uint32_t buffer : step.reads) touch(buffer);
  }

  void add_builtin(const module_format::CallBuiltin& call) {
    ProgramStep& step = program_.steps.emplace_back();
    step.name = text_of(call.function());
    for (uint32_t i = 0; call.origin() != nullptr && i < call.origin()->size(); ++i)
      step.nodes.push_back(call.origin()->Get(i)->str());
    for (uint32_t i = 0; call.inputs() != nullptr && i < call.inputs()->size(); ++i)
      step.reads.push_back(call.inputs()->Get(i)->buffer());
    for (uint32_t i = 0; call.outputs() != nullptr && i < call.outputs()->size(); ++i)
      step.writes.push_back(call.outputs()->Get(i)->buffer());
    for (const auto* list : {&step.writes, &step.reads}) {
      for (const uint32_t buffer : *list) touch(buffer);
    }
  }

  void add_binding(const module_format::BindSymbols& binding) {
    ProgramStep& step = program_.steps.emplace_back();
    step.name = "bind sizes";
    for (uint32_t i = 0; binding.origin() != nullptr && i < binding.origin()->size(); ++i)
      step.nodes.push_back(binding.origin()->Get(i)->str());
    if (binding.buffer() < 0) return;
    step.reads.push_back(static_cast<uint32_t>(binding.buffer()));
    touch(step.reads.back());
  }

  void add_copy(const module_format::CopyBuffer& copy) {
    ProgramStep& step = program_.steps.emplace_back();
    step.reads = {copy.source()};
    step.writes = {copy.target()};
    if (const auto bytes = program_.values[copy.source()].bytes) step.bytes = 2 * *bytes;
    touch(copy.source());
    touch(copy.target());
  }

  void touch(uint32_t buffer) {
    const auto step = static_cast<uint32_t>(program_.steps.size() - 1);
    seen_[buffer] = true;
    ProgramValue& value = program_.values[buffer];
    if (value.kind != ProgramValue::Kind::kWorkspace) return;
    if (!value.first_step) value.first_step = step;
    value.last_step = step;
  }

  /// By the step that writes them: the module keeps no names but those of its inputs and outputs.
  void name_workspace_values() {
    for (ProgramValue& value : program_.values) {
      if (value.kind != ProgramValue::Kind::kWorkspace || !value.first_step) continue;
      const ProgramStep& step = program_.steps[*value.first_step];
      value.name = fmt::format("{}{} #{}", value.first_step == value.last_step ? "scratch of " : "",
                               step.symbol.empty() ? step.name : step.symbol, *value.first_step);
    }
  }

  const Variant& variant_;
  const Sizes& sizes_;
  ProgramFacts& program_;
  std::vector<bool> seen_;  ///< by value: a step before uses it
};

uint64_t aligned(uint64_t bytes) {
  constexpr uint64_t kAlignment = module_format::kBufferAlignment;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The largest sum of what lives at once in one of the memories; none where a size is not known.
std::optional<uint64_t> bound_of(const ProgramFacts& program, bool on_gpu) {
  std::vector<Lifetime<uint64_t>> lifetimes;
  for (const ProgramValue& value : program.values) {
    if (value.kind != ProgramValue::Kind::kWorkspace || value.on_gpu != on_gpu || !value.first_step) continue;
    if (!value.bytes) return std::nullopt;
    lifetimes.push_back({*value.first_step, *value.last_step, aligned(*value.bytes)});
  }
  uint64_t most = 0;
  for (const LiveSum<uint64_t>& sum : sums_alive(lifetimes)) most = std::max(most, sum.bytes);
  return most;
}

/// Index of the variant for all sizes.
std::optional<uint32_t> general_variant(const Manifest& manifest, std::string_view target, Device device) {
  const auto& variants = *manifest.variants();
  for (uint32_t i = 0; i < variants.size(); ++i) {
    if (variants.Get(i)->target()->string_view() == target && variants.Get(i)->device() == device) return i;
  }
  return std::nullopt;
}

/// ProgramChoice::sizes of the variant.
std::string specialized_sizes(const Manifest& manifest, const Variant& variant) {
  std::vector<std::string> sizes;
  if (variant.specialized() != nullptr) {
    for (const auto* size : *variant.specialized())
      sizes.push_back(fmt::format("{}={}", manifest.symbols()->Get(size->symbol())->str(), size->value()));
  }
  if (variant.equal() != nullptr) {
    const auto text = [&](uint32_t dim) {
      return runtime::dim_text(*manifest.dim_exprs()->Get(dim), manifest);
    };
    for (const auto* pair : *variant.equal())
      sizes.push_back(fmt::format("{}={}", text(pair->left()), text(pair->right())));
  }
  return fmt::format("{}", fmt::join(sizes, ","));
}

/// What a module has for a target and device.
struct Programs {
  size_t specialized = 0;  ///< programs for some sizes alone
  uint32_t running = 0;    ///< index of the variant that runs
};

/// None where the module has nothing for them.
std::optional<Programs> find_programs(const Manifest& manifest, std::string_view target, Device device,
                                      const std::vector<std::vector<int64_t>>& shapes) {
  const std::optional<uint32_t> general = general_variant(manifest, target, device);
  if (!general) return std::nullopt;
  const auto& variants = *manifest.variants();
  const std::vector<uint32_t> specialized = runtime::specialized_variants(manifest, *general);
  const Sizes sizes(manifest, shapes);
  const auto fitting =
      std::ranges::find_if(specialized, [&](uint32_t variant) { return sizes.fit(*variants.Get(variant)); });
  return Programs{specialized.size(), fitting == specialized.end() ? *general : *fitting};
}

}  // namespace

ProgramFacts program_of_module(const Manifest& manifest, const Variant& variant,
                               const std::vector<std::vector<int64_t>>& shapes) {
  const Sizes sizes(manifest, shapes);
  ProgramFacts program;
  program.target = text_of(variant.target());
  program.sizes = sizes.by_name();
  for (const Buffer* buffer : *variant.buffers())
    program.values.push_back(value_of(manifest, *buffer, sizes));
  StepReader(variant, sizes, program).read();
  program.workspace = {sizes.get(variant.workspace_bytes()), bound_of(program, false)};
  if (variant.device() == Device::Cuda) {
    program.gpu_workspace = {sizes.get(variant.gpu_workspace_bytes()), bound_of(program, true)};
  }
  return program;
}

const Variant* find_variant(const Manifest& manifest, std::string_view target, Device device,
                            const std::vector<std::vector<int64_t>>& shapes) {
  const std::optional<Programs> programs = find_programs(manifest, target, device, shapes);
  return programs ? manifest.variants()->Get(programs->running) : nullptr;
}

ProgramChoice choose_program(const Manifest& manifest, std::string_view target, Device device,
                             const std::vector<std::vector<int64_t>>& shapes) {
  const std::optional<Programs> programs = find_programs(manifest, target, device, shapes);
  if (!programs) return {};
  const Variant& running = *manifest.variants()->Get(programs->running);
  return {specialized_sizes(manifest, running), programs->specialized, programs->running};
}

}  // namespace gantry::cli
