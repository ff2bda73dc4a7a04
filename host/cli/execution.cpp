#include "host/cli/execution.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "device_runtime/src/module_reader.h"
#include "host/cli/between.h"
#include "host/cli/made_up_sizes.h"
#include "host/cli/model_tensors.h"
#include "host/cli/program_of_module.h"
#include "host/cli/records_use.h"
#include "host/cli/sequence_inputs.h"
#include "host/cli/tensor_files.h"
#include "host/cli/text.h"
#include "host/codegen/kernel_cache.h"
#include "host/onnx/import.h"
#include "host/support/error.h"
#include "host/support/suggest.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

constexpr int kMostThreads = 1024;

/// The device by its name; user errors for options that only another one has.
runtime::DeviceName device_of(const ExecutionOptions& options) {
  const auto device = runtime::parse_device(options.device);
  if (!device.ok()) {
    const std::vector<std::string> devices = {"cpu", "cuda", "cuda-emulated"};
    user_error("{}{}", device.status().message(), did_you_mean(options.device, devices));
  }
  using module_format::Device;
  const Device type = device.value().type;
  if (type != Device::CudaEmulated && (options.gpu_checks || !options.gpu_arch.empty())) {
    user_error("{} is for --device cuda-emulated", options.gpu_checks ? "--gpu-checks" : "--gpu-arch");
  }
  return device.value();
}

/// User errors for options that this file has no use for.
void check_options_of_file(const ExecutionOptions& options) {
  if (!is_module(options.file, options.contents)) return;
  refuse(options.given,
         {"--opt", "--precision", "--gpu-arch", "--gpu-checks", "--no-cache", "--optimize", "--decisions",
          "--custom-ops", "--records", "--keep-input"},
         options.file +
             ": is compiled already, and only the compilation of a model (.onnx or .gir) asks for these");
}

/// User errors for CPUs that no thread would be pinned to.
void check_cpus(const ExecutionOptions& options, const std::vector<int>& cpus) {
  if (options.threads > 0 && cpus.size() > static_cast<size_t>(options.threads)) {
    user_error("--cpus {}: names {} CPUs, but --threads {} leaves some of them without a thread; name {}",
               options.cpus, cpus.size(), options.threads, options.threads);
  }
}

/// User errors for what is said of made-up inputs where there are none.
void check_made_up_inputs(const ExecutionOptions& options, const GivenSizes& sizes,
                          const Execution& execution) {
  bool any_made_up = execution.inputs.empty();
  for (size_t i = 0; i < execution.inputs.size(); ++i) {
    const rpc::TensorDescription& input = execution.loaded.inputs[i];
    const bool made_up = execution.inputs[i].source.starts_with("random, ");
    any_made_up = any_made_up || made_up;
    if (!is_module(options.file, options.contents) || !sizes.shapes.contains(input.name)) continue;
    const bool symbolic = std::ranges::any_of(input.shape, [](int64_t dim) { return dim < 0; });
    if (!made_up) {
      user_error("--shape {}=…: {} says what is in this input; leave --shape out", input.name,
                 execution.inputs[i].source);
    }
    if (!symbolic) {
      user_error("--shape {}=…: was {} already when {} was compiled; leave --shape out", input.name,
                 shape_text(input.shape), options.file);
    }
  }
  if (!any_made_up) {
    refuse(options.given, {"--seed", "--random"}, "every input has a file, so that no data are made up");
  }
}

void set_inputs(Execution& execution) {
  for (size_t i = 0; i < execution.inputs.size(); ++i) {
    execution.machine->set_input(static_cast<int>(i), execution.inputs[i].tensor);
  }
}

/// A module that was sent and loaded, as two spans: what travelled, until the last of it had gone, and the
/// rest.
void record_load(SpanRecorder& spans, int64_t begin_ns, int64_t sent_ns, uint64_t sent_bytes,
                 uint64_t module_bytes) {
  if (sent_bytes > 0) {
    const double seconds = static_cast<double>(sent_ns - begin_ns) * 1e-9;
    SpanArguments arguments = {{"bytes", static_cast<double>(sent_bytes)}};
    if (seconds > 0) arguments.emplace_back("MB/s", static_cast<double>(sent_bytes) / seconds * 1e-6);
    spans.add({"upload segments", "machine", begin_ns, sent_ns, std::move(arguments)});
  }
  spans.add({"load", "machine", sent_ns, spans.now(), {{"module bytes", static_cast<double>(module_bytes)}}});
}

