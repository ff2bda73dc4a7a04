#include "host/cli/tune_model.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "host/cli/file_kind.h"
#include "host/cli/machine_jobs.h"
#include "host/cli/prior_files.h"
#include "host/cli/records_use.h"
#include "host/cli/text.h"
#include "host/cli/tune_machines.h"
#include "host/cli/tune_measurer.h"
#include "host/records/late_store.h"
#include "host/records/setting.h"
#include "host/support/error.h"
#include "host/support/program.h"
#include "host/support/stopwatch.h"

namespace gantry::cli {
namespace {

/// Of a kernel's instructions: as exact as they are counted, fewer by less are not worth a decision. (The
/// smallest effect that `gantry compare` claims, too.)
constexpr double kSmallestGain = 0.01;

/// Of the time in which there is a machine.
class MeasuringClock : public tune::Clock {
 public:
  explicit MeasuringClock(const TuneMachines& machines) : machines_(machines) {}
  double seconds() const override { return watch_.seconds() - machines_.waited_s(); }

 private:
  const TuneMachines& machines_;
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
  facts.of_compiler = !network.has_given_decisions();
  if (facts.of_compiler) {
    for (const NetworkQuestion question : network_questions())
      facts.network[static_cast<size_t>(question)] = network.digest(question);
  }
  return facts;
}

/// What a narrow terminal has no room for comes last.
std::string progress_text(const tune::Progress& progress) {
  return fmt::format("{:.1f} % gained, {} left, {} trials; {}", 100 * progress.gain,
                     rough_duration_text(progress.seconds_left), progress.trials, progress.doing);
}

/// "; 31 programs of 50 built on 2 of 4 compile hosts"
std::string hosts_text(const MachineMeasurer& measurer) {
  const auto [ready, wanted] = measurer.compile_hosts();
  if (wanted == 0) return "";
  const BuildCounts builds = measurer.builds();
  return fmt::format("; {} programs of {} built on {} of {} compile hosts", builds.elsewhere(),
                     builds.here + builds.elsewhere(), ready, wanted);
}

/// The store of a run's records, null where none are kept. It is found to be wrong before a board is waited
/// for; a new file is made with the first records: a run that ends before leaves none.
std::unique_ptr<records::Store> open_records(const std::string& place, const Invocation& invocation) {
  if (place.empty()) return nullptr;
  if (place.find("://") == std::string::npos) invocation.outputs->reads(place, "the records");
  records::StoreOptions options;
  options.warn = [&invocation](const std::string& message) { invocation.warn(message); };
  return records::open_late_store(place, options);
}

/// The one that is named; it, too, is found to be wrong before minutes of measuring.
std::optional<FoundPrior> given_prior(const std::string& file, const Invocation& invocation) {
  if (file.empty() || file == kNoPrior) return std::nullopt;
  invocation.outputs->reads(file, "the prior");
  return read_prior(file);
}

/// What was measured of the target's family before; none where nothing is there, or nothing is wanted.
std::optional<FoundPrior> prior_of(const TuneModelOptions& options, const Target& target,
                                   const Invocation& invocation) {
  // It is of times.
  if (options.prior == kNoPrior || options.metric != tune::Metric::kTime) return std::nullopt;
  const auto warn = [&](const std::string& message) { invocation.warn(message); };
  return find_prior(target, prior_folders(own_folder(), warn), warn);
}

std::unique_ptr<TuneMachines> machines_of(const TuneModelOptions& options, const Invocation& invocation) {
  const ExecutionOptions& execution = options.execution;
  if (options.farm.farm.empty()) return named_machines(execution.board, execution.key);
  refuse_board_beside_farm(execution);
  return leased_machines(options.farm, options.turns, invocation);
}

/// A model on a machine, about to be tuned.
struct Prepared {
  std::unique_ptr<tune::Network> network;
  std::unique_ptr<MachineMeasurer> measurer;
  std::string label;  ///< of the machine
};

Prepared prepare_on(const TuneModelOptions& options, ExecutionOptions& execution, TuneMachines& machines,
                    size_t place, const TuneMachine& machine, Progress& progress,
                    const Invocation& invocation) {
  execution.board = machine.board;
  execution.key = machine.key;
  Execution prepared = prepare_execution(execution, invocation);
  Prepared result;
  result.label = machines.label(prepared.machine->label());
  const ModuleRequest request = request_of(execution, invocation);
  progress.update("finding what there is to tune", -1);
  Invocation silent = invocation;  // what there is to say of the model has been said
  silent.quiet = true;
  silent.hear = [](const std::string&, bool) {};
  result.network = std::make_unique<tune::Network>(
      import_model(execution.file, import_options(request), silent),
      compilation(request, prepared.machine->info()), program_that_runs(prepared, execution).variant);
  TuneMeasuring measuring;
  measuring.tolerance = options.tolerance.value_or(default_tolerance(result.network->target().precision));
  measuring.seed = options.tune.seed;
  measuring.turns = turns_on_board(options.farm, options.turns);
  measuring.metric = options.metric;
  measuring.wait = [&progress](const std::string& what) {
    if (!what.empty()) progress.update(what, -1);
  };
  result.measurer = std::make_unique<MachineMeasurer>(execution, machines, place, machine, *result.network,
                                                      std::move(prepared), measuring, invocation);
  return result;
}

/// The place of a machine that there is; waits for one.
std::pair<size_t, TuneMachine> first_machine(TuneMachines& machines, Progress& progress) {
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(200))) {
    for (size_t place = 0; place < machines.places(); ++place)
      if (auto machine = machines.machine(place)) return {place, std::move(*machine)};
    if (const std::string what = machines.waits_for(); !what.empty()) progress.update(what, -1);
  }
}

