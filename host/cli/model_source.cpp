#include "host/cli/model_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <thread>

#include "device_runtime/src/module_format.h"
#include "device_runtime/src/sha256.h"
#include "host/cli/records_use.h"
#include "host/codegen/find_target.h"
#include "host/codegen/gpu_codegen.h"
#include "host/custom_ops/custom_ops.h"
#include "host/driver/decision_file.h"
#include "host/gir/gir_file.h"
#include "host/machine/cpu_family.h"
#include "host/machine/target.h"
#include "host/onnx/import.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/passes/pass.h"
#include "host/support/error.h"
#include "host/support/input_file.h"
#include "host/support/mapped_file.h"
#include "host/support/suggest.h"

namespace gantry::cli {
namespace {

constexpr size_t kAlignment = 64;

runtime::SharedBytes map_module(const std::filesystem::path& path) {
  auto mapped = runtime::map_file(path.string());
  if (!mapped.ok()) throw Error(ErrorKind::kUser, mapped.status().message());
  return std::move(mapped.value());
}

std::string_view text_of(const Contents& contents) {
  return {reinterpret_cast<const char*>(contents.bytes.data()), contents.bytes.size()};
}

Graph read_onnx(const std::filesystem::path& path, const ModelImportOptions& given,
                const Invocation& invocation) {
  // Who could read it as a module has found that it is none.
  if (path.extension() == ".gmod" && !is_module(path, given.contents))
    user_error("{}: does not begin as a module does; it is damaged, or something else by that name",
               path.string());
  ImportOptions options{given.sizes};
  options.custom_ops = given.custom_ops;
  options.spill = given.spill;
  options.kept_inputs = given.kept_inputs;
  constexpr int64_t kSmallBudget = int64_t{64} << 10;
  if (given.optimize == Optimize::kSize) options.constant_budget = kSmallBudget;
  options.on_node = given.on_node;
  options.warn = [&](const std::string& message) { invocation.warn(message); };
  options.reads = [&](const std::filesystem::path& data) {
    invocation.outputs->reads(data, "the model's external data");
  };
  return given.contents.owner == nullptr
             ? import_onnx(path, options)
             : import_onnx_bytes(text_of(given.contents), path.parent_path(), options);
}

/// Tells the origins of the nodes, once each, with the ops that the graph computes them by.
void tell_origins(const Function& function,
                  const std::function<void(const std::string&, const std::string&)>& on_node) {
  std::set<std::string> told;
  for (const Node* node : function.nodes()) {
    for (const std::string& name : node->origin) {
      if (told.insert(name).second) on_node(name, node->op->name);
    }
  }
}

Graph read_text(const std::filesystem::path& path, const ModelImportOptions& given,
                const Invocation& invocation) {
  for (const auto& [name, shape] : given.sizes.shapes) {
    if (is_no_value(shape)) user_error("--shape {}=none: {} is graph text, which has no optionals", name, path.string());
  }
  GirOptions options{given.sizes};
  options.reads = [&](const std::filesystem::path& data) {
    invocation.outputs->reads(data, "the text's weights");
  };
  const FusedOpTable ops(op_set());
  const std::vector<std::string> passes = graph_pass_names();
  Graph graph = given.contents.owner == nullptr ? read_gir(path, ops, passes, options)
                                                : read_gir_text(text_of(given.contents), path, ops, passes, options);
  bind_custom_ops(graph, given.custom_ops.get());
  if (given.on_node) tell_origins(graph.main, given.on_node);
  return graph;
}

}  // namespace

runtime::SharedBytes aligned_copy(std::span<const std::byte> bytes) {
  auto buffer = std::make_shared<runtime::AlignedBuffer>();
  const runtime::Status status = buffer->reserve(std::max(bytes.size(), kAlignment), "the module");
  if (!status.ok()) throw Error(ErrorKind::kBoard, status.message());
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return {std::span<const std::byte>(buffer->data(), bytes.size()), buffer};
}

bool is_module_file(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code))
    user_error("{}: is a folder, not a model or module", path.string());
  // A pipe, which would have it wait, is no file that models are read from.
  const std::string start = InputFile(path).begin(sizeof(module_format::kMagic));
  return start.size() == sizeof(module_format::kMagic) &&
         std::memcmp(start.data(), module_format::kMagic, start.size()) == 0;
}