void upload(Execution& execution, const ExecutionOptions& options, const Invocation& invocation) {
  Progress progress(invocation.verbosity());
  SpanRecorder* spans = invocation.spans.get();
  const int64_t begin = spans == nullptr ? 0 : spans->now();
  int64_t sent_at = begin;
  uint64_t sent = 0;
  execution.loaded = execution.machine->load(
      execution.module.bytes, load_options(options), [&](uint64_t done, uint64_t total) {
        if (total == 0) return;
        sent = done;
        if (spans != nullptr) sent_at = spans->now();
        progress.update(fmt::format("sending: {} of {}", bytes_text(static_cast<double>(done)),
                                    bytes_text(static_cast<double>(total))),
                        static_cast<double>(done) / static_cast<double>(total));
      });
  if (spans != nullptr) record_load(*spans, begin, sent_at, sent, execution.module.bytes.bytes.size());
}

/// upload(), whose complaints about a module that the user gave name its file.
void upload_named(Execution& execution, const ExecutionOptions& options, const Invocation& invocation) {
  const auto named = [&](const char* what) { return options.file + ": " + what; };
  try {
    upload(execution, options, invocation);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser || !is_module(options.file, options.contents)) throw;
    throw Error(error.kind(), named(error.what()));
  } catch (const rpc::Error& error) {
    if (error.kind() != rpc::ErrorKind::kRequest || !is_module(options.file, options.contents)) throw;
    throw rpc::Error(error.kind(), named(error.what()));
  }
}

/// Names the files that are read before anything is done, so that none of them becomes an output.
void plan_inputs(const ExecutionOptions& options, OutputPlan& plan) {
  if (options.contents.owner == nullptr)
    plan.reads(options.file, is_module_file(options.file) ? "the module" : "the model");
  for (const std::string& input : options.inputs) {
    for (const std::filesystem::path& file : files_of_argument(input)) plan.reads(file, "the input");
  }
  for (const std::string& preset : options.preprocess)
    plan.reads(split_named(preset).value, "the description of --preprocess");
  if (options.board.empty()) return;
  const BoardsFile boards = BoardsFile::read(boards_path());
  plan.reads(boards_path(), "the list of boards");
  plan.reads(resolve_board(options.board, options.key, boards).entry.key, "the key");
}

/// What is said behind an error of a name that no input has, for names that the model may have an input of.
std::string advice_on_defaults(const ExecutionOptions& options) {
  if (!is_module(options.file, options.contents)) return "";
  return "; an input that has a default in the model is a constant of the module unless that is compiled "
         "with "
         "--keep-input NAME";
}

/// User errors for arrays that the model has no input for or that do not fit theirs, and for inputs that get
/// no data at all.
void check_tensors(const Execution& execution, const ExecutionOptions& options) {
  std::vector<std::string> names;
  for (const rpc::TensorDescription& input : execution.loaded.inputs) names.push_back(input.name);
  for (const auto& [name, tensor] : options.tensors) {
    if (std::ranges::find(names, name) == names.end()) {
      user_error("{} has no input '{}'; it has {}{}{}", options.file, name, fmt::join(names, ", "),
                 did_you_mean(name, names), advice_on_defaults(options));
    }
  }
  for (const rpc::TensorDescription& input : execution.loaded.inputs) {
    const auto given = options.tensors.find(input.name);
    if (given == options.tensors.end()) continue;
    check_input(input, given->second.type, given->second.shape, fmt::format("inputs['{}']", input.name));
  }
  if (options.seed || !options.inputs.empty()) return;
  for (const std::string& name : names) {
    if (!options.tensors.contains(name))
      user_error("{}: input '{}' is not given; a seed makes data up", options.file, name);
  }
}

/// What --shape and --dim say of inputs that are made up.
struct MadeUpSizes {
  std::map<std::string, std::vector<int64_t>> shapes;  ///< by input; kOpenSize: open
  std::map<std::string, int64_t> sizes;                ///< by symbol
};

