// The whole compiler: graph -> module.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/codegen/codegen.h"
#include "host/codegen/kernel_cache.h"
#include "host/codegen/module_file.h"
#include "host/graph/graph.h"
#include "host/loops/lower.h"
#include "host/passes/fusion_report.h"
#include "host/passes/layout_record.h"
#include "host/passes/network_decision.h"
#include "host/passes/node_decision.h"
#include "host/support/span_recorder.h"
#include "host/support/spill_file.h"

namespace gantry {

class DecisionFile;  // host/driver/decision_file.h

/// A call of a kernel in the plan.
struct KernelStep {
  const Node* node = nullptr;  ///< of LoweredProgram::graph
  size_t kernel = 0;           ///< index into LoweredProgram::kernels
  size_t step = 0;             ///< index into the plan
  std::vector<Value*> inputs;  ///< of the node, each once: the kernel's buffers, before those of its results
  /// Why the schedule that a GPU's rules made of it asks for more than there is; another is taken. Empty: it fits.
  std::string misfit;
};
/// Kernels of one target before code generation, with the graph that they come from; for dumps and reports.
struct LoweredProgram {
  Graph graph;  ///< after the last pass: a node a kernel
  std::vector<LoopKernel> kernels;
  std::vector<std::string> ops;   ///< parallel to kernels: "nn.conv[winograd4]+add+nn.relu"
  std::vector<KernelStep> steps;  ///< in execution order
};

/// Called after every step of the pipeline, in order, of one program after the other; any member may be
/// empty.
struct CompileObserver {
  /// Before the first pass (pass == "import") and after each one.
  std::function<void(const std::string& pass, const Graph& graph)> graph_pass;
  /// Every kernel after each step of lowering ("schedule", …, "build_nests", "simplify", …).
  LoopObserver loop_pass;
  /// Each program of the module, in the order of its variants, once its code is there: of every target that
  /// for all sizes, then those for some sizes alone.
  std::function<void(LoweredProgram program, const Target& target)> lowered;
  /// What is being done and how far it is, 0 to 1.
  std::function<void(const std::string& what, double done)> progress;
  /// What is worth knowing but not asked for: that a GPU's program runs on the CPU beside it, say, and why.
  /// The same may be said again.
  std::function<void(const std::string& what)> note;
  /// Hears when each pass, and each kernel's lowering and code, began and ended, on which thread; null:
  /// nobody listens. It must outlive the compilation.
  SpanRecorder* spans = nullptr;
  /// Why kernels are what they are, and which nodes change layouts for whom: of the program compiled last,
  /// whose nodes they name. Null: nobody asks. They must outlive the compilation.
  FusionReport* fusion = nullptr;
  LayoutRecord* layouts = nullptr;
  /// How nodes are computed, in their order, of every program that is compiled; `candidates`: with what else
  /// was looked at. Null: nobody asks.
  std::vector<NodeDecision>* decisions = nullptr;
  bool candidates = false;
  /// What is decided for the network as a whole, of the program compiled last; what records say of that, of
  /// every program. Null: nobody asks.
  NetworkDecision* network = nullptr;
  std::vector<NetworkRecord>* network_records = nullptr;
};

/// What to compile for, where they differ.
enum class Optimize : uint8_t {
  kSpeed,
  kSize,      ///< the module's weights are not larger than the model's, but for padding
  kFastMath,  ///< speed, and arithmetic is rearranged as if numbers were exact
};
/// "speed", "size" or "fast-math"; a user error for others.
Optimize find_optimize(const std::string& text);
std::string_view name_of(Optimize optimize);

/// How a kernel is to be computed, where the target's rules are not to say it.
struct OwnKernel {
  std::vector<Tensor> inputs;  ///< placeholders, in the order of the kernel's input buffers
  std::shared_ptr<const Schedule> schedule;
};

struct CompileOptions {
  std::vector<Target> targets;
  /// 0: no optimisation beyond what code generation needs; 1: + folding and simplification; 2: + fusion;
  /// 3: + layouts and packed weights.
  int opt_level = 3;
  Optimize optimize = Optimize::kSpeed;
  /// A user error where a target cannot compute so.
  Precision precision = Precision::kAuto;
  /// Asked of every kernel, by its node after fusion and that node's tensor expressions over placeholders, whose
  /// order is that of the node's inputs: nothing leaves it to the target's rules. May be empty.
  std::function<std::optional<OwnKernel>(const Node& node, const std::vector<Tensor>& outputs)> own_kernel;
  /// Sizes of symbols, for each of which the module has a program of its own beside the one for all sizes; the first
  /// that fits runs. User errors: those of substitute_sizes.
  std::vector<std::map<std::string, int64_t>> specializations;
  bool verify = false;  ///< check the graph after every pass, and loops after every step of lowering
  /// Decisions that take the place of the target's; null: there are none. User errors for those that do not fit, or
  /// that are for no node of the model.
  std::shared_ptr<const DecisionFile> decisions;
  /// What of them programs of the target have used before the one that is compiled; null: there is no other.
  /// Whoever compiles several sets it.
  std::shared_ptr<UsedDecisions> used_decisions;
  /// Asked once for each target, in the precision that it computes in: what was recorded there, for nodes that
  /// `decisions` has nothing for. What does not fit is not used. May be empty, or return null.
  std::function<std::shared_ptr<RecordedDecisions>(const Target&)> records;
  int threads = 2;
  /// Where kernels that were compiled before are found and others are put; null: all are compiled.
  std::shared_ptr<KernelCache> cache;
  /// Where weights may wait for being written, instead of being in memory beside what code generation needs;
  /// null: they stay in memory.
  std::shared_ptr<SpillFile> spill;
  CompileObserver observer;
};

/// Runs the pipeline for one target down to loop IR.
LoweredProgram lower_program(const Graph& graph, const Target& target, const CompileOptions& options);
/// Compiles for every target of the options. Errors: user errors name the node; internal errors the kernel.
ModuleFile compile_graph(const Graph& graph, const CompileOptions& options);
/// The same for a graph that nobody needs any more, with less memory: about the weights once.
ModuleFile compile_graph(Graph&& graph, const CompileOptions& options);
/// A program of one target, and the module that it would be in, with weights and plan but without code.
struct PlannedProgram {
  LoweredProgram lowered;
  ModuleFile module;
};
/// For those who want each kernel's code by itself. Errors: as compile_graph.
PlannedProgram plan_program(const Graph& graph, const Target& target, const CompileOptions& options);
/// A graph pass, for those who read.
struct PassInfo {
  std::string name;
  int opt_level = 0;  ///< it runs at this level and above
  std::string purpose;
};
inline constexpr int kMostOptLevel = 3;
/// In the order in which they run at the highest level.
std::vector<PassInfo> all_passes();
/// The names of the graph passes of an --opt level, in order, for `gantry ir --help`.
std::vector<std::string> pass_names(int opt_level);

}  // namespace gantry