bool is_module(const std::filesystem::path& path, const Contents& contents) {
  if (contents.owner == nullptr) return is_module_file(path);
  return contents.bytes.size() >= sizeof(module_format::kMagic) &&
         std::memcmp(contents.bytes.data(), module_format::kMagic, sizeof(module_format::kMagic)) == 0;
}

bool is_graph_text_file(const std::filesystem::path& path, const Contents& contents) {
  if (contents.owner == nullptr) return is_gir_file(path);
  return path.extension() == ".gir" || is_graph_text(text_of(contents));
}

Graph import_model(const std::filesystem::path& path, const ModelImportOptions& options,
                   const Invocation& invocation) {
  TimedSpan span(invocation.spans.get(), "compile", "import");
  Graph graph = is_graph_text_file(path, options.contents) ? read_text(path, options, invocation)
                                                           : read_onnx(path, options, invocation);
  span.say("model", path.string());
  span.say("nodes", static_cast<double>(graph.main.nodes().size()));
  return graph;
}

void check_kept_inputs(const Graph& graph, const std::vector<std::string>& names, const std::string& file,
                       const std::string& option) {
  std::vector<std::string> inputs;
  for (const Value* input : graph.main.parameters) inputs.push_back(input->name);
  check_kept_inputs(inputs, names, file, option);
}

void check_kept_inputs(const std::vector<std::string>& inputs, const std::vector<std::string>& names,
                       const std::string& file, const std::string& option) {
  for (const std::string& name : names) {
    if (std::ranges::find(inputs, name) != inputs.end()) continue;
    user_error(
        "{}{}: {} has no input '{}'{}; its inputs: {} (an initialiser that the model does not list among its "
        "inputs is always a constant)",
        option, name, file, name, did_you_mean(name, inputs), fmt::join(inputs, ", "));
  }
}

CompileOptions compile_options(std::vector<Target> targets, int opt_level, Progress& progress,
                               const Invocation* invocation) {
  CompileOptions options;
  options.targets = std::move(targets);
  options.opt_level = opt_level;
  options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  options.observer.progress = [&progress, invocation](const std::string& what, double done) {
    progress.update("compiling: " + what, done);
    if (invocation != nullptr && invocation->check_interrupt) invocation->check_interrupt();
  };
  if (invocation != nullptr) {
    options.observer.note = [&progress, invocation,
                             said = std::set<std::string>()](const std::string& what) mutable {
      if (!said.insert(what).second) return;
      progress.clear();
      invocation->note(what);
    };
  }
  return options;
}

runtime::SharedBytes module_bytes(ModuleFile& module) {
  return aligned_copy(serialize_module(module));
}

std::vector<Target> find_targets(const std::vector<std::string>& names) {
  std::vector<Target> targets;
  for (const std::string& name : names.empty() ? std::vector<std::string>{"native"} : names) {
    Target target = find_target(name);
    for (const Target& other : targets) {
      if (other.name == target.name)
        user_error("--target {}: the same as another target given, {}", name, other.name);
    }
    targets.push_back(std::move(target));
  }
  return targets;
}

std::shared_ptr<KernelCache> open_cache(bool wanted) {
  const std::filesystem::path folder = wanted ? KernelCache::default_folder() : std::filesystem::path();
  return folder.empty() ? nullptr : std::make_shared<KernelCache>(folder);
}

std::shared_ptr<const CustomOps> read_custom_ops(const std::vector<std::string>& paths, const Invocation& invocation) {
  return CustomOps::load(paths, graph_pass_names(), [&](const std::filesystem::path& file) {
    invocation.outputs->reads(file, "a custom op's file");
  });
}