/// A model was compiled with them, and its module limits its sizes itself: what is left are fixed sizes of inputs.
/// User errors for ranges of what is compiled already.
MadeUpSizes made_up_sizes(const Execution& execution, const ExecutionOptions& options, const GivenSizes& given) {
  const bool compiled = is_module(options.file, options.contents);
  const auto plain = [&](const std::string& name, const GivenSize& size) {
    if (size.open() || size.fixed()) return size.range.low;
    if (compiled)
      user_error("{}={}: {} is compiled already, and a range is for compiling; give one size", name, to_string(size), options.file);
    return kOpenSize;
  };
  const auto is_input = [&](const std::string& name) {
    return std::ranges::any_of(execution.loaded.inputs,
                               [&](const auto& input) { return input.name == name; }) ||
           is_tensor_of_sequence(execution.loaded.inputs, name);
  };
  MadeUpSizes result;
  for (const auto& [name, shape] : given.shapes) {
    if (is_no_value(shape)) {
      if (compiled) user_error("--shape {}=none: {} is compiled already; leave --shape out", name, options.file);
      continue;
    }
    if (shape.size() == 1 && !is_input(name)) {  // --shape N=4, of a dimension
      if (compiled) result.sizes[name] = plain(name, shape.front());
      continue;
    }
    for (const GivenSize& size : shape) result.shapes[name].push_back(plain(name, size));
    result.shapes[name];  // of a scalar
  }
  if (!compiled) return result;
  for (const auto& [name, size] : given.sizes) result.sizes[name] = plain(name, size);
  return result;
}

/// The inputs from files, the others made up in sizes that suit the module.
std::vector<GivenInput> given_inputs(const Execution& execution, const ExecutionOptions& options,
                                     const GivenSizes& sizes) {
  auto contents = runtime::ModuleContents::from_bytes(execution.module.bytes, false);
  if (!contents.ok()) user_error("{}: {}", options.file, contents.status().message());
  const MadeUpSizes asked = made_up_sizes(execution, options, sizes);
  check_size_names(contents->manifest(), asked.sizes);  // also where no input is made up
  InputChoice choice;
  choice.files = options.inputs;
  choice.shapes = asked.shapes;
  choice.seed = options.seed;
  if (!options.tensors.empty()) {
    check_tensors(execution, options);
    for (const auto& [name, tensor] : options.tensors) choice.shapes[name] = tensor.shape;
    choice.seed = options.seed.value_or(0);  // of what is given, too, which is replaced then
  }
  choice.preprocess = options.preprocess;
  choice.advice = advice_on_defaults(options);
  choice.choose = [&](const std::vector<std::vector<int64_t>>& known) {
    return choose_sizes(contents->manifest(), asked.sizes, known);
  };
  std::vector<GivenInput> inputs = gather_inputs(execution.loaded.inputs, choice);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto given = options.tensors.find(execution.loaded.inputs[i].name);
    if (given != options.tensors.end()) inputs[i] = {given->second, "an array"};
  }
  return inputs;
}

/// A time or a result means little to who does not know the sizes.
void note_chosen_sizes(const Execution& execution, const Invocation& invocation) {
  for (size_t i = 0; i < execution.inputs.size(); ++i) {
    const GivenInput& input = execution.inputs[i];
    if (input.chosen.empty()) continue;
    const rpc::TensorDescription& wanted = execution.loaded.inputs[i];
    const std::string shape = shape_text(input.tensor.shape);
    invocation.note(fmt::format("input '{}' is {}: chosen {}; for others change them in --shape {}={}",
                                wanted.name, shape, chosen_text(input.chosen), wanted.name, shape));
  }
}

}  // namespace

void add_execution_options(CLI::App& command, ExecutionOptions& options) {
  command.add_option("MODEL", options.file, "A model (.onnx) or graph text (.gir), compiled for the machine, or a module (.gmod)")
      ->required();
  add_run_options(command, options);
}