void refuse_module(const ExecutionOptions& execution) {
  if (is_module(execution.file, execution.contents))
    user_error("{}: is compiled already; tune takes a model (.onnx) or graph text (.gir)", execution.file);
}

double smallest_gain_of(tune::Metric metric) {
  return metric == tune::Metric::kInstructions ? kSmallestGain : 0;
}

/// What a cost model learns from before there are trials.
struct Known {
  std::vector<tune::Example> examples;
  std::optional<std::pair<std::string, size_t>> prior;  ///< as TuneReport::prior
};

/// Of the records, and of a prior: either may be null.
Known known_of(const tune::Network& network, const records::Setting& setting, records::Store* store,
               const FoundPrior* found) {
  Known known;
  if (store != nullptr) known.examples = network.prior(*store, setting);
  if (found == nullptr) return known;
  const size_t group = known.examples.empty() ? network.tasks().size() : known.examples.back().group + 1;
  const std::vector<tune::Example> before = tune::examples_of(found->prior, setting.precision, group);
  known.examples.insert(known.examples.end(), before.begin(), before.end());
  known.prior = {found->file.string(), before.size()};
  return known;
}

tune::TuneOptions tuning_of(const TuneModelOptions& options, const tune::Network& network) {
  const tune::Choices untuned = network.untuned_choices();
  tune::TuneOptions tuning = options.tune;
  tuning.combined = untuned.combined;
  tuning.apart = untuned.apart;
  tuning.may_combine = network.may_combine();
  tuning.smallest_gain = smallest_gain_of(options.metric);
  return tuning;
}

/// Writes what is not written yet; returns why that could not be. The store is there then, with records or
/// without.
std::optional<Error> finish(tune::Notebook& notebook, records::Store* store) {
  try {
    notebook.finish();
    if (store != nullptr) store->add({});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return error;
  }
  return std::nullopt;
}

/// After a machine that is gone. Of instructions there are no records. `store`: null: none are kept.
void say_how_to_go_on(const TuneModelOptions& options, const records::Store* store,
                      const tune::Notebook& notebook, const Invocation& invocation) {
  if (options.metric != tune::Metric::kTime) return;
  if (store == nullptr) {
    invocation.note("nothing is kept of what was measured: --records keeps it, for --resume to go on from");
  } else if (notebook.written() > 0) {
    invocation.note(fmt::format("what was measured is in {}: the same command with --resume goes on from it",
                                store->place()));
  }
}

/// prepare_on() a machine; on another one where it goes away meanwhile. `execution` outlives the result.
Prepared prepare(const TuneModelOptions& options, ExecutionOptions& execution, TuneMachines& machines,
                 Progress& progress, const Invocation& invocation) {
  for (;;) {
    const auto [place, machine] = first_machine(machines, progress);
    if (!machine.words.empty()) invocation.note(machine.words);
    try {
      return prepare_on(options, execution, machines, place, machine, progress, invocation);
    } catch (const rpc::Error& error) {
      if (!may_pass(error) || !machines.lost(place, machine)) throw;
      invocation.note(fmt::format("{}; another board is asked for", error.what()));
    }
  }
}

