#include "host/cli/tune_model.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "host/cli/file_kind.h"
#include "host/cli/records_use.h"
#include "host/cli/text.h"
#include "host/cli/tune_measurer.h"
#include "host/records/setting.h"
#include "host/support/error.h"
#include "host/support/stopwatch.h"

namespace gantry::cli {
namespace {

/// Of a kernel's instructions: as exact as they are counted, fewer by less are not worth a decision. (The
/// smallest effect that `gantry compare` claims, too.)
constexpr double kSmallestGain = 0.01;

class SteadyClock : public tune::Clock {
 public:
  double seconds() const override { return watch_.seconds(); }

 private:
  Stopwatch watch_;
};

/// How the model is compiled for that machine, as prepare_execution does.
CompileOptions compilation(const ModuleRequest& request, const rpc::BoardInfo& machine) {
  CompileOptions options;
  options.targets = {target_of_device(request, machine)};
  options.opt_level = request.opt_level;
  options.precision = request.precision;
  options.optimize = request.optimize;
  options.decisions = request.decisions;
  options.cache = open_cache(request.use_cache);
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return options;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

tune::RunFacts run_facts(const tune::Network& network, const MachineMeasurer& measurer,
                         const ExecutionOptions& options, const std::string& boards) {
  const Target& target = network.target();
  const auto device = runtime::parse_device(options.device);
  const std::string machine = machine_name(measurer.board(), target, device.ok() ? device.value().index : 0);
  tune::RunFacts facts;
  facts.setting =
      records::setting_of(target, machine, measurer.threads(), options.optimize.empty() ? "speed" : options.optimize);
  facts.model = std::filesystem::path(options.file).filename().string();
  facts.board = boards;
  facts.source = fmt::format("gantry tune {} on {}", GANTRY_VERSION, host_name());
  return facts;
}

std::string progress_text(const tune::Progress& progress) {
  return fmt::format("{}; {} trials, {:.1f} % gained so far, {} left", progress.doing, progress.trials,
                     100 * progress.gain, duration_text(1e3 * progress.seconds_left));
}

/// Names with commas between them, as of --on; one that is empty is this machine. User errors for one that is
/// named twice or not at all.
std::vector<std::string> boards_of(const std::string& text) {
  std::vector<std::string> boards;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string board = text.substr(begin, end - begin);
    if (board.empty() && !text.empty()) user_error("--on {}: names no board between two commas", text);
    if (std::ranges::find(boards, board) != boards.end()) user_error("--on {}: names {} twice", text, board);
    boards.push_back(std::move(board));
    begin = end + 1;
  }
  return boards;
}

/// The file is found to be wrong before minutes of measuring.
std::unique_ptr<records::Store> open_records(const std::string& place, const Invocation& invocation) {
  if (place.empty()) return nullptr;
  if (place.find("://") == std::string::npos) invocation.outputs->reads(place, "the records");
  records::StoreOptions options;
  options.create = true;
  options.warn = [&](const std::string& message) { invocation.warn(message); };
  return records::open_store(place, options);
}

}  // namespace

TunedModel tune_model(const TuneModelOptions& options, const Invocation& invocation) {
  const Stopwatch taken;
  ExecutionOptions execution = options.execution;
  if (is_module(execution.file, execution.contents))
    user_error("{}: is compiled already; tune takes a model (.onnx) or graph text (.gir)", execution.file);
  const std::unique_ptr<records::Store> store = open_records(options.records, invocation);
  const std::vector<std::string> boards = boards_of(options.execution.board);
  execution.board = boards.front();
  Execution prepared = prepare_execution(execution, invocation);
  std::string label = prepared.machine->label();
  if (boards.size() > 1) label += fmt::format(" and {} more", boards.size() - 1);
  const ModuleRequest request = request_of(execution, invocation);
  Progress progress(invocation.verbosity());
  progress.update("finding what there is to tune", -1);
  Invocation silent = invocation;  // what there is to say of the model has been said
  silent.quiet = true;
  silent.hear = [](const std::string&, bool) {};
  tune::Network network(import_model(execution.file, request.shapes, request.sizes, silent, request.optimize,
                                     {}, execution.contents, request.custom_ops),
                        compilation(request, prepared.machine->info()));
  const double tolerance = options.tolerance.value_or(default_tolerance(network.target().precision));
  MachineMeasurer measurer(execution, boards, network, std::move(prepared),
                           {tolerance, options.tune.seed, options.turns, options.metric}, invocation);
  tune::Choices untuned;
  for (const tune::Task& task : network.tasks()) untuned.push_back(task.untuned);
  measurer.profile(untuned);  // says how many threads there are
  const tune::RunFacts facts = run_facts(network, measurer, execution, options.execution.board);
  tune::Notebook notebook(store.get(), facts, [&](const std::string& message) { invocation.warn(message); });
  const std::unique_ptr<tune::CostModel> model = tune::make_cost_model();
  const SteadyClock clock;
  TunedModel tuned;
  std::vector<tune::Example> prior;
  if (store) prior = network.prior(*store, facts.setting);
  tune::TuneOptions tuning = options.tune;
  tuning.seconds = std::max(0.0, tuning.seconds - taken.seconds());
  if (options.metric == tune::Metric::kInstructions) tuning.smallest_gain = kSmallestGain;
  const auto tune = [&] {
    return tune::tune(network.tasks(), tuning,
      {measurer, network, *model, notebook, clock,
       [&](const tune::Progress& now) {
         const double done = options.tune.seconds > 0 ? 1 - now.seconds_left / options.tune.seconds : 1.0;
         progress.update(progress_text(now) + " on " + label, std::clamp(done, 0.0, 1.0));
       },
       std::move(prior)});
  };
  try {
    tuned.report.result = tune();
  } catch (...) {
    notebook.flush();  // what was measured before stays
    throw;
  }
  try {
    notebook.finish();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    tuned.unwritten = error;
  }
  TuneReport& report = tuned.report;
  report.model = execution.file;
  report.machine = label;
  report.target = network.target().name;
  report.precision = name_of(network.target().precision);
  report.cost_model = model->name();
  report.threads = measurer.threads();
  report.metric = options.metric;
  report.tasks = network.tasks();
  report.seconds = taken.seconds();
  if (store) report.records = store->place();
  report.records_written = notebook.written();
  tuned.module = measurer.module_of(report.result.choices);
  tuned.decisions = fmt::format("{} of {}\n{}", kDecisionsMarker, report.model,
                                network.decisions_text(report.result.choices));
  return tuned;
}

}  // namespace gantry::cli