std::shared_ptr<const DecisionFile> read_decisions(const std::string& file, const Invocation& invocation) {
  if (file.empty()) return nullptr;
  invocation.outputs->reads(file, "the decisions");
  constexpr size_t kMostBytes = size_t{16} << 20;
  std::error_code code;
  if (std::filesystem::is_directory(file, code)) user_error("{}: is a folder, not a file of decisions", file);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) cannot_read(file, errno);
  std::string text(kMostBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > kMostBytes) user_error("{}: is larger than decisions can be", file);
  return std::make_shared<const DecisionFile>(DecisionFile::parse(text, file));
}

void note_foreign_decisions(const DecisionFile* decisions, const std::vector<Target>& targets,
                            const Invocation& invocation) {
  if (decisions == nullptr) return;
  std::string names;
  for (const Target& target : targets) {
    if (decisions->has_lines_for(target.name)) return;
    names += (names.empty() ? "" : ", ") + target.name;
  }
  invocation.note(
      fmt::format("{}: has no lines for {}, which decides everything itself", decisions->name(), names));
}

ModelImportOptions import_options(const ModuleRequest& request) {
  return {.sizes = request.sizes,
          .optimize = request.optimize,
          .contents = request.contents,
          .custom_ops = request.custom_ops,
          .kept_inputs = request.kept_inputs};
}

std::string misfit_of_target(const Target& target, const rpc::BoardInfo& machine) {
  const Target own = target_of_board(machine.architecture, machine.llvm_cpu, machine.features);
  if (target.for_gpu()) return "it is of a GPU";
  if (target.family != own.family)
    return fmt::format("it is of {}, the machine of {}", target.family->name, own.family->name);
  std::vector<std::string> missing;
  std::ranges::copy_if(target.features, std::back_inserter(missing), [&](const std::string& feature) {
    return std::ranges::find(own.features, feature) == own.features.end();
  });
  return missing.empty() ? "" : fmt::format("the machine has no {}", fmt::join(missing, ", "));
}

namespace {

/// That of the request's device. User errors: there is none.
const rpc::GpuInfo& gpu_of_device(const runtime::DeviceName& device, const rpc::BoardInfo& machine) {
  const auto index = static_cast<size_t>(device.index);
  if (machine.gpus.empty()) {
    user_error("no GPU for --device {}: {}", runtime::device_text(device),
               machine.gpu_problem.empty() ? "the machine reports none" : machine.gpu_problem);
  }
  if (index >= machine.gpus.size()) {
    user_error("no GPU for --device {}: the machine has {}, numbered from 0", runtime::device_text(device),
               machine.gpus.size());
  }
  return machine.gpus[index];
}

/// Why the GPU cannot run a GPU target's code, as the runtime has it; empty: it can.
std::string misfit_of_gpu(const Target& target, const rpc::GpuInfo& gpu) {
  const auto has = static_cast<int>(gpu.compute_capability);
  const int needed = target.gpu.compute_capability;
  // Code for one generation alone has a letter behind its number.
  const bool this_one_alone = std::isdigit(static_cast<unsigned char>(target.gpu_arch.back())) == 0;
  if (this_one_alone ? has == needed : has >= needed) return "";
  return fmt::format("it is for compute capability {}.{}{}, the machine's GPU has {}.{}", needed / 10,
                     needed % 10, this_one_alone ? " alone" : " and newer", has / 10, has % 10);
}

/// Why the device of the request cannot run the code of a target that it names; empty: it can.
std::string misfit_of_named(const Target& target, const ModuleRequest& request,
                            const rpc::BoardInfo& machine) {
  if (!target.for_gpu()) return misfit_of_target(target, machine);
  const std::string cpu = misfit_of_target(host_target(target), machine);
  if (!cpu.empty()) return "its CPU: " + cpu;
  if (target.device != DeviceKind::kGpu) return "";
  return misfit_of_gpu(target, gpu_of_device(request.device, machine));
}

}  // namespace

