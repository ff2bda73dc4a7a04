#include "host/tune/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "host/support/words.h"
#include "host/tune/tuner_run.h"

namespace gantry::tune {
namespace {

/// Tasks of a batch: each costs a kernel's compilation.
constexpr size_t kMostInBatch = 12;
/// Candidates that a model chooses from.
constexpr size_t kPool = 12;
/// Share of candidates that are taken whatever the model says of them.
constexpr double kExplore = 0.15;
/// A quick ratio below this is worth to be made sure of.
constexpr double kPromising = 0.985;
/// Quick batches between two rounds of acceptance.
constexpr size_t kBatches = 4;

}  // namespace

std::array<std::vector<Trial>, 2> halves_of(const std::vector<Trial>& trials) {
  const auto middle = trials.begin() + static_cast<std::ptrdiff_t>(trials.size() / 2);
  return {std::vector<Trial>(trials.begin(), middle), std::vector<Trial>(middle, trials.end())};
}

Tuner::Tuner(const std::vector<Task>& tasks, const TuneOptions& options, Tools tools)
    : tasks_(tasks),
      options_(options),
      tools_(std::move(tools)),
      random_(options.seed, "tuner"),
      began_(tools_.clock.seconds()) {
  for (const Task& task : tasks_) {
    choices_.push_back(task.untuned);
    states_.emplace_back(task, options.seed);
  }
  choices_.combined = options_.combined;
  choices_.apart = options_.apart;
  untuned_ = choices_;
  examples_ = tools_.prior;
  tools_.model.learn(examples_);
}

TuneResult Tuner::run() {
  look_at_untuned();
  if (options_.resume) recall();
  play_layouts();
  play_fusions();
  play_combined();
  if (options_.resume) begin_with_confirmed();
  put_down_gain();
  accept_promising();
  while (wants_more()) {
    for (size_t i = 0; i < kBatches && wants_more(); ++i) {
      if (!play_batches()) break;
    }
    accept_promising();
    if (states_are_over()) ended_ = "nothing is left to try";
  }
  finish();
  return std::move(result_);
}

double Tuner::final_seconds() const {
  const double share = std::min(kFinalShare * options_.seconds, kMostCompareSeconds);
  const bool lays = std::ranges::any_of(states_, &TaskState::laid);
  const double combined = choices_.combined != untuned_.combined ? combined_seconds() : 0;
  const double sure = 2.5 + (lays ? 1 : 0) + (choices_.apart != untuned_.apart ? 1 : 0);
  return std::max(share, sure * sure_estimate()) + combined;
}

bool Tuner::has_to_confirm() const {
  if (choices_ != untuned_) return true;
  const bool found =
      std::ranges::any_of(states_, [](const TaskState& state) { return state.promising.has_value(); });
  return found && may_confirm();
}

double Tuner::planned_end() const {
  if (!has_to_confirm()) return 0;
  return sure_seconds_ > 0 ? final_seconds() : std::min(final_seconds(), options_.seconds / 2);
}

void Tuner::tell(const std::string& doing) const {
  if (!tools_.progress) return;
  tools_.progress({doing, gain(), result_.trials, seconds_left()});
}

double Tuner::gain() const {
  double gained = 0;
  for (size_t i = 0; i < tasks_.size(); ++i)
    gained += states_[i].share * (1 - states_[i].search.cost_of(choices_[i]).value_or(1));
  return gained;
}

void Tuner::put_down_gain() {
  std::vector<Standing>& history = result_.history;
  const Standing now = {result_.trials, elapsed(), gain()};
  if (now.gain != (history.empty() ? 0 : history.back().gain)) history.push_back(now);
}

bool Tuner::wants_more() {
  if (!ended_.empty()) return false;
  if (options_.trials && result_.trials >= *options_.trials) {
    ended_ = "all trials are made";
  } else if (elapsed() + planned_end() + quick_seconds_ > options_.seconds) {
    ended_ = result_.trials > 0 ? "the time is over" : "the time was over before the first trial";
  }
  return ended_.empty();
}

bool Tuner::states_are_over() const {
  return std::ranges::all_of(
      states_, [](const TaskState& state) { return state.exhausted || state.share < kLeastShare; });
}

double Tuner::worth(const TaskState& state) {
  return state.exhausted || state.share < kLeastShare ? 0 : state.share * state.hope;
}

bool Tuner::play_batches() {
  std::vector<std::vector<Trial>> batches;
  size_t count = 0;
  while (batches.size() < std::max<size_t>(tools_.measurer.batches_at_once(), 1)) {
    std::vector<Trial> trials = next_trials();
    if (trials.empty()) break;
    count += trials.size();
    result_.trials += trials.size();
    for (const Trial& trial : trials) {
      ++states_[trial.task].trials;
      in_flight_.insert({trial.task, to_string(trial.decision)});
    }
    batches.push_back(std::move(trials));
  }
  if (batches.empty()) return false;
  tell(fmt::format("trying {}", counted(count, "candidate")));
  const double begun = worked();
  std::vector<Batch> results = tools_.measurer.measure(choices_, batches, Effort::kQuick);
  for (size_t i = 0; i < batches.size(); ++i) {
    for (const auto& [trial, ratio] : settled(batches[i], std::move(results[i]), Effort::kQuick))
      learn_of(trial, ratio);
  }
  in_flight_.clear();
  tools_.notebook.flush();
  quick_seconds_ = worked() - begun;
  tools_.model.learn(examples_);
  return true;
}

std::vector<Trial> Tuner::next_trials() {
  std::vector<size_t> order(tasks_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return worth(states_[a]) > worth(states_[b]); });
  size_t most = kMostInBatch;
  if (options_.trials) most = std::min(most, *options_.trials - result_.trials);
  std::vector<Trial> trials;
  for (const size_t task : order) {
    if (trials.size() == most || worth(states_[task]) <= 0) break;
    if (auto decision = next_candidate(task)) trials.push_back({task, std::move(*decision)});
  }
  return trials;
}

