// From the file that a command is given to a module that a machine can run.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "device_runtime/src/device.h"
#include "device_runtime/src/memory.h"
#include "host/cli/compiled_program.h"
#include "host/cli/invocation.h"
#include "host/driver/compile.h"
#include "host/graph/fix_sizes.h"
#include "host/graph/graph.h"
#include "rpc/client/types.h"

namespace gantry {
class CustomOps;  // host/custom_ops/custom_ops.h
}

namespace gantry::cli {

/// Of --optimize and --opt.
inline constexpr const char* kOptimizeHelp =
    "What to optimise for: speed (default); size: weights as large as the model's, no packed forms that are "
    "larger; or fast-math: speed, with arithmetic rearranged as if numbers were exact";
inline constexpr const char* kOptHelp =
    "Optimisation: 0 what code needs, 1 + folding and simplification, 2 + fusion into kernels, 3 + "
    "algorithms, "
    "layouts and packed weights; default 3 (`gantry ir --list-passes` has all passes)";

/// A model or module in memory, in the place of a file's contents; without an owner: there is none, the file
/// is read. A module begins at a multiple of 64 bytes.
using Contents = runtime::SharedBytes;
/// Whether the file is a module (by its first bytes). User error if it cannot be read.
bool is_module_file(const std::filesystem::path& path);
/// As is_module_file; of `contents` where there are any.
bool is_module(const std::filesystem::path& path, const Contents& contents);

/// Whether it is graph text (.gir). User error if it cannot be read.
bool is_graph_text_file(const std::filesystem::path& path, const Contents& contents = {});

/// How a model or graph text is read: what is not told here is as in ImportOptions (host/onnx/import.h).
struct ModelImportOptions {
  GivenSizes sizes;
  Optimize optimize = Optimize::kSpeed;
  /// As in ImportOptions; of text it hears of the origins of nodes, with ops of the graph.
  std::function<void(const std::string& name, const std::string& op)> on_node;
  Contents contents;  ///< the model; its external data are looked for in the folder of the path
  std::shared_ptr<const CustomOps> custom_ops;
  std::shared_ptr<SpillFile> spill;
  std::set<std::string> kept_inputs;
};
/// Reads a model (.onnx) or graph text (.gir); warnings go to stderr. With contents `path` only stands for
/// them in messages.
Graph import_model(const std::filesystem::path& path, const ModelImportOptions& options,
                   const Invocation& invocation);

inline constexpr const char* kKeepInput = "--keep-input ";
/// User error for a name of --keep-input that no input of the imported model has; `option` is in front of it.
void check_kept_inputs(const Graph& graph, const std::vector<std::string>& names, const std::string& file,
                       const std::string& option = kKeepInput);
/// As above, of the names of its inputs.
void check_kept_inputs(const std::vector<std::string>& inputs, const std::vector<std::string>& names,
                       const std::string& file, const std::string& option = kKeepInput);

/// Of --custom-ops: ops that models may use (host/custom_ops/custom_ops.h); null for none. User errors: those of
/// CustomOps::load.
std::shared_ptr<const CustomOps> read_custom_ops(const std::vector<std::string>& paths, const Invocation& invocation);

/// A compiled or read module, with what reports say of it.
struct ModuleBytes {
  runtime::SharedBytes bytes;
  std::string digest;  ///< SHA-256, hexadecimal
  int opt_level = -1;  ///< -1: it was a module file
  /// Of its variants, in their order, where ModuleRequest asked for them and a model was compiled.
  std::vector<std::shared_ptr<const CompiledProgram>> programs;
};

struct ModuleRequest {
  std::filesystem::path file;
  Contents contents;  ///< what is in the file, where it is none
  GivenSizes sizes;
  int opt_level = 3;
  runtime::DeviceName device;
  std::string gpu_arch;     ///< of cuda-emulated: "sm_90"; empty: the default
  bool gpu_checks = false;  ///< of cuda-emulated
  std::string target;       ///< by its name, of that device; empty: the machine's own
  Precision precision = Precision::kAuto;
  bool use_cache = true;  ///< of compiled kernels
  Optimize optimize = Optimize::kSpeed;
  std::shared_ptr<const DecisionFile> decisions;  ///< as in CompileOptions
  std::shared_ptr<const CustomOps> custom_ops;    ///< as in ModelImportOptions
  std::set<std::string> kept_inputs;              ///< as in ModelImportOptions
  std::vector<std::string> expected_inputs;       ///< of --keep-input, as in check_kept_inputs()
  std::string records;        ///< a place of records of tuning (host/cli/records_use.h); empty: none
  int threads = 0;            ///< that will run it, for records; 0: one a physical core
  bool keep_program = false;  ///< for reports of how it is computed
};
/// Those of its model.
ModelImportOptions import_options(const ModuleRequest& request);
/// Why the machine that reports this cannot run a CPU target's code; empty: it can.
std::string misfit_of_target(const Target& target, const rpc::BoardInfo& machine);
/// The target that the request names; none: it names none. User errors where that is of another device, or
/// says otherwise of a GPU than the request's other members.
std::optional<Target> named_target(const ModuleRequest& request);
/// The target of a device of the machine that reports this, or named_target(). User errors: its; they say why
/// there is no such device, or why that cannot run the target's code.
Target target_of_device(const ModuleRequest& request, const rpc::BoardInfo& machine);

/// The module for exactly that machine: a model is compiled for what `machine` reports, a module file is
/// taken as it is. User errors: those of import and compile; shapes and sizes for a symbolic module are left
/// to the inputs.
ModuleBytes module_for(const ModuleRequest& request, const rpc::BoardInfo& machine,
                       const Invocation& invocation);

/// Of --decisions: what is decided for nodes of the model instead of by the target (host/driver/decision_file.h);
/// null for "". User errors for a file that cannot be read or is none.
std::shared_ptr<const DecisionFile> read_decisions(const std::string& file, const Invocation& invocation);
/// Says so where they are for other targets alone, so that they change nothing. `decisions` may be null.
void note_foreign_decisions(const DecisionFile* decisions, const std::vector<Target>& targets,
                            const Invocation& invocation);

/// Bytes at an address that the runtime can use in place.
runtime::SharedBytes aligned_copy(std::span<const std::byte> bytes);

/// The targets of those names, this machine if there are none; a user error for one that is named twice.
std::vector<Target> find_targets(const std::vector<std::string>& names);

/// Options of a compilation that reports to `progress`, and notes to `invocation`, each once, and that the
/// latter's check_interrupt ends; null: nobody hears them. Both must outlive it.
CompileOptions compile_options(std::vector<Target> targets, int opt_level, Progress& progress,
                               const Invocation* invocation = nullptr);

/// The bytes of a module, where the runtime can use them in place.
runtime::SharedBytes module_bytes(ModuleFile& module);

/// The user's cache of compiled kernels; null where it is not wanted or the environment names no place for
/// it.
std::shared_ptr<KernelCache> open_cache(bool wanted);

}  // namespace gantry::cli