std::optional<Target> named_target(const ModuleRequest& request) {
  if (request.target.empty()) return std::nullopt;
  Target target = find_target(request.target);
  const std::string own = runtime::device_type_text(device_in_modules(target));
  if (target.for_gpu() && request.device.type == module_format::Device::Cpu)
    user_error("--target {}: it is of a GPU; give --device {}, too", request.target, own);
  if (device_in_modules(target) != request.device.type)
    user_error("--target {} is for --device {}, not {}; leave one of them out", request.target, own,
               runtime::device_text(request.device));
  if (!request.gpu_arch.empty() && request.gpu_arch != target.gpu_arch)
    user_error("--target {} is for {}, not --gpu-arch {}; leave one of them out", request.target,
               target.gpu_arch, request.gpu_arch);
  if (request.gpu_checks && !target.gpu_checks)
    user_error("--target {} is for a GPU without --gpu-checks; leave one of them out", request.target);
  return target;
}

Target target_of_device(const ModuleRequest& request, const rpc::BoardInfo& machine) {
  using module_format::Device;
  if (std::optional<Target> named = named_target(request)) {
    if (const std::string misfit = misfit_of_named(*named, request, machine); !misfit.empty())
      user_error("--target {}: {}", request.target, misfit);
    return *std::move(named);
  }
  const Target cpu = target_of_board(machine.architecture, machine.llvm_cpu, machine.features);
  if (request.device.type == Device::Cpu) return cpu;
  const GpuCodegen* codegen = find_gpu_codegen(request.device.type);
  internal_check(codegen != nullptr, "no targets for --device {}", runtime::device_text(request.device));
  const GpuFamily& family = *codegen->family;
  if (request.device.type == codegen->emulated) {
    return find_target(family.written(
        {.emulated = true, .checks = request.gpu_checks, .architecture = request.gpu_arch, .cpu = cpu.name}));
  }
  const auto capability = static_cast<int>(gpu_of_device(request.device, machine).compute_capability);
  const std::string gpu = family.architecture(capability);
  return find_target(family.written({.architecture = gpu, .cpu = cpu.name}));
}

ModuleBytes module_for(const ModuleRequest& request, const rpc::BoardInfo& machine,
                       const Invocation& invocation) {
  ModuleBytes module;
  if (is_module(request.file, request.contents)) {
    module.bytes = request.contents.owner == nullptr ? map_module(request.file) : request.contents;
  } else {
    const Target target = target_of_device(request, machine);
    note_foreign_decisions(request.decisions.get(), {target}, invocation);
    RecordsUse records(request.records, invocation);
    Progress progress(invocation.verbosity());
    progress.update("reading " + request.file.string(), -1);
    Graph graph = import_model(request.file, import_options(request), invocation);
    check_kept_inputs(graph, request.expected_inputs, request.file.string());
    CompileOptions options = compile_options({target}, request.opt_level, progress, &invocation);
    options.precision = request.precision;
    options.optimize = request.optimize;
    options.decisions = request.decisions;
    options.cache = open_cache(request.use_cache);
    options.observer.spans = invocation.spans.get();
    records.take_part(options,
                      {machine_name(machine, target, request.device.index),
                       machine_name(machine, host_target(target), request.device.index),
                       request.threads > 0 ? request.threads : static_cast<int>(machine.physical_cores)});
    if (request.keep_program) {
      options.observer.lowered = [&](LoweredProgram lowered, const Target& compiled) {
        module.programs.push_back(
            std::make_shared<const CompiledProgram>(without_weights(std::move(lowered), compiled)));
      };
    }
    ModuleFile file = compile_graph(std::move(graph), options);
    progress.clear();
    records.say(invocation);
    const TimedSpan span(invocation.spans.get(), "compile", "write the module");
    module.bytes = module_bytes(file);
    module.opt_level = request.opt_level;
  }
  module.digest = runtime::to_hex(runtime::sha256(module.bytes.bytes));
  return module;
}

}  // namespace gantry::cli