std::optional<Decision> Tuner::next_candidate(size_t task) {
  TaskState& state = states_[task];
  std::vector<Decision> candidates;
  std::vector<Prospect> prospects;
  // Pools may hold misfits alone; a few of them are looked through.
  for (int tries = 0; tries < 4 && candidates.empty(); ++tries) {
    const std::vector<Decision> pool = state.search.pool(kPool);
    if (pool.empty()) break;
    const std::vector<Look> looks = tools_.screen.look_at(task, pool);
    for (size_t i = 0; i < pool.size(); ++i) {
      if (looks[i].misfit) {
        fail(task, pool[i], {records::Outcome::kMisfit, *looks[i].misfit});
        continue;
      }
      if (in_flight_.contains({task, to_string(pool[i])})) continue;
      candidates.push_back(pool[i]);
      prospects.push_back({looks[i].features, looks[i].predicted});
    }
  }
  if (candidates.empty()) {
    state.exhausted = in_flight_.empty();
    return std::nullopt;
  }
  const size_t taken = choose(prospects);
  prospects_[{task, to_string(candidates[taken])}] = prospects[taken];
  return candidates[taken];
}

size_t Tuner::choose(const std::vector<Prospect>& prospects) {
  if (random_.uniform() < kExplore)
    return static_cast<size_t>(random_.uniform() * static_cast<double>(prospects.size()));
  const std::vector<double> ranks = tools_.model.rank(prospects);
  return static_cast<size_t>(std::ranges::min_element(ranks) - ranks.begin());
}

std::vector<std::pair<Trial, Ratio>> Tuner::measured(const std::vector<Trial>& trials, Effort effort) {
  return settled(trials, measure_once(trials, effort), effort);
}

Batch Tuner::measure_once(const std::vector<Trial>& trials, Effort effort) {
  return std::move(tools_.measurer.measure(choices_, {trials}, effort).front());
}

std::vector<std::pair<Trial, Ratio>> Tuner::settled(const std::vector<Trial>& trials, Batch batch,
                                                    Effort effort) {
  std::vector<std::pair<Trial, Ratio>> result;
  if (!batch.failure) {
    for (size_t i = 0; i < trials.size(); ++i) result.emplace_back(trials[i], std::move(batch.ratios[i]));
    return result;
  }
  if (trials.size() == 1) {
    // A machine may fail by itself: a trial is blamed for what happens twice.
    batch = measure_once(trials, effort);
    if (!batch.failure) return {{trials.front(), std::move(batch.ratios.front())}};
    fail(trials.front().task, trials.front().decision, *batch.failure);
    return {};
  }
  for (const std::vector<Trial>& half : halves_of(trials))
    std::ranges::move(measured(half, effort), std::back_inserter(result));
  return result;
}