void add_run_options(CLI::App& command, ExecutionOptions& options) {
  command
      .add_option("--on", options.board,
                  "Board: a name from `gantry boards`, or HOST:PORT; else this machine")
      ->type_name("BOARD");
  command.add_option("--key", options.key, "Key file of the board (see `gantry keygen`)")->type_name("FILE");
  command
      .add_option(
          "--device", options.device,
          "What of the machine to run on; cuda:1 is the second GPU; cuda-emulated runs a GPU's kernels on "
          "the CPU")
      ->type_name("cpu|cuda|cuda-emulated");
  command
      .add_option("--gpu-arch", options.gpu_arch,
                  "The GPU that cuda-emulated schedules a model for; default sm_80")
      ->type_name("sm_NN");
  command.add_flag("--gpu-checks", options.gpu_checks,
                   "cuda-emulated looks for races, accesses out of bounds and uninitialised shared memory");
  command
      .add_option(
          "--precision", options.precision,
          "Arithmetic of convolutions and matrix products of a model; default auto: the fastest within about "
          "1e-5 of fp32; fp16 is for GPUs and for CPUs with half-precision arithmetic, within about 3e-3")
      ->type_name("auto|fp32|fp32-split|fp32-split3|bf16|tf32|fp16");
  command.add_option("--threads", options.threads, "Threads; default: one a physical core")
      ->type_name("N")
      ->check(between(1, kMostThreads));
  command
      .add_option(
          "--cpus", options.cpus,
          "Pin thread i to the i-th of these CPUs; default: one thread a core where there are as many")
      ->type_name("0,2|0-3");
  command
      .add_option(
          "-i,--input", options.inputs,
          "Input data: .npy, .npz (FILE.npz:ARRAY picks one), an ONNX tensor (.pb), a folder of those, an "
          "image; NAME= may be left out if the model has one input")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  command
      .add_option("--preprocess", options.preprocess,
                  "How images become inputs: imagenet, yolo, none, or a TOML file")
      ->type_name("[NAME=]PRESET|FILE.toml")
      ->allow_extra_args(false);
  add_shape_options(command, options.shapes, options.sizes);
  add_keep_input_option(command, options.kept_inputs);
  command.add_option("--opt", options.opt_level, kOptHelp)->type_name("0..3")->check(between(0, 3));
  command.add_option("--optimize", options.optimize, kOptimizeHelp)->type_name("speed|size|fast-math");
  add_decisions_option(command, options.decisions);
  add_custom_ops_option(command, options.custom_ops);
  add_records_option(command, options.records);
  command.add_flag("--no-cache", options.no_cache,
                   "Compile every kernel, also those that were compiled before (see `gantry cache`)");
  command.parse_complete_callback([&command, &options] {
    const GivenOptions given = given_options(command);
    options.given.insert(options.given.end(), given.begin(), given.end());
  });
}

void add_keep_input_option(CLI::App& command, std::vector<std::string>& names) {
  command
      .add_option(
          "--keep-input", names,
          "Keeps an input that has a default in the model (an initialiser of its name), which is a constant "
          "otherwise: runs have to give it then; again for several")
      ->type_name("NAME")
      ->allow_extra_args(false);
}

void add_decisions_option(CLI::App& command, std::string& decisions) {
  command
      .add_option("--decisions", decisions,
                  "How nodes are computed, instead of as the target would: lines that `gantry ir MODEL --forms` prints")
      ->type_name("FILE");
}

void add_custom_ops_option(CLI::App& command, std::vector<std::string>& paths) {
  command
      .add_option("--custom-ops", paths,
                  "Ops that the model has and gantry has not: a folder with an ops.toml, or a shared library made of one; "
                  "again for several (docs/custom-ops.md)")
      ->type_name("PATH")
      ->allow_extra_args(false);
}

void add_optimization_options(CLI::App& command, int& opt_level, std::string& precision, std::string& optimize) {
  command.add_option("--opt", opt_level, kOptHelp)->type_name("0..3")->check(between(0, 3));
  command
      .add_option(
          "--precision", precision,
          "How f32 is multiplied in convolutions and matrix products; default auto: the fastest within about "
          "1e-5 of fp32; fp16 is for GPUs and for CPUs with half-precision arithmetic, within about 3e-3")
      ->type_name("auto|fp32|fp32-split|fp32-split3|bf16|tf32|fp16");
  command.add_option("--optimize", optimize, kOptimizeHelp)->type_name("speed|size|fast-math");
}

void add_shape_options(CLI::App& command, std::vector<std::string>& shapes, std::vector<std::string>& sizes) {
  command
      .add_option("--shape", shapes,
                  "Fixes an input's symbolic dimensions; ? leaves one open, 1..8 limits it; of a dimension by its "
                  "name: NAME=4, NAME=1..8; none: an optional input has no value")
      ->type_name("NAME=1x3x224x?")
      ->allow_extra_args(false);
  command
      .add_option("--dim", sizes,
                  "Fixes a symbolic dimension by its name, or limits it: the model's, or INPUT_dAXIS for one without")
      ->type_name("NAME=SIZE|LOW..HIGH")
      ->allow_extra_args(false);
}

