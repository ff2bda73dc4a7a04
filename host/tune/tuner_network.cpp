// What is decided for the network as a whole: in which order of axes images lie, what is kept apart that
// could share a kernel, whether products are combined.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "host/tune/tuner_run.h"

namespace gantry::tune {
namespace {

/// Of the time, what choices of layouts, and of what is kept apart, get at most; twice as much with what
/// makes sure of them.
constexpr double kLayoutShare = 0.1, kFusionShare = 0.05;

/// It is so again, however often that is tried.
bool is_settled(records::Outcome outcome) {
  return outcome == records::Outcome::kMisfit || outcome == records::Outcome::kBuildFailed;
}

}  // namespace

NetworkTrial combined_trial() {
  return {.question = NetworkQuestion::kProducts, .decision = {"combined", {}}};
}

void Tuner::play_layouts() {
  result_.layouts = play_changes(NetworkQuestion::kLayouts, layout_changes(tasks_, shares(), kLeastShare));
  if (!result_.layouts.empty() && result_.layouts.back().accepted) lay(result_.layouts.back());
}

void Tuner::play_fusions() {
  result_.fusions = play_changes(NetworkQuestion::kFusions, fusion_changes(tasks_, shares(), kLeastShare));
  if (result_.fusions.empty() || !result_.fusions.back().accepted) return;
  choices_ = with_change(std::move(choices_), result_.fusions.back().change);
  taken_apart_ = result_.fusions.back().change.apart;
  ++result_.accepted;
}

std::vector<double> Tuner::shares() const {
  std::vector<double> shares;
  for (const TaskState& state : states_) shares.push_back(state.share);
  return shares;
}

std::vector<ChangeTrial> Tuner::play_changes(NetworkQuestion question, std::vector<NetworkChange> changes) {
  if (changes.empty()) return {};
  std::vector<ChangeTrial> tried = try_changes(std::move(changes), change_tools(question));
  for (const ChangeTrial& trial : tried) {
    if (trial.remembered) continue;
    if (trial.effort == Effort::kQuick) {
      ++result_.trials;
      count(trial.failure ? trial.failure->outcome : records::Outcome::kMeasured);
    }
    if (trial.failure)
      result_.failures.push_back(fmt::format("{}: {}: {}", trial.change.what,
                                             records::name_of(trial.failure->outcome), trial.failure->why));
  }
  return tried;
}

ChangeTools Tuner::change_tools(NetworkQuestion question) {
  const bool lays = question == NetworkQuestion::kLayouts;
  const double share = (lays ? kLayoutShare : kFusionShare) * options_.seconds;
  ChangeTools tools;
  tools.measure = [this, question, lays](const std::vector<NetworkChange>& changes, Effort effort) {
    tell(fmt::format("{} {}", effort == Effort::kSure ? "confirming" : "trying",
                     lays ? "other layouts" : "kernels apart"));
    const double begun = worked();
    std::vector<Batch> results = measure_changes(choices_, changes, effort);
    double& seconds = effort == Effort::kSure ? sure_seconds_ : quick_seconds_;
    seconds = std::max(seconds, worked() - begun);
    for (size_t i = 0; i < changes.size(); ++i) note(trial_of(question, changes[i]), results[i]);
    tools_.notebook.flush();
    return results;
  };
  tools.remembered = [this, question](const NetworkChange& change) -> std::optional<Batch> {
    std::optional<RememberedTrial> known = remembered(trial_of(question, change));
    if (!known) return std::nullopt;
    Batch batch;
    batch.failure = std::move(known->failure);
    if (known->whole) batch.whole = *std::move(known->whole);
    return batch;
  };
  tools.room = [this, end = elapsed() + share, begun = result_.trials](size_t tried) -> size_t {
    // As long as the ones before took: where that is long, kernels have the time.
    if (elapsed() + quick_seconds_ > end || !wants_more()) return 0;
    const size_t most = options_.trials.value_or(std::numeric_limits<size_t>::max());
    return most - std::min(most, begun + tried);
  };
  tools.may_confirm = [this, end = elapsed() + 2 * share] {
    const double then = elapsed() + sure_estimate();
    return then <= end && then + final_seconds() <= options_.seconds;
  };
  tools.at_once = tools_.measurer.batches_at_once();
  tools.smallest_gain = options_.smallest_gain;
  return tools;
}

std::vector<Batch> Tuner::measure_changes(const Choices& base, const std::vector<NetworkChange>& changes,
                                          Effort effort) {
  std::vector<Choices> others;
  for (const NetworkChange& change : changes) others.push_back(with_change(base, change));
  std::vector<Batch> results = tools_.measurer.measure_whole(base, others, effort);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].failure || is_settled(results[i].failure->outcome)) continue;
    // A machine may fail by itself, as with the trials of kernels.
    results[i] = std::move(tools_.measurer.measure_whole(base, {others[i]}, effort).front());
  }
  return results;
}

