#include "host/cli/records_verify_network.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/cli/inputs.h"
#include "host/cli/records_pair.h"
#include "host/cli/tune_measurer.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

using records::Outcome;
using records::Record;

/// What one record says of a network, and nothing else.
class OneRecord : public RecordedDecisions {
 public:
  explicit OneRecord(const Record& record) : record_(record) {}
  Answer find(const std::string&) override { return {}; }
  NetworkAnswer find_network(const std::string& network) override {
    if (network != record_.key.work) return {};
    return {
        .decision = record_.decision, .parts = record_.parts, .place = fmt::format("record {}", record_.id)};
  }

 private:
  const Record& record_;
};

/// The model as the target takes it, `told` what records say of it; null: none do.
Contents build(const Record& record, const std::shared_ptr<RecordedDecisions>& told, const Target& target,
               const VerifyOptions& options, const Invocation& invocation,
               std::vector<NetworkRecord>& answers) {
  Progress progress(invocation.verbosity());
  CompileOptions compile = compile_options({target}, kMostOptLevel, progress);
  compile.precision = target.precision;
  compile.optimize = find_optimize(record.key.setting.optimize);
  compile.cache = open_cache(true);
  compile.observer.network_records = &answers;
  if (told) compile.records = [&told](const Target&) { return told; };
  Graph graph = verified_model(options, compile.optimize, invocation);
  ModuleFile file = compile_graph(std::move(graph), compile);
  return module_bytes(file);
}

/// Why the record has not decided; empty: it has.
std::string misfit_of(const std::vector<NetworkRecord>& answers, const VerifyOptions& options) {
  std::string why;
  for (const NetworkRecord& answer : answers) {
    if (!answer.record.empty()) return "";
    if (!answer.unused.empty()) why = answer.unused.front();
  }
  if (why.empty())
    user_error(
        "{} is another network than the one that was tuned, at least with these sizes and inputs: give "
        "--shape, --dim and --keep-input as then",
        options.model);
  return why;
}

bool equal(const Contents& a, const Contents& b) {
  return std::ranges::equal(a.bytes, b.bytes);
}

}  // namespace

Graph verified_model(const VerifyOptions& options, Optimize optimize, const Invocation& invocation) {
  Invocation silent = invocation;  // what there is to say of the model, commands that compile it say
  silent.hear = [](const std::string&, bool) {};
  Graph graph = import_model(options.model,
                             {.sizes = {parse_shapes(options.shapes), parse_sizes(options.sizes)},
                              .optimize = optimize,
                              .custom_ops = read_custom_ops(options.custom_ops, invocation),
                              .kept_inputs = {options.kept_inputs.begin(), options.kept_inputs.end()}},
                             silent);
  check_kept_inputs(graph, options.kept_inputs, options.model);
  return graph;
}

std::optional<Record> measured_network(const Record& record, const records::Setting& setting,
                                       const Target& target, const VerifyOptions& options,
                                       const Invocation& invocation) {
  Record again = again_of(record, setting, record.baseline, options, record.timed);
  std::vector<NetworkRecord> answers;
  const Contents other =
      build(record, std::make_shared<OneRecord>(record), target, options, invocation, answers);
  if (const std::string misfit = misfit_of(answers, options); !misfit.empty()) {
    fail(again, Outcome::kMisfit, misfit);
    return again;
  }
  const Contents base = build(record, nullptr, target, options, invocation, answers);
  if (equal(base, other)) return std::nullopt;
  measure_pair(again, {{base, to_string(record.baseline)}, {other, to_string(record.decision)}},
               default_tolerance(target.precision), options, invocation);
  return again;
}

}  // namespace gantry::cli
