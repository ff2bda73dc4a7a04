// What is decided for the network as a whole: in which order of axes images lie, whether products are
// combined.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "host/support/error.h"
#include "host/tune/tuner_run.h"

namespace gantry::tune {
namespace {

/// Of the time, what choices of layouts get at most, without and with what makes sure of them.
constexpr double kLayoutShare = 0.1, kSureLayoutShare = 0.2;

}  // namespace

void Tuner::play_layouts() {
  std::vector<double> shares;
  for (const TaskState& state : states_) shares.push_back(state.share);
  std::vector<LayoutChange> changes = layout_changes(tasks_, shares, kLeastShare);
  if (changes.empty()) return;
  result_.layouts = try_layouts(std::move(changes), layout_tools());
  for (const LayoutTrial& trial : result_.layouts) {
    if (trial.effort == Effort::kQuick) {
      ++result_.trials;
      count(trial.failure ? trial.failure->outcome : records::Outcome::kMeasured);
    }
    if (trial.failure)
      result_.failures.push_back(fmt::format("{}: {}: {}", trial.change.orders,
                                             records::name_of(trial.failure->outcome), trial.failure->why));
    if (trial.accepted) lay(trial);
  }
}

LayoutTools Tuner::layout_tools() {
  LayoutTools layouts;
  layouts.measure = [this](const std::vector<std::vector<Trial>>& changes, Effort effort) {
    tell(effort == Effort::kSure ? "confirming other layouts" : "trying other layouts");
    const double begun = tools_.clock.seconds();
    std::vector<Batch> results = tools_.measurer.measure(choices_, changes, effort);
    double& seconds = effort == Effort::kSure ? sure_seconds_ : quick_seconds_;
    seconds = std::max(seconds, tools_.clock.seconds() - begun);
    return results;
  };
  layouts.room = [this, end = elapsed() + kLayoutShare * options_.seconds](size_t tried) -> size_t {
    if (elapsed() > end || !wants_more()) return 0;
    const size_t most = options_.trials.value_or(std::numeric_limits<size_t>::max());
    return most - std::min(most, tried);
  };
  layouts.may_confirm = [this, end = elapsed() + kSureLayoutShare * options_.seconds] {
    const double then = elapsed() + sure_estimate();
    return then <= end && then + final_seconds() <= options_.seconds;
  };
  layouts.at_once = tools_.measurer.batches_at_once();
  layouts.smallest_gain = options_.smallest_gain;
  return layouts;
}

Batch Tuner::compare_combined(const Choices& apart) {
  Choices combined = apart;
  combined.combined = true;
  Batch batch;
  try {
    batch = tools_.measurer.compare(apart, combined, kCombinedShare * options_.seconds);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    batch.failure = Failure{records::Outcome::kBuildFailed, error.what()};
  }
  if (batch.failure) result_.failures.push_back("combined products: " + batch.failure->why);
  return batch;
}

void Tuner::play_combined() {
  if (!options_.may_combine || choices_.combined || !wants_more()) return;
  if (elapsed() + final_seconds() + kCombinedShare * options_.seconds > options_.seconds) return;
  tell("comparing with combined products");
  const Batch batch = compare_combined(choices_);
  ++result_.trials;
  count(batch.failure ? batch.failure->outcome : records::Outcome::kMeasured);
  CombinedTrial& trial = result_.combined.emplace();
  if (batch.failure) return;
  trial.whole = batch.whole;
  trial.accepted = gains(batch.whole);
  if (!trial.accepted) return;
  choices_.combined = true;
  ++result_.accepted;
}

void Tuner::lay(const LayoutTrial& taken) {
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
    ++result_.accepted;
  }
}

}  // namespace gantry::tune