NetworkTrial Tuner::trial_of(NetworkQuestion question, const NetworkChange& change) const {
  NetworkTrial trial{.question = question, .decision = {}};
  trial.decision.form = question == NetworkQuestion::kLayouts ? "layouts" : "apart";
  for (const auto& [task, decision] : change.trials) {
    for (const int64_t number : tasks_[task].numbers) trial.parts.push_back({number, decision});
    trial.nodes.insert(trial.nodes.end(), tasks_[task].nodes.begin(), tasks_[task].nodes.end());
  }
  for (const NumberedSeparation& one : change.apart) {
    trial.parts.push_back({one.maker, {"apart", {{"reader", one.reader}}}});
    trial.nodes.insert(trial.nodes.end(), one.edge.reader.origin.begin(), one.edge.reader.origin.end());
  }
  std::ranges::sort(trial.parts, {}, [](const NumberedDecision& part) {
    return std::pair(part.node, part.decision.knob("reader"));
  });
  return trial;
}

std::optional<RememberedTrial> Tuner::remembered(const NetworkTrial& trial) {
  return options_.resume ? tools_.notebook.recall(trial) : std::nullopt;
}

void Tuner::note(const NetworkTrial& trial, const Batch& batch) {
  if (batch.failure) {
    // Whoever tries it finds that out as fast as a record of it is read.
    if (batch.failure->outcome != records::Outcome::kMisfit) tools_.notebook.failed(trial, *batch.failure);
  } else {
    tools_.notebook.measured(trial, batch.whole, false);
  }
}

Batch Tuner::compare_combined(const Choices& apart) {
  Choices combined = apart;
  combined.combined = true;
  Batch batch = tools_.measurer.compare(apart, combined, combined_seconds(), kConfidence);
  if (batch.failure && !is_settled(batch.failure->outcome))
    batch = tools_.measurer.compare(apart, combined, combined_seconds(), kConfidence);
  if (batch.failure) result_.failures.push_back("combined products: " + batch.failure->why);
  return batch;
}

void Tuner::play_combined() {
  if (!options_.may_combine || choices_.combined || !wants_more()) return;
  if (elapsed() + final_seconds() + combined_seconds() > options_.seconds) return;
  const std::optional<RememberedTrial> known = remembered(combined_trial());
  CombinedTrial& trial = result_.combined.emplace();
  trial.remembered = known.has_value();
  if (known) {
    trial.whole = known->whole;
  } else {
    tell("comparing with combined products");
    const Batch batch = compare_combined(choices_);
    ++result_.trials;
    count(batch.failure ? batch.failure->outcome : records::Outcome::kMeasured);
    note(combined_trial(), batch);
    tools_.notebook.flush();
    if (!batch.failure) trial.whole = batch.whole;
  }
  trial.accepted = trial.whole && gains(*trial.whole);
  if (!trial.accepted) return;
  choices_.combined = true;
  ++result_.accepted;
}

void Tuner::lay(const ChangeTrial& taken) {
  double share = 0;
  for (const Trial& trial : taken.change.trials) share += states_[trial.task].share;
  const double cost = share > 0 ? std::clamp(1 - (1 - taken.whole->value) / share, 0.1, 1.0) : 1.0;
  for (const Trial& trial : taken.change.trials) {
    TaskState& state = states_[trial.task];
    const auto layout = std::ranges::find(tasks_[trial.task].layouts, trial.decision, &OtherLayout::decision);
    state.search = Search(layout->space, trial.decision, options_.seed);
    state.search.tell(trial.decision, cost);
    state.promising.reset();
    state.laid = true;
    choices_[trial.task] = trial.decision;
    if (options_.resume) recall(trial.task, trial.decision, cost);
    ++result_.accepted;
  }
}

}  // namespace gantry::tune