double Tuner::note(const Trial& trial, const Ratio& ratio) {
  Search& search = states_[trial.task].search;
  tools_.notebook.measured(tasks_[trial.task], trial.decision, choices_[trial.task], ratio, false);
  const double cost = ratio.value * search.cost_of(choices_[trial.task]).value_or(1);
  search.tell(trial.decision, cost);
  examples_of(trial.task, trial.decision, cost);
  return cost;
}

void Tuner::learn_of(const Trial& trial, const Ratio& ratio) {
  TaskState& state = states_[trial.task];
  const double cost = note(trial, ratio);
  count(records::Outcome::kMeasured);
  if (ratio.value < kPromising) {
    note_promising(trial.task, trial.decision, cost);
  } else {
    state.hope *= kHopeLeft;
  }
}

void Tuner::note_promising(size_t task, const Decision& decision, double cost) {
  TaskState& state = states_[task];
  const double ratio = cost / state.search.cost_of(choices_[task]).value_or(1);
  if (decision == choices_[task] || ratio >= kPromising) return;
  if (!state.promising || ratio < state.promising->second) state.promising.emplace(decision, ratio);
}

void Tuner::fail(size_t task, const Decision& decision, const Failure& failure) {
  TaskState& state = states_[task];
  state.search.tell_failed(decision);
  count(failure.outcome);
  // Whoever tries it finds that out as fast as a record of it is read.
  if (failure.outcome == records::Outcome::kMisfit) return;
  tools_.notebook.failed(tasks_[task], decision, choices_[task], failure);
  ++state.failures;
  state.hope *= kHopeLeft;
  result_.failures.push_back(
      fmt::format("{} {}: {}: {}", tasks_[task].nodes.empty() ? tasks_[task].op : tasks_[task].nodes.front(),
                  to_string(decision), records::name_of(failure.outcome), failure.why));
}

void Tuner::count(records::Outcome outcome) {
  const auto found =
      std::ranges::find(result_.outcomes, outcome, &std::pair<records::Outcome, size_t>::first);
  if (found == result_.outcomes.end()) {
    result_.outcomes.emplace_back(outcome, 1);
  } else {
    ++found->second;
  }
}

void Tuner::examples_of(size_t task, const Decision& decision, double cost) {
  const auto [entry, is_new] = prospects_.try_emplace({task, to_string(decision)});
  if (is_new) {
    const Look look = tools_.screen.look_at(task, {decision}).front();
    if (look.misfit) {
      prospects_.erase(entry);
      return;
    }
    entry->second = {look.features, look.predicted};
  }
  examples_.push_back({task, entry->second, cost});
}

void Tuner::accept_promising() {
  std::vector<Trial> trials;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].promising) trials.push_back({i, states_[i].promising->first});
  }
  if (trials.empty() || elapsed() + final_seconds() + sure_estimate() > options_.seconds) return;
  tell(fmt::format("confirming {}", counted(trials.size(), "candidate")));
  const double begun = worked();
  const std::vector<std::pair<Trial, Ratio>> results = measured(trials, Effort::kSure);
  sure_seconds_ = std::max(sure_seconds_, worked() - begun);
  for (const auto& [trial, ratio] : results) judge(trial, ratio);
  put_down_gain();
  tools_.notebook.flush();
  for (const Trial& trial : trials) states_[trial.task].promising.reset();
}

void Tuner::judge(const Trial& trial, const Ratio& ratio) {
  TaskState& state = states_[trial.task];
  note(trial, ratio);
  if (!gains(ratio)) {
    state.hope *= kHopeLeft;
    return;
  }
  choices_[trial.task] = trial.decision;
  state.search.move_to(trial.decision);
  state.hope = std::max(state.hope, 1 - ratio.value);
  ++result_.accepted;
}

TuneResult tune(const std::vector<Task>& tasks, const TuneOptions& options, Tools tools) {
  return Tuner(tasks, options, std::move(tools)).run();
}

}  // namespace gantry::tune
