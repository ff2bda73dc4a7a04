// Passes as values, and what a pass may ask for while it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "host/graph/graph.h"
#include "host/passes/attention_policy.h"
#include "host/passes/network_decision.h"

namespace gantry {

class FormSet;        // host/passes/form_set.h
struct FusionReport;  // host/passes/fusion_report.h
class LayoutRecord;   // host/passes/layout_record.h
class GivenDecisions;
class RecordedDecisions;
struct RecordedLayouts;
class SpillFile;      // host/support/spill_file.h
struct NodeDecision;  // these of host/passes/node_decision.h

/// Options and wishes of the target, and the count of rewrites. The driver fills it from a target; the defaults
/// are those of no target in particular.
struct PassContext {
  bool for_gpu = false;
  /// Constants stay as small as the model has them, where that costs speed too.
  bool small = false;
  /// Arithmetic may be rearranged as if numbers were exact.
  bool fast_math = false;
  /// Without it, fuse_ops makes a kernel of every node.
  bool fuse = true;
  /// Convolutions and batched products of the same data become one (host/passes/combine_parallel.h). No network has
  /// been seen to gain by it: it is for those who want to try.
  bool combine_parallel = false;
  /// Products of u8 by i8 take less time than those of i32.
  bool multiplies_bytes = false;
  /// What fuse_ops keeps apart although it could be one kernel.
  std::vector<Separation> apart = {};
  AttentionPolicy attention;
  /// Forms of a function's nodes (host/passes/form_set.h). Absent: layouts and weights stay as they are.
  std::function<std::unique_ptr<FormSet>(const Function&)> forms;

  /// Where passes put down why kernels are what they are, and for whom nodes change layouts; null: nobody asks.
  /// They outlive the passes. A report on fusion needs every rewrite.
  FusionReport* fusion = nullptr;
  LayoutRecord* layouts = nullptr;
  /// Decisions that alter_layout applies instead of the target's; null: there are none.
  GivenDecisions* given = nullptr;
  /// Decisions for nodes that none is given for and that have none; those that do not fit are not used. Null: there are
  /// none.
  RecordedDecisions* recorded = nullptr;
  /// The same of nodes of this function, found together; they come before those. What does not fit is put
  /// down there.
  RecordedLayouts* recorded_layouts = nullptr;
  /// Where alter_layout puts down what was decided, in the order of the nodes; null: nobody asks. With what else was
  /// looked at where `candidates` is true.
  std::vector<NodeDecision>* decisions = nullptr;
  bool candidates = false;

  /// Where large constants that passes make may lie; null: in memory.
  SpillFile* spill = nullptr;

  /// Rewrites that may be made: with fewer each time, one finds the rewrite that changes a result.
  int64_t most_rewrites = std::numeric_limits<int64_t>::max();
  int64_t rewrites = 0;  ///< made

  bool may_rewrite() const { return rewrites < most_rewrites; }
  /// Counts a rewrite; false, and it must not be made, where no more may be.
  bool take_rewrite() {
    if (!may_rewrite()) return false;
    ++rewrites;
    return true;
  }
};

/// One pass: its file defines it as `NAME_pass`, and host/passes/pipeline.def says where it stands.
struct Pass {
  std::string_view name;
  std::string_view purpose;  ///< in a line, for --help
  /// What a pass named here has left is what this one needs; without it the pass does nothing of use.
  std::vector<std::string_view> after = {};
  /// Null: always of use.
  bool (*when)(const PassContext&) = nullptr;
  void (*run)(Graph&, PassContext&) = nullptr;
  /// It finds something to do behind fuse_ops too, where all else lies in groups.
  bool works_on_groups = false;

  bool applies(const PassContext& context) const { return when == nullptr || when(context); }
};

inline bool for_cpus(const PassContext& context) {
  return !context.for_gpu;
}
inline bool for_gpus(const PassContext& context) {
  return context.for_gpu;
}
inline bool to_combine_parallel(const PassContext& context) {
  return context.combine_parallel;
}

/// A line of the pipeline (host/passes/pipeline.def): a pass, and the level of optimisation from which on it runs.
struct PipelineStep {
  const Pass* pass;
  int level;
};
std::span<const PipelineStep> pipeline();
/// All passes, each once, in the order in which they first run.
std::span<const Pass* const> graph_passes();
/// Their names.
std::vector<std::string> graph_pass_names();
/// Null if there is none of that name.
const Pass* find_pass(std::string_view name);
/// From which level of optimisation on the pipeline has it.
int level_of(const Pass& pass);

/// User errors for a pass that wants another before it, which neither stands before it in the list nor is one of
/// those that the graph has been through (Graph::passes), and for one behind fuse_ops that finds only groups there:
/// they say what to add or move.
void expect_order(std::span<const Pass* const> passes, const Graph& graph, const PassContext& context);

}  // namespace gantry
