#include "host/cli/records_verify.h"

#include <algorithm>
#include <utility>

#include "host/cli/records_pair.h"
#include "host/cli/records_use.h"
#include "host/cli/records_verify_network.h"
#include "host/cli/tune_measurer.h"
#include "host/codegen/find_target.h"
#include "host/records/setting.h"
#include "host/records/work_program.h"
#include "host/support/error.h"
#include "host/support/shortage.h"

namespace gantry::cli {
namespace {

using records::Outcome;
using records::Record;

constexpr uint64_t kSeed = 0;
// Largest difference by largest result, at least: of a work by itself, whose sums are in another order.
constexpr double kLeastTolerance = 1e-4;

struct Built {
  Contents module;
  Decision decision;
};

/// The program by that decision; none: as the compiler takes it.
Built build(const records::WorkProgram& program, const std::optional<Decision>& decision,
            const Record& record, const Target& target, Progress& progress) {
  Graph graph = records::graph_of(program, kSeed);
  if (decision) graph.main.nodes().front()->decision = decision;
  CompileOptions options = compile_options({target}, kMostOptLevel, progress);
  options.precision = target.precision;
  options.optimize = find_optimize(record.key.setting.optimize);
  std::vector<NodeDecision> decisions;
  options.observer.decisions = &decisions;
  options.cache = open_cache(true);
  ModuleFile file = compile_graph(std::move(graph), options);
  if (decisions.empty()) user_error("nothing is decided for its program any more");
  return {module_bytes(file), decisions.front().decision};
}

/// Why it cannot be measured on a machine whose setting is the other one; empty: it can.
std::string elsewhere(const records::Setting& own, const records::Setting& here) {
  if (own.target != here.target || own.features != here.features)
    return fmt::format("of target {}, not {}", own.target, here.target);
  if (own.machine != here.machine) return fmt::format("of {}, not {}", own.machine, here.machine);
  return "";
}

/// The record's where the machine can run its code, else the machine's own.
Target target_for(const Record& record, const rpc::BoardInfo& machine) {
  Target own = target_of_board(machine.architecture, machine.llvm_cpu, machine.features);
  const std::string& name = record.key.setting.target;
  if (name == own.name) return own;
  Target recorded = find_target(name);
  return misfit_of_target(recorded, machine).empty() ? recorded : own;
}

/// None where the compiler takes the decision by itself.
std::optional<Record> measured(const Record& record, const records::WorkProgram& program,
                               const records::Setting& setting, const Target& target,
                               const VerifyOptions& options, const Invocation& invocation) {
  Progress progress(invocation.verbosity());
  const Built base = build(program, std::nullopt, record, target, progress);
  if (base.decision == record.decision) return std::nullopt;
  Record again = again_of(record, setting, base.decision, options, "the work by itself");
  Built other;
  try {
    other = build(program, record.decision, record, target, progress);
  } catch (const Shortage&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    (void)build(program, std::nullopt, record, target, progress);  // throws what is not the decision's fault
    fail(again, Outcome::kMisfit, error.what());
    return again;
  }
  progress.clear();
  measure_pair(again, {{base.module, to_string(base.decision)}, {other.module, to_string(record.decision)}},
               std::max(kLeastTolerance, default_tolerance(target.precision)), options, invocation);
  return again;
}

/// `program`: of a node's work; null: the record is of a network.
void measure_again(Verified& result, const Record& record, const records::WorkProgram* program,
                   const rpc::BoardInfo& info, const VerifyOptions& options, const Invocation& invocation) {
  const Target target =
      with_precision(target_for(record, info), find_precision(record.key.setting.precision));
  const records::Setting here = records::setting_of(target, machine_name(info, target, 0),
                                                    record.key.setting.threads, record.key.setting.optimize);
  result.why = elsewhere(record.key.setting, here);
  if (!result.why.empty()) return;
  result.again = program == nullptr ? measured_network(record, here, target, options, invocation)
                                    : measured(record, *program, here, target, options, invocation);
  if (result.again) {
    // Not older than what it is about, whose clock may have been ahead: else that would go on deciding.
    result.again->date = std::max(records::date_now(), record.date);
  } else {
    result.why = "the compiler takes its decision by itself";
  }
}

}  // namespace

Verified verify_record(const Record& record, records::Store& store, const rpc::BoardInfo& machine,
                       const VerifyOptions& options, const Invocation& invocation) {
  Verified result{.id = record.id};
  std::optional<records::WorkProgram> program;
  if (record.op == records::kNetworkOp) {
    if (options.model.empty())
      result.why = fmt::format("it is of a whole network, which is not kept: name that with --model {}",
                               record.model.empty() ? "MODEL" : record.model);
  } else if (auto text = store.program_of(record.key.work)) {
    program = {record.key.work, *std::move(text)};
  } else {
    result.why = "the store has no program of its work";
  }
  if (!result.why.empty()) return result;
  try {
    measure_again(result, record, program ? &*program : nullptr, machine, options, invocation);
  } catch (const Error& error) {  // of an older version's program, say: the next record may do
    if (error.kind() != ErrorKind::kUser) throw;
    result.why = error.what();
  }
  return result;
}

}  // namespace gantry::cli