rpc::LoadOptions load_options(const ExecutionOptions& options) {
  rpc::LoadOptions load;
  load.threads = options.threads;
  load.cpus = parse_cpus(options.cpus);
  load.device = options.device;
  return load;
}

std::unique_ptr<Machine> open_machine(const std::string& board, const std::string& key) {
  if (board.empty()) {
    if (!key.empty()) user_error("--key is for a board; give --on BOARD too");
    return this_machine();
  }
  return connect_board(resolve_board(board, key, BoardsFile::read(boards_path())));
}

namespace {

/// Threads that were asked for; 0: one a physical core.
int threads_given(const ExecutionOptions& options) {
  return options.threads > 0 ? options.threads : static_cast<int>(parse_cpus(options.cpus).size());
}

/// Of inputs that the options give data for by name.
std::set<std::string> given_names(const ExecutionOptions& options) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : options.tensors) names.insert(name);
  for (const std::string& argument : options.inputs) {
    const std::vector<std::string> of_argument = names_of_argument(argument);
    names.insert(of_argument.begin(), of_argument.end());
  }
  return names;
}

}  // namespace

ModuleRequest request_of(const ExecutionOptions& options, const Invocation& invocation) {
  ModuleRequest request{.file = options.file,
                        .contents = options.contents,
                        .sizes = {parse_shapes(options.shapes), parse_sizes(options.sizes)},
                        .opt_level = options.opt_level,
                        .device = device_of(options),
                        .gpu_arch = options.gpu_arch,
                        .gpu_checks = options.gpu_checks};
  if (!options.precision.empty()) request.precision = find_precision(options.precision);
  if (!options.optimize.empty()) request.optimize = find_optimize(options.optimize);
  request.decisions = read_decisions(options.decisions, invocation);
  request.custom_ops = read_custom_ops(options.custom_ops, invocation);
  request.kept_inputs = given_names(options);
  request.kept_inputs.insert(options.kept_inputs.begin(), options.kept_inputs.end());
  request.expected_inputs = options.kept_inputs;
  request.records = options.records;
  request.threads = threads_given(options);
  request.use_cache = !options.no_cache;
  request.keep_program = options.keep_program;
  return request;
}

Execution prepare_execution(const ExecutionOptions& options, const Invocation& invocation) {
  // What is wrong is found before a board is asked.
  plan_inputs(options, *invocation.outputs);
  (void)device_of(options);
  check_options_of_file(options);
  check_cpus(options, parse_cpus(options.cpus));
  Execution execution;
  execution.spans = invocation.spans;
  {
    TimedSpan span(invocation.spans.get(), "machine", "connect");
    execution.machine = open_machine(options.board, options.key);
    span.say("to", execution.machine->label());
  }
  const ModuleRequest request = request_of(options, invocation);
  const bool on_gpu = request.device.type == module_format::Device::Cuda;
  execution.module = module_for(
      request, on_gpu ? execution.machine->info_with_gpus() : execution.machine->info(), invocation);
  upload_named(execution, options, invocation);
  const TimedSpan span(invocation.spans.get(), "machine", "make and send the inputs");
  execution.inputs = given_inputs(execution, options, request.sizes);
  note_chosen_sizes(execution, invocation);
  check_made_up_inputs(options, request.sizes, execution);
  set_inputs(execution);
  return execution;
}

ProgramChoice program_that_runs(const Execution& execution, const ExecutionOptions& options) {
  auto contents = runtime::ModuleContents::from_bytes(execution.module.bytes, /*check_digests=*/false);
  auto device = runtime::parse_device(options.device);
  if (!contents.ok() || !device.ok()) return {};
  std::vector<std::vector<int64_t>> shapes;
  for (const GivenInput& input : execution.inputs) shapes.push_back(input.tensor.shape);
  return choose_program(contents->manifest(), execution.loaded.target, device->type, shapes);
}

FormerPulses former_pulses(const ExecutionOptions& options) {
  const std::filesystem::path folder = KernelCache::default_folder();
  return FormerPulses(PulseMemory(folder.empty() ? folder : folder / "core-pulses.json"), options.cpus);
}

void restart(Execution& execution, const ExecutionOptions& options) {
  const TimedSpan span(execution.spans.get(), "machine", "start another process");
  execution.machine.reset();  // first: a board may serve few sessions at once
  execution.machine = open_machine(options.board, options.key);
  execution.loaded = execution.machine->load(execution.module.bytes, load_options(options), {});
  set_inputs(execution);
}

}  // namespace gantry::cli
