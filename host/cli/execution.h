// What `run` and `bench` have in common: a model or module, a machine, inputs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/former_pulses.h"
#include "host/cli/inputs.h"
#include "host/cli/machine.h"
#include "host/cli/model_source.h"
#include "host/cli/program_choice.h"
#include "host/cli/refusal.h"

namespace CLI {
class App;
}

namespace gantry::cli {

struct ExecutionOptions {
  std::string file;
  Contents contents;  ///< the model or module, which `file` then only stands for in messages and reports
  std::map<std::string, HostTensor> tensors;  ///< inputs that come from no file, by name
  std::string board;                          ///< --on; empty: this machine
  std::string key;
  std::string device = "cpu";  ///< as the runtime names devices: "cuda:1"
  std::string gpu_arch;        ///< of cuda-emulated: the GPU to schedule for; empty: the default
  bool gpu_checks = false;     ///< of cuda-emulated: find races and accesses out of bounds
  std::string target;          ///< whose code a model becomes; empty: the machine's own
  std::string precision;       ///< empty: auto
  std::string optimize;        ///< empty: for speed
  std::string decisions;       ///< a file's name; empty: the target's own
  std::vector<std::string> custom_ops;  ///< folders and libraries
  std::vector<std::string> kept_inputs;  ///< --keep-input; inputs that data are given for are kept without it
  std::string records;         ///< a place of records of tuning; empty: none
  int threads = 0;
  std::string cpus;  ///< to pin threads to: "0,2", "0-3"
  int opt_level = 3;
  bool no_cache = false;  ///< of compiled kernels
  std::vector<std::string> inputs, preprocess, shapes, sizes;
  std::optional<uint64_t> seed;
  bool keep_program = false;  ///< as in ModuleRequest
  GivenOptions given;         ///< of all these, and of the command's own
};
/// MODEL, and the options that it is run with.
void add_execution_options(CLI::App& command, ExecutionOptions& options);
/// Those options alone.
void add_run_options(CLI::App& command, ExecutionOptions& options);

/// Those of them that say how a machine runs a module.
rpc::LoadOptions load_options(const ExecutionOptions& options);

/// A machine on which the module is loaded and its inputs are set.
struct Execution {
  std::unique_ptr<Machine> machine;
  ModuleBytes module;
  rpc::LoadedModule loaded;
  std::vector<GivenInput> inputs;
  std::shared_ptr<SpanRecorder> spans;  ///< of the invocation: null where nobody asks
};
/// What module_for() is asked for; files that the options name are read. User errors for options that are none.
ModuleRequest request_of(const ExecutionOptions& options, const Invocation& invocation);
Execution prepare_execution(const ExecutionOptions& options, const Invocation& invocation);
/// Which of the module's programs runs for the inputs.
ProgramChoice program_that_runs(const Execution& execution, const ExecutionOptions& options);
/// A new process on the same machine in the place of the old one, with the same module and inputs.
void restart(Execution& execution, const ExecutionOptions& options);

/// What former commands know of that machine's pulses, in the user's cache.
FormerPulses former_pulses(const ExecutionOptions& options);

/// Names the list of boards and the key that open_machine() reads, so that neither becomes an output; nothing
/// where `board` is empty. User error where it is neither a board's name nor an address.
void plan_board(const std::string& board, const std::string& key, OutputPlan& plan);
/// this_machine(), or the board of that name or address.
std::unique_ptr<Machine> open_machine(const std::string& board, const std::string& key);

}  // namespace gantry::cli