/// What a report says of the network and the machine.
void describe(TuneReport& report, const Prepared& prepared, const std::string& model) {
  report.model = model;
  report.machine = prepared.label;
  report.target = prepared.network->target_name();
  report.precision = name_of(prepared.network->target().precision);
  report.threads = prepared.measurer->threads();
  report.tasks = prepared.network->tasks();
  report.builds = prepared.measurer->builds();
}

}  // namespace

TunedModel tune_model(const TuneModelOptions& options, const Invocation& invocation) {
  const Stopwatch taken;
  ExecutionOptions execution = options.execution;
  refuse_module(execution);
  const std::unique_ptr<records::Store> store = open_records(options.records, invocation);
  std::optional<FoundPrior> found = given_prior(options.prior, invocation);
  const std::unique_ptr<TuneMachines> machines = machines_of(options, invocation);
  const MeasuringClock clock(*machines);
  Progress progress(invocation.verbosity());
  const Prepared prepared = prepare(options, execution, *machines, progress, invocation);
  tune::Network& network = *prepared.network;
  MachineMeasurer& measurer = *prepared.measurer;
  const tune::Choices untuned = network.untuned_choices();
  measurer.profile(untuned);  // says how many threads there are
  network.set_threads(measurer.threads());
  if (options.farm.compile_hosts > 0)
    measurer.build_on(leased_compile_hosts(options.farm, options.turns, invocation), untuned);
  const tune::RunFacts facts = run_facts(network, measurer, execution, machines->name());
  tune::Notebook notebook(store.get(), facts, [&](const std::string& message) { invocation.warn(message); });
  const std::unique_ptr<tune::CostModel> model = tune::make_cost_model();
  if (found) {
    const std::string foreign = foreign_prior_text(*found, network.target());
    if (!foreign.empty()) invocation.warn(foreign);
  } else {
    found = prior_of(options, network.target(), invocation);
  }
  Known known = known_of(network, facts.setting, store.get(), found ? &*found : nullptr);
  tune::TuneOptions tuning = tuning_of(options, network);
  tuning.seconds = std::max(0.0, tuning.seconds - clock.seconds());
  const auto show = [&](const tune::Progress& now) {
    const double done = options.tune.seconds > 0 ? 1 - now.seconds_left / options.tune.seconds : 1.0;
    progress.update(progress_text(now) + " on " + prepared.label + hosts_text(measurer),
                    std::clamp(done, 0.0, 1.0));
  };
  TunedModel tuned;
  TuneReport& report = tuned.report;
  try {
    report.result = tune::tune(network.tasks(), tuning,
                               {measurer, network, *model, notebook, clock, show, std::move(known.examples)});
  } catch (const rpc::Error&) {
    notebook.flush();  // what was measured before stays
    say_how_to_go_on(options, store.get(), notebook, invocation);
    throw;
  } catch (...) {
    notebook.flush();
    throw;
  }
  tuned.unwritten = finish(notebook, store.get());
  describe(report, prepared, execution.file);
  report.prior = known.prior;
  report.cost_model = model->name();
  report.metric = options.metric;
  report.seconds = taken.seconds();
  report.waited_s = machines->waited_s();
  if (store != nullptr) report.records = store->place();
  report.records_written = notebook.written();
  tuned.module = measurer.module_of(report.result.choices);
  tuned.decisions = fmt::format("{} of {}\n{}", kDecisionsMarker, report.model,
                                network.decisions_text(report.result.choices));
  return tuned;
}

tune::EqualCandidates check_decisions(const TuneModelOptions& options, size_t decisions,
                                      const Invocation& invocation) {
  ExecutionOptions execution = options.execution;
  refuse_module(execution);
  const std::unique_ptr<TuneMachines> machines = machines_of(options, invocation);
  Progress progress(invocation.verbosity());
  const Prepared prepared = prepare(options, execution, *machines, progress, invocation);
  return tune::try_equal_candidates(
      *prepared.measurer, prepared.network->untuned_choices(), decisions, smallest_gain_of(options.metric),
      [&](const tune::EqualCandidates& now) {
        progress.update(fmt::format("{} of {} decisions, {} accepted, on {}", now.decisions, decisions,
                                    now.accepted, prepared.label),
                        static_cast<double>(now.decisions) / static_cast<double>(decisions));
      });
}

}  // namespace gantry::cli
