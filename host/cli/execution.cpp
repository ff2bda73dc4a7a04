#include "host/cli/execution.h"

#include <CLI/CLI.hpp>

#include "device_runtime/src/module_reader.h"
#include "host/cli/between.h"
#include "host/cli/execution_inputs.h"
#include "host/cli/model_options.h"
#include "host/cli/program_of_module.h"
#include "host/cli/records_use.h"
#include "host/cli/tensor_files.h"
#include "host/cli/text.h"
#include "host/codegen/kernel_cache.h"
#include "host/support/error.h"
#include "host/support/suggest.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

/// The device by its name; user errors for options that only another one has, and for a target of another.
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
  (void)named_target({.device = device.value(),
                      .gpu_arch = options.gpu_arch,
                      .gpu_checks = options.gpu_checks,
                      .target = options.target});
  return device.value();
}

/// User errors for options that this file has no use for.
void check_options_of_file(const ExecutionOptions& options) {
  if (!is_module(options.file, options.contents)) return;
  refuse(options.given,
         {"--target", "--opt", "--precision", "--gpu-arch", "--gpu-checks", "--no-cache", "--optimize",
          "--decisions", "--custom-ops", "--records", "--keep-input"},
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
  plan_board(options.board, options.key, plan);
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
      .add_option("--target", options.target,
                  "Compile a model for this target (see `gantry targets`), a CPU's or, beside --device, a "
                  "GPU's, whose code the machine can run too; default: the machine's own")
      ->type_name("TARGET");
  command
      .add_option(
          "--precision", options.precision,
          "Arithmetic of convolutions and matrix products of a model; default auto: the fastest within about "
          "1e-5 of fp32; fp16 is for GPUs and for CPUs with half-precision arithmetic, within about 3e-3")
      ->type_name("auto|fp32|fp32-split|fp32-split3|bf16|tf32|fp16");
  command.add_option("--threads", options.threads, "Threads; default: one a physical core")
      ->type_name("N")
      ->check(is_thread_count());
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

rpc::LoadOptions load_options(const ExecutionOptions& options) {
  rpc::LoadOptions load;
  load.threads = options.threads;
  load.cpus = parse_cpus(options.cpus);
  load.device = options.device;
  return load;
}

void plan_board(const std::string& board, const std::string& key, OutputPlan& plan) {
  if (board.empty()) return;
  const BoardsFile boards = BoardsFile::read(boards_path());
  plan.reads(boards_path(), "the list of boards");
  plan.reads(resolve_board(board, key, boards).entry.key, "the key");
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
                        .gpu_checks = options.gpu_checks,
                        .target = options.target};
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
