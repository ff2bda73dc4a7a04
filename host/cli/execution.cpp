#include "host/cli/execution.h"

#include <CLI/CLI.hpp>

#include "host/cli/text.h"
#include "host/support/error.h"
#include "host/support/suggest.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

constexpr int kMostThreads = 1024;

void check_device(const std::string& device) {
  const std::vector<std::string> devices = {"cpu"};
  if (device != "cpu")
    user_error("unknown device '{}'{}; this gantry has: cpu", device, did_you_mean(device, devices));
}

void upload(Execution& execution, const ExecutionOptions& options, const Invocation& invocation) {
  Progress progress(invocation.verbosity());
  rpc::LoadOptions load;
  load.threads = options.threads;
  load.device = options.device;
  execution.loaded =
      execution.machine->load(execution.module.bytes, load, [&](uint64_t done, uint64_t total) {
        if (total == 0) return;
        progress.update(fmt::format("sending: {} of {}", bytes_text(static_cast<double>(done)),
                                    bytes_text(static_cast<double>(total))),
                        static_cast<double>(done) / static_cast<double>(total));
      });
}

/// upload(), whose complaints about a module that the user gave name its file.
void upload_named(Execution& execution, const ExecutionOptions& options, const Invocation& invocation) {
  const auto named = [&](const char* what) { return options.file + ": " + what; };
  try {
    upload(execution, options, invocation);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser || !is_module_file(options.file)) throw;
    throw Error(error.kind(), named(error.what()));
  } catch (const rpc::Error& error) {
    if (error.kind() != rpc::ErrorKind::kRequest || !is_module_file(options.file)) throw;
    throw rpc::Error(error.kind(), named(error.what()));
  }
}

}  // namespace

void add_execution_options(CLI::App& command, ExecutionOptions& options) {
  command.add_option("MODEL", options.file, "A model (.onnx), compiled for the machine, or a module (.gmod)")
      ->required();
  command
      .add_option("--on", options.board,
                  "Board: a name from `gantry boards`, or HOST:PORT; else this machine")
      ->type_name("BOARD");
  command.add_option("--key", options.key, "Key file of the board (see `gantry keygen`)")->type_name("FILE");
  command.add_option("--device", options.device, "Device of the machine to run on")->type_name("cpu");
  command.add_option("--threads", options.threads, "Threads; default: one a physical core")
      ->type_name("N")
      ->check(CLI::Range(1, kMostThreads));
  command
      .add_option("-i,--input", options.inputs,
                  "Input data; NAME= may be left out if the model has one input")
      ->type_name("[NAME=]FILE.npy")
      ->allow_extra_args(false);
  command.add_option("--shape", options.shapes, "Fixes an input's symbolic dimensions")
      ->type_name("NAME=1x3x224x224")
      ->allow_extra_args(false);
  command.add_option("--opt", options.opt_level, "Optimisation level of the compiler; default 3")
      ->type_name("0..3")
      ->check(CLI::Range(0, 3));
}

std::unique_ptr<Machine> open_machine(const std::string& board, const std::string& key) {
  if (board.empty()) {
    if (!key.empty()) user_error("--key is for a board; give --on BOARD too");
    return this_machine();
  }
  return connect_board(resolve_board(board, key, BoardsFile::read(boards_path())));
}

Execution prepare_execution(const ExecutionOptions& options, const Invocation& invocation) {
  check_device(options.device);
  const ShapeMap shapes = parse_shapes(options.shapes);
  is_module_file(options.file);  // a wrong file is found before a board is asked
  Execution execution;
  execution.machine = open_machine(options.board, options.key);
  execution.module =
      module_for({options.file, shapes, options.opt_level}, execution.machine->info(), invocation);
  upload_named(execution, options, invocation);
  execution.inputs = gather_inputs(execution.loaded.inputs, {options.inputs, shapes, options.seed});
  for (size_t i = 0; i < execution.inputs.size(); ++i) {
    execution.machine->set_input(static_cast<int>(i), execution.inputs[i].tensor);
  }
  return execution;
}

}  // namespace gantry::cli
