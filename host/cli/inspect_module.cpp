#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "device_runtime/src/module_reader.h"
#include "host/cli/inspect.h"
#include "host/cli/json_values.h"
#include "host/cli/plan_json.h"
#include "host/cli/text.h"
#include "host/graph/dim.h"
#include "host/support/error.h"
#include "module_generated.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace format = module_format;

std::string bytes_of(const Dim& dim) {
  if (dim.is_constant()) return bytes_text(static_cast<double>(dim.value()));
  constexpr size_t kReadable = 100;
  const std::string formula = dim.str();
  return formula.size() <= kReadable ? formula + " bytes" : "symbolic (--json: the formula)";
}

std::string dtype_text(format::DType type) {
  std::string name = format::EnumNameDType(type);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

std::string origin_text(const format::CallKernel& call) {
  std::vector<std::string> nodes;
  if (call.origin() != nullptr) {
    for (const auto* node : *call.origin()) nodes.push_back(node->str());
  }
  return fmt::format("{}", fmt::join(nodes, ", "));
}

const char* kind_text(format::SegmentKind kind) {
  switch (kind) {
    case format::SegmentKind::Code:
      return "code";
    case format::SegmentKind::Weights:
      return "weights";
    case format::SegmentKind::Ptx:
      return "ptx";
    case format::SegmentKind::Cubin:
      return "cubin";
  }
  return "unknown";
}

class ModuleReport {
 public:
  ModuleReport(const std::filesystem::path& path, const runtime::ModuleContents& contents,
               const InspectOptions& options)
      : path_(path),
        contents_(contents),
        manifest_(contents.manifest()),
        dims_(manifest_),
        options_(options) {}

  std::string json() const {
    Json json;
    json["kind"] = "module";
    json["file"] = path_.string();
    json["producer"] = string_of(manifest_.producer());
    json["optimize"] = string_of(manifest_.optimize());
    json["model"] = string_of(manifest_.model_name());
    json["symbols"] = Json::array();
    if (manifest_.symbols() != nullptr) {
      for (const auto* symbol : *manifest_.symbols()) json["symbols"].push_back(symbol->str());
    }
    json["inputs"] = tensors_json(*manifest_.inputs());
    json["outputs"] = tensors_json(*manifest_.outputs());
    json["constraints"] = Json::array();
    if (manifest_.constraints() != nullptr) {
      for (const auto* c : *manifest_.constraints()) {
        json["constraints"].push_back({{"left", dim_json(dims_.get(c->left()))},
                                       {"right", dim_json(dims_.get(c->right()))},
                                       {"origin", string_of(c->origin())}});
      }
    }
    json["weights_bytes"] = all_constant_bytes();
    json["variants"] = Json::array();
    for (const auto* variant : *manifest_.variants()) json["variants"].push_back(variant_json(*variant));
    json["segments"] = segments_json();
    return document_text(json);
  }

  /// As DecisionFile reads it.
  std::string forms() const {
    std::string out = fmt::format("# {}\n", visible_line(path_.string()));
    for (const auto* variant : *manifest_.variants()) {
      if (runtime::is_specialized(*variant)) continue;
      out += fmt::format("[{}]\n", visible_line(string_of(variant->target())));
      if (variant->decisions() == nullptr) continue;
      for (const auto* line : *variant->decisions()) out += visible_line(line->str()) + "\n";
    }
    return out;
  }

  std::string text() const {
    std::error_code code;
    std::string out = fmt::format("{}: module of '{}', {}, by {}\n", path_.string(),
                                  visible_line(string_of(manifest_.model_name())),
                                  bytes_text(static_cast<double>(std::filesystem::file_size(path_, code))),
                                  visible_line(string_of(manifest_.producer())));
    for (const auto* t : *manifest_.inputs()) out += tensor_line("input ", *t);
    for (const auto* t : *manifest_.outputs()) out += tensor_line("output", *t);
    if (manifest_.constraints() != nullptr) {
      for (const auto* c : *manifest_.constraints()) {
        const std::string origin = visible_line(string_of(c->origin()));
        // One that gives its reason: the equation is that in arithmetic.
        out += origin.ends_with(')') ? fmt::format("  needs    {}\n", origin)
                                     : fmt::format("  needs    {} = {}  ({})\n", dims_.get(c->left()).str(),
                                                   dims_.get(c->right()).str(), origin);
      }
    }
    out += fmt::format("  weights  {}{}{}\n", bytes_text(static_cast<double>(all_constant_bytes())),
                       string_of(manifest_.optimize()) == "size" ? "; optimised for size" : "",
                       manifest_.variants()->size() > 1 ? "; what variants share is stored once" : "");
    for (const auto* variant : *manifest_.variants()) out += variant_text(*variant);
    return out + segments_text();
  }

 private:
  std::string tensor_line(const char* kind, const format::TensorInfo& tensor) const {
    return fmt::format("  {}   {}: {} {}\n", kind, visible_line(string_of(tensor.name())),
                       dtype_text(tensor.dtype()), dims_.shape(*tensor.shape()));
  }

  Json tensors_json(const flatbuffers::Vector<flatbuffers::Offset<format::TensorInfo>>& tensors) const {
    Json list = Json::array();
    for (const auto* tensor : tensors) {
      Json shape = Json::array();
      for (uint32_t dim : *tensor->shape()) shape.push_back(dim_json(dims_.get(dim)));
      list.push_back(
          {{"name", string_of(tensor->name())}, {"dtype", dtype_text(tensor->dtype())}, {"shape", shape}});
    }
    return list;
  }

  std::string kernel_list(const format::Variant& variant) const {
    using Align = Table::Align;
    const bool has_gpu = is_cuda(variant);
    Table table({{"calls", Align::kRight},
                 {"FLOP", Align::kRight},
                 {"traffic", Align::kRight},
                 {has_gpu ? "on" : "", Align::kLeft},
                 {"kernel", Align::kLeft},
                 {"ops", Align::kLeft}});
    const auto uses = kernel_uses(variant, dims_);
    for (uint32_t i = 0; i < variant.kernels()->size(); ++i) {
      const auto* kernel = variant.kernels()->Get(i);
      const Dim& flops = uses[i].flops;
      table.row(
          {std::to_string(uses[i].calls),
           flops.is_constant() ? count_text(static_cast<double>(flops.value())) : "symbolic",
           uses[i].bytes.is_constant() ? bytes_text(static_cast<double>(uses[i].bytes.value())) : "symbolic",
           has_gpu ? placement_text(*kernel) : "", string_of(kernel->symbol()), string_of(kernel->name())});
    }
    return table.str(4, terminal_width());
  }

  /// "cpu", or the launches of a GPU's kernel: threads of a block and its shared memory.
  static std::string placement_text(const format::Kernel& kernel) {
    if (kernel.device() == format::Device::Cpu) return "cpu";
    std::vector<std::string> launches;
    for (uint32_t i = 0; i < launch_count(kernel); ++i) {
      const auto* launch = kernel.launches()->Get(i);
      std::string text = std::to_string(launch->threads());
      if (launch->shared_bytes() > 0) text += fmt::format("+{}", bytes_text(launch->shared_bytes()));
      launches.push_back(launch->loop() >= 0 ? text + "*" : text);
    }
    constexpr size_t kMostShown = 3;
    const bool more = launches.size() > kMostShown;
    launches.resize(std::min(launches.size(), kMostShown));
    return fmt::format("gpu {}{}", fmt::join(launches, ","), more ? ",…" : "");
  }

  std::string grids_text(const format::CallKernel& call) const {
    if (call.grids() == nullptr || call.grids()->size() == 0) return "";
    std::vector<std::string> grids;
    for (uint32_t i = 0; i + 2 < call.grids()->size(); i += 3) {
      grids.push_back(fmt::format("{}x{}x{}", dims_.get(call.grids()->Get(i)).str(),
                                  dims_.get(call.grids()->Get(i + 1)).str(),
                                  dims_.get(call.grids()->Get(i + 2)).str()));
    }
    return fmt::format(" blocks {}", fmt::join(grids, ", "));
  }

  /// A variant's plan, or one that its steps run.
  struct ListedPlan {
    const flatbuffers::Vector<flatbuffers::Offset<format::Step>>& steps;
    const flatbuffers::Vector<flatbuffers::Offset<format::Buffer>>& buffers;
    bool is_main = true;
  };

  std::string step_list(const format::Variant& variant) const {
    std::string out = "    steps\n" + step_list(variant, {*variant.steps(), *variant.buffers()});
    for (uint32_t i = 0; variant.plans() != nullptr && i < variant.plans()->size(); ++i) {
      const auto& plan = *variant.plans()->Get(i);
      out += fmt::format("    steps of plan {}\n", i) +
             step_list(variant, {*plan.steps(), *plan.buffers(), false});
    }
    return out;
  }

  std::string step_list(const format::Variant& variant, const ListedPlan& plan) const {
    std::string out;
    uint32_t index = 0;
    for (const auto* step : plan.steps) {
      const auto* call = step->action_as_CallKernel();
      if (call != nullptr) {
        const auto* kernel = variant.kernels()->Get(call->kernel());
        out += fmt::format("    {:>5} {} ({}) {}{}  // {}\n", fmt::format("#{}", index),
                           string_of(kernel->symbol()), string_of(kernel->name()),
                           buffers_text(plan, *call->buffers()), grids_text(*call), origin_text(*call));
      } else if (const auto* copy = step->action_as_CopyBuffer()) {
        out += fmt::format("    {:>5} copy {} -> {}\n", fmt::format("#{}", index),
                           buffer_text(plan, copy->source()), buffer_text(plan, copy->target()));
      } else if (const auto* binding = step->action_as_BindSymbols()) {
        out += fmt::format("    {:>5} bind {}\n", fmt::format("#{}", index), binding_text(plan, *binding));
      } else if (const auto* branch = step->action_as_RunIf()) {
        out += fmt::format("    {:>5} if {} plan {} else plan {}\n", fmt::format("#{}", index),
                           buffer_text(plan, branch->condition()), branch->then_plan(), branch->else_plan());
      } else if (const auto* loop = step->action_as_RunLoop()) {
        out += fmt::format("    {:>5} loop plan {}\n", fmt::format("#{}", index), loop->plan());
      } else if (const auto* builtin = step->action_as_CallBuiltin()) {
        out += fmt::format("    {:>5} call {} ({} -> {})\n", fmt::format("#{}", index),
                           string_of(builtin->function()), tensors_text(plan, builtin->inputs()),
                           tensors_text(plan, builtin->outputs()));
      }
      ++index;
    }
    return out;
  }

  std::string tensors_text(
      const ListedPlan& plan,
      const flatbuffers::Vector<flatbuffers::Offset<format::BuiltinTensor>>* tensors) const {
    std::string text;
    for (uint32_t i = 0; tensors != nullptr && i < tensors->size(); ++i)
      text += (i > 0 ? ", " : "") + buffer_text(plan, tensors->Get(i)->buffer());
    return text;
  }

  /// "n.0, n.1 = workspace+64": which symbols take whose elements; "N = 2*M" of an expression.
  std::string binding_text(const ListedPlan& plan, const format::BindSymbols& binding) const {
    std::vector<std::string> names, values;
    for (const uint32_t symbol : *binding.symbols())
      names.push_back(string_of(manifest_.symbols()->Get(symbol)));
    for (uint32_t i = 0; binding.values() != nullptr && i < binding.values()->size(); ++i)
      values.push_back(dims_.get(binding.values()->Get(i)).str());
    if (binding.buffer() >= 0) values.push_back(buffer_text(plan, static_cast<uint32_t>(binding.buffer())));
    return fmt::format("{} = {}", fmt::join(names, ", "), fmt::join(values, ", "));
  }

  std::string buffers_text(const ListedPlan& plan, const flatbuffers::Vector<uint32_t>& buffers) const {
    std::vector<std::string> texts;
    for (uint32_t buffer : buffers) texts.push_back(buffer_text(plan, buffer));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }

  std::string buffer_text(const ListedPlan& plan, uint32_t index) const {
    const auto* buffer = plan.buffers.Get(index);
    if (!plan.is_main && buffer->kind() == format::BufferKind::Input)
      return fmt::format("input {}", buffer->index());
    if (!plan.is_main && buffer->kind() == format::BufferKind::Output)
      return fmt::format("output {}", buffer->index());
    const bool on_gpu = buffer->device() == format::Device::Cuda;
    return on_gpu ? "gpu:" + place_text(*buffer) : place_text(*buffer);
  }

  std::string place_text(const format::Buffer& described) const {
    const auto* buffer = &described;
    switch (buffer->kind()) {
      case format::BufferKind::Input:
        return "%" + string_of(manifest_.inputs()->Get(buffer->index())->name());
      case format::BufferKind::Output:
        return "%" + string_of(manifest_.outputs()->Get(buffer->index())->name());
      case format::BufferKind::Constant:
        return fmt::format("constant {}", buffer->index());
      case format::BufferKind::Result:
        return fmt::format("result {}", buffer->index());
      case format::BufferKind::Kept:
        return fmt::format("kept {}+{}", buffer->index(), dims_.get(buffer->offset()).str());
      default:
        return fmt::format("workspace+{}", dims_.get(buffer->offset()).str());
    }
  }

  /// " where N=1, length=128", of one for these sizes alone; " where masks=batch" of one for equal sizes.
  std::string sizes_text(const format::Variant& variant) const {
    std::string text;
    const auto add = [&](const std::string& left, const std::string& right) {
      text += fmt::format("{} {}={}", text.empty() ? " where" : ",", visible_line(left), visible_line(right));
    };
    for (uint32_t i = 0; variant.specialized() != nullptr && i < variant.specialized()->size(); ++i) {
      const auto* size = variant.specialized()->Get(i);
      add(manifest_.symbols()->Get(size->symbol())->str(), std::to_string(size->value()));
    }
    for (uint32_t i = 0; variant.equal() != nullptr && i < variant.equal()->size(); ++i) {
      const auto* pair = variant.equal()->Get(i);
      add(dims_.get(pair->left()).str(), dims_.get(pair->right()).str());
    }
    return text;
  }

  std::string variant_text(const format::Variant& variant) const {
    std::string out = fmt::format("\n  variant  {}{}\n", string_of(variant.target()), sizes_text(variant));
    out += fmt::format("    memory   workspace {}; {} constants, {}\n",
                       bytes_of(dims_.get(variant.workspace_bytes())), constant_count(variant),
                       bytes_text(static_cast<double>(constant_bytes(variant))));
    out += fmt::format(
        "    code     {} kernels, {}; plan of {} steps\n", variant.kernels()->size(),
        bytes_text(static_cast<double>(manifest_.segments()->Get(variant.code_segment())->size())),
        variant.steps()->size());
    if (is_cuda(variant)) out += gpu_text(variant);
    out += kernel_list(variant);
    return options_.steps ? out + step_list(variant) : out;
  }

  uint64_t segment_bytes(int32_t segment) const {
    return segment < 0 ? 0 : manifest_.segments()->Get(static_cast<uint32_t>(segment))->size();
  }
  static size_t launches_of(const format::Variant& variant) {
    size_t count = 0;
    for (const auto* kernel : *variant.kernels()) count += launch_count(*kernel);
    return count;
  }

  std::string gpu_text(const format::Variant& variant) const {
    const auto bytes = [&](int32_t segment) {
      return bytes_text(static_cast<double>(segment_bytes(segment)));
    };
    return fmt::format("    gpu      {}: {} entries; PTX {}, {}; workspace {}\n",
                       string_of(variant.gpu_arch()), launches_of(variant), bytes(variant.ptx_segment()),
                       variant.cubin_segment() < 0 ? "no cubin" : "cubin " + bytes(variant.cubin_segment()),
                       bytes_of(dims_.get(variant.gpu_workspace_bytes())));
  }

  static size_t constant_count(const format::Variant& variant) { return constant_places(variant).size(); }
  /// Places of constants in the file, each once.
  using Places = std::set<std::tuple<uint32_t, uint64_t, uint64_t>>;
  static Places constant_places(const format::Variant& variant) {
    Places places;
    if (variant.constants() == nullptr) return places;
    for (const auto* constant : *variant.constants())
      places.insert({constant->segment(), constant->offset(), constant->size()});
    return places;
  }
  static uint64_t bytes_at(const Places& places) {
    uint64_t bytes = 0;
    for (const auto& [segment, offset, size] : places) bytes += size;
    return bytes;
  }
  static uint64_t constant_bytes(const format::Variant& variant) {
    return bytes_at(constant_places(variant));
  }
  /// What all variants have together: those that several share count once.
  uint64_t all_constant_bytes() const {
    Places places;
    for (const auto* variant : *manifest_.variants()) places.merge(constant_places(*variant));
    return bytes_at(places);
  }

  Json variant_json(const format::Variant& variant) const {
    Json json;
    json["target"] = string_of(variant.target());
    json["architecture"] = format::EnumNameArchitecture(variant.architecture());
    json["features"] = Json::array();
    if (variant.features() != nullptr) {
      for (const auto* feature : *variant.features()) json["features"].push_back(feature->str());
    }
    json["rank"] = variant.rank();
    json["specialized"] = Json::object();
    if (variant.specialized() != nullptr) {
      for (const auto* size : *variant.specialized())
        json["specialized"][manifest_.symbols()->Get(size->symbol())->str()] = size->value();
    }
    json["equal"] = Json::array();
    for (uint32_t i = 0; variant.equal() != nullptr && i < variant.equal()->size(); ++i) {
      const auto* pair = variant.equal()->Get(i);
      json["equal"].push_back(
          {{"left", dim_json(dims_.get(pair->left()))}, {"right", dim_json(dims_.get(pair->right()))}});
    }
    json["device"] = name_of(variant.device());
    if (variant.device() != format::Device::Cpu) json["gpu_arch"] = string_of(variant.gpu_arch());
    if (is_cuda(variant)) {
      json["ptx_bytes"] = segment_bytes(variant.ptx_segment());
      json["cubin_bytes"] = segment_bytes(variant.cubin_segment());
      json["gpu_workspace_bytes"] = dim_json(dims_.get(variant.gpu_workspace_bytes()));
    }
    json["workspace_bytes"] = dim_json(dims_.get(variant.workspace_bytes()));
    json["constants"] = constant_count(variant);
    json["constant_bytes"] = constant_bytes(variant);
    json["code_bytes"] = manifest_.segments()->Get(variant.code_segment())->size();
    json["decisions"] = Json::array();
    if (variant.decisions() != nullptr) {
      for (const auto* line : *variant.decisions()) json["decisions"].push_back(line->str());
    }
    json["kernels"] = kernels_json(variant, dims_);
    json["steps"] = steps_json(variant, dims_);
    json["buffers"] = buffers_json(variant, dims_);
    return json;
  }

  Json segments_json() const {
    Json list = Json::array();
    for (uint32_t i = 0; i < contents_.segment_count(); ++i) {
      const auto* segment = manifest_.segments()->Get(i);
      list.push_back({{"kind", kind_text(segment->kind())},
                      {"offset", segment->offset()},
                      {"bytes", segment->size()},
                      {"sha256", runtime::to_hex(contents_.segment_digest(i))}});
    }
    return list;
  }

  std::string segments_text() const {
    using Align = Table::Align;
    Table table({{"segment", Align::kRight},
                 {"kind", Align::kLeft},
                 {"offset", Align::kRight},
                 {"size", Align::kRight},
                 {"SHA-256", Align::kLeft}});
    for (uint32_t i = 0; i < contents_.segment_count(); ++i) {
      const auto* segment = manifest_.segments()->Get(i);
      table.row({std::to_string(i), kind_text(segment->kind()), std::to_string(segment->offset()),
                 bytes_text(static_cast<double>(segment->size())),
                 runtime::to_hex(contents_.segment_digest(i))});
    }
    return "\n" + table.str(2);
  }

  const std::filesystem::path& path_;
  const runtime::ModuleContents& contents_;
  const format::Manifest& manifest_;
  ManifestDims dims_;
  const InspectOptions& options_;
};

}  // namespace

Inspection inspect_module(const std::filesystem::path& path, const InspectOptions& options) {
  auto contents = runtime::ModuleContents::open(path.string());
  if (!contents.ok()) user_error("{}", contents.status().message());
  const ModuleReport report(path, *contents, options);
  if (options.forms) return {report.forms(), ""};
  return {options.json ? report.json() : report.text(), ""};
}

}  // namespace gantry::cli
