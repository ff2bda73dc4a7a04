#include "host/tune/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "host/support/error.h"
#include "host/tune/task_state.h"

namespace gantry::tune {
namespace {

/// Tasks of a batch: each costs a kernel's compilation.
constexpr size_t kMostInBatch = 12;
/// Of the network's time; tasks below it are not worth a build.
constexpr double kLeastShare = 0.002;
/// Candidates that a model chooses from.
constexpr size_t kPool = 12;
/// Share of candidates that are taken whatever the model says of them.
constexpr double kExplore = 0.15;
/// A quick ratio below this is worth to be made sure of.
constexpr double kPromising = 0.985;
/// Quick batches between two rounds of acceptance.
constexpr size_t kBatches = 4;
/// Of the time, what choices of layouts get at most, but for what makes sure of them.
constexpr double kLayoutShare = 0.1;
/// And what each comparison of combined products gets.
constexpr double kCombinedShare = 0.05;
/// Of the time, what the final comparisons get at least and at most.
constexpr double kFinalShare = 0.2, kMostFinalSeconds = 60;

class Tuner {
 public:
  Tuner(const std::vector<Task>& tasks, const TuneOptions& options, Tools tools)
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
    untuned_ = choices_;
    examples_ = tools_.prior;
    tools_.model.learn(examples_);
  }

  TuneResult run() {
    look_at_untuned();
    if (options_.resume) recall();
    play_layouts();
    play_combined();
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

 private:
  double elapsed() const { return tools_.clock.seconds() - began_; }
  double seconds_left() const { return std::max(0.0, options_.seconds - elapsed()); }
  /// What the end needs: a sure measurement, of layouts one more, and a comparison.
  double final_seconds() const {
    const double share = std::min(kFinalShare * options_.seconds, kMostFinalSeconds);
    const bool lays = std::ranges::any_of(states_, &TaskState::laid);
    const double combined = choices_.combined != untuned_.combined ? kCombinedShare * options_.seconds : 0;
    return std::max(share, (lays ? 3.5 : 2.5) * sure_estimate()) + combined;
  }
  /// Before one was made, by what a quick one took, most of which is a build.
  double sure_estimate() const { return sure_seconds_ > 0 ? sure_seconds_ : 4 * quick_seconds_; }

  void tell(const std::string& doing) const {
    if (!tools_.progress) return;
    tools_.progress({doing, gain(), result_.trials, seconds_left()});
  }

  /// Of the network's time, by what was accepted.
  double gain() const {
    double gained = 0;
    for (size_t i = 0; i < tasks_.size(); ++i)
      gained += states_[i].share * (1 - states_[i].search.cost_of(choices_[i]).value_or(1));
    return gained;
  }

  void look_at_untuned() {
    tell("timing the untuned network");
    const Profile profile = tools_.measurer.profile(untuned_);
    result_.untuned_amount = profile.whole;
    const double all = std::accumulate(profile.tasks.begin(), profile.tasks.end(), 0.0);
    // Kernels are timed one by one: what is between them is in the whole alone.
    const double whole = std::max(profile.whole, all);
    for (size_t i = 0; i < tasks_.size(); ++i) {
      states_[i].amount = profile.tasks[i];
      states_[i].share = whole > 0 ? profile.tasks[i] / whole : 0;
      examples_of(i, untuned_[i], 1);
    }
  }

  void recall() {
    for (size_t i = 0; i < tasks_.size(); ++i) {
      for (const Remembered& one : tools_.notebook.recall(tasks_[i])) {
        if (!one.cost) {
          states_[i].search.tell_failed(one.decision);
          continue;
        }
        states_[i].search.tell(one.decision, *one.cost);
        examples_of(i, one.decision, *one.cost);
        note_promising(i, one.decision, *one.cost);
      }
    }
  }

  bool wants_more() {
    if (!ended_.empty()) return false;
    if (options_.trials && result_.trials >= *options_.trials) {
      ended_ = "all trials are made";
    } else if (elapsed() + final_seconds() + quick_seconds_ > options_.seconds) {
      ended_ = "the time is over";
    }
    return ended_.empty();
  }

  // --- layouts

  void play_layouts() {
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

  LayoutTools layout_tools() {
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
    layouts.may_confirm = [this] {
      return elapsed() + final_seconds() + sure_estimate() <= options_.seconds;
    };
    layouts.at_once = tools_.measurer.batches_at_once();
    layouts.smallest_gain = options_.smallest_gain;
    return layouts;
  }

  // --- combined products

  /// The network with products of the same data combined to the same with them apart; failures are put down.
  Batch compare_combined(const Choices& apart) {
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

  void play_combined() {
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

  /// What the network gained counts as if it were these tasks' alone; their candidates lie so from now on.
  void lay(const LayoutTrial& taken) {
    double share = 0;
    for (const Trial& trial : taken.change.trials) share += states_[trial.task].share;
    const double cost = share > 0 ? std::clamp(1 - (1 - taken.whole->value) / share, 0.1, 1.0) : 1.0;
    for (const Trial& trial : taken.change.trials) {
      TaskState& state = states_[trial.task];
      const auto layout =
          std::ranges::find(tasks_[trial.task].layouts, trial.decision, &OtherLayout::decision);
      state.search = Search(layout->space, trial.decision, options_.seed);
      state.search.tell(trial.decision, cost);
      state.promising.reset();
      state.laid = true;
      choices_[trial.task] = trial.decision;
      ++result_.accepted;
    }
  }

  bool states_are_over() const {
    return std::ranges::all_of(
        states_, [](const TaskState& state) { return state.exhausted || state.share < kLeastShare; });
  }

  // --- trials

  /// What may be gained by another trial of the task.
  static double worth(const TaskState& state) {
    return state.exhausted || state.share < kLeastShare ? 0 : state.share * state.hope;
  }

  /// False: nothing is left to try.
  bool play_batches() {
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
    tell(fmt::format("trying {} candidate{}", count, count == 1 ? "" : "s"));
    const double begun = tools_.clock.seconds();
    std::vector<Batch> results = tools_.measurer.measure(choices_, batches, Effort::kQuick);
    for (size_t i = 0; i < batches.size(); ++i) {
      for (const auto& [trial, ratio] : settled(batches[i], std::move(results[i]), Effort::kQuick))
        learn_of(trial, ratio);
    }
    in_flight_.clear();
    tools_.notebook.flush();
    quick_seconds_ = tools_.clock.seconds() - begun;
    tools_.model.learn(examples_);
    return true;
  }

  std::vector<Trial> next_trials() {
    std::vector<size_t> order(tasks_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order,
                             [&](size_t a, size_t b) { return worth(states_[a]) > worth(states_[b]); });
    size_t most = kMostInBatch;
    if (options_.trials) most = std::min(most, *options_.trials - result_.trials);
    std::vector<Trial> trials;
    for (const size_t task : order) {
      if (trials.size() == most || worth(states_[task]) <= 0) break;
      if (auto decision = next_candidate(task)) trials.push_back({task, std::move(*decision)});
    }
    return trials;
  }

  std::optional<Decision> next_candidate(size_t task) {
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

  size_t choose(const std::vector<Prospect>& prospects) {
    if (random_.uniform() < kExplore)
      return static_cast<size_t>(random_.uniform() * static_cast<double>(prospects.size()));
    const std::vector<double> ranks = tools_.model.rank(prospects);
    return static_cast<size_t>(std::ranges::min_element(ranks) - ranks.begin());
  }

  std::vector<std::pair<Trial, Ratio>> measured(const std::vector<Trial>& trials, Effort effort) {
    return settled(trials, measure_once(trials, effort), effort);
  }
  Batch measure_once(const std::vector<Trial>& trials, Effort effort) {
    return std::move(tools_.measurer.measure(choices_, {trials}, effort).front());
  }

  /// Trials with ratios; those that failed are found and told of, and are not among them.
  std::vector<std::pair<Trial, Ratio>> settled(const std::vector<Trial>& trials, Batch batch, Effort effort) {
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
    const auto middle = trials.begin() + static_cast<std::ptrdiff_t>(trials.size() / 2);
    for (const std::vector<Trial>& half :
         {std::vector<Trial>(trials.begin(), middle), std::vector<Trial>(middle, trials.end())})
      std::ranges::move(measured(half, effort), std::back_inserter(result));
    return result;
  }

  /// Puts down what was measured; the cost, to untuned.
  double note(const Trial& trial, const Ratio& ratio) {
    Search& search = states_[trial.task].search;
    tools_.notebook.measured(tasks_[trial.task], trial.decision, choices_[trial.task], ratio, false);
    const double cost = ratio.value * search.cost_of(choices_[trial.task]).value_or(1);
    search.tell(trial.decision, cost);
    examples_of(trial.task, trial.decision, cost);
    return cost;
  }

  void learn_of(const Trial& trial, const Ratio& ratio) {
    TaskState& state = states_[trial.task];
    const double cost = note(trial, ratio);
    count(records::Outcome::kMeasured);
    if (ratio.value < kPromising) {
      note_promising(trial.task, trial.decision, cost);
    } else {
      state.hope *= kHopeLeft;
    }
  }

  /// `cost`: to untuned.
  void note_promising(size_t task, const Decision& decision, double cost) {
    TaskState& state = states_[task];
    const double ratio = cost / state.search.cost_of(choices_[task]).value_or(1);
    if (decision == choices_[task] || ratio >= kPromising) return;
    if (!state.promising || ratio < state.promising->second) state.promising.emplace(decision, ratio);
  }

  void fail(size_t task, const Decision& decision, const Failure& failure) {
    TaskState& state = states_[task];
    state.search.tell_failed(decision);
    count(failure.outcome);
    // Whoever tries it finds that out as fast as a record of it is read.
    if (failure.outcome == records::Outcome::kMisfit) return;
    tools_.notebook.failed(tasks_[task], decision, choices_[task], failure);
    ++state.failures;
    state.hope *= kHopeLeft;
    result_.failures.push_back(fmt::format(
        "{} {}: {}: {}", tasks_[task].nodes.empty() ? tasks_[task].op : tasks_[task].nodes.front(),
        to_string(decision), records::name_of(failure.outcome), failure.why));
  }

  void count(records::Outcome outcome) {
    const auto found =
        std::ranges::find(result_.outcomes, outcome, &std::pair<records::Outcome, size_t>::first);
    if (found == result_.outcomes.end()) {
      result_.outcomes.emplace_back(outcome, 1);
    } else {
      ++found->second;
    }
  }

  void examples_of(size_t task, const Decision& decision, double cost) {
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

  // --- acceptance

  void accept_promising() {
    std::vector<Trial> trials;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].promising) trials.push_back({i, states_[i].promising->first});
    }
    if (trials.empty() || elapsed() + final_seconds() + sure_estimate() > options_.seconds) return;
    tell(fmt::format("confirming {} candidate{}", trials.size(), trials.size() == 1 ? "" : "s"));
    const double begun = tools_.clock.seconds();
    const std::vector<std::pair<Trial, Ratio>> results = measured(trials, Effort::kSure);
    sure_seconds_ = std::max(sure_seconds_, tools_.clock.seconds() - begun);
    for (const auto& [trial, ratio] : results) judge(trial, ratio);
    tools_.notebook.flush();
    for (const Trial& trial : trials) states_[trial.task].promising.reset();
  }

  bool gains(const Ratio& ratio) const { return ratio.high < 1 - options_.smallest_gain; }

  void judge(const Trial& trial, const Ratio& ratio) {
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

  // --- the end

  std::vector<Trial> changes() const {
    std::vector<Trial> changed;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (choices_[i] != untuned_[i]) changed.push_back({i, choices_[i]});
    }
    return changed;
  }

  void finish() {
    std::vector<std::optional<Ratio>> ratios(tasks_.size());
    const std::vector<std::pair<Trial, Ratio>> confirmed = confirm(ratios);
    // What decides later is what was kept in the end.
    const auto note = [&](const auto& is_kept) {
      for (const auto& [trial, ratio] : confirmed)
        tools_.notebook.measured(tasks_[trial.task], trial.decision, untuned_[trial.task], ratio,
                                 is_kept(trial));
    };
    try {
      compare_whole(ratios);
    } catch (...) {
      note([](const Trial&) { return false; });
      throw;
    }
    note([&](const Trial& trial) { return choices_[trial.task] == trial.decision; });
    tools_.notebook.flush();
    result_.choices = choices_;
    result_.ended = ended_;
    for (size_t i = 0; i < tasks_.size(); ++i)
      result_.tasks.push_back({states_[i].share, states_[i].amount, choices_[i], ratios[i], states_[i].trials,
                               states_[i].failures, states_[i].laid && ratios[i].has_value()});
  }

  void undo(size_t task) {
    choices_[task] = untuned_[task];
    ++result_.undone;
  }

  /// What was accepted, and where nothing was, what looked best and could not be made sure of in time.
  std::vector<Trial> to_confirm() const {
    std::vector<Trial> trials = changes();
    if (trials.empty() && seconds_left() < sure_estimate()) return trials;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (choices_[i] == untuned_[i] && states_[i].promising)
        trials.push_back({i, states_[i].promising->first});
    }
    return trials;
  }

  /// Against what the compiler takes by itself, task by task; what does not gain is undone.
  std::vector<std::pair<Trial, Ratio>> confirm(std::vector<std::optional<Ratio>>& ratios) {
    const std::vector<Trial> trials = to_confirm();
    const bool combines = choices_.combined != untuned_.combined;
    if (trials.empty() && !combines) return {};
    tell(fmt::format("confirming what was found for {} kernel{}", trials.size(),
                     trials.size() == 1 ? "" : "s"));
    std::vector<Trial> kernels, laid;
    for (const Trial& trial : trials) (states_[trial.task].laid ? laid : kernels).push_back(trial);
    const Choices accepted = std::exchange(choices_, untuned_);  // what is compared with
    std::vector<std::pair<Trial, Ratio>> confirmed;
    if (!kernels.empty()) confirmed = measured(kernels, Effort::kSure);
    const std::optional<Ratio> of_layouts = confirm_layouts(laid);
    if (combines) confirm_combined();
    for (const Trial& trial : laid) {
      if (!of_layouts) break;
      choices_[trial.task] = trial.decision;
      ratios[trial.task] = of_layouts;
    }
    for (const auto& [trial, ratio] : confirmed) {
      states_[trial.task].search.tell(trial.decision, ratio.value);
      if (!gains(ratio)) continue;
      choices_[trial.task] = trial.decision;
      ratios[trial.task] = ratio;
    }
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (accepted[i] != untuned_[i] && choices_[i] == untuned_[i]) ++result_.undone;
      if (accepted[i] == untuned_[i] && choices_[i] != untuned_[i]) ++result_.accepted;
    }
    return confirmed;
  }

  /// Of the network; none where it does not gain.
  std::optional<Ratio> confirm_layouts(const std::vector<Trial>& laid) {
    if (laid.empty()) return std::nullopt;
    Batch batch = measure_once(laid, Effort::kSure);
    if (batch.failure) {
      result_.failures.push_back("images that lie otherwise: " + batch.failure->why);
      return std::nullopt;
    }
    return gains(batch.whole) ? std::optional(std::move(batch.whole)) : std::nullopt;
  }

  /// Against what is untuned, as choices_ are.
  void confirm_combined() {
    const Batch batch = compare_combined(untuned_);
    choices_.combined = !batch.failure && gains(batch.whole);
    if (!choices_.combined) ++result_.undone;
  }

  /// Until a set of changes is shown to gain in the whole network, or none is left.
  void compare_whole(std::vector<std::optional<Ratio>>& ratios) {
    for (std::vector<Trial> changed = changes(); choices_ != untuned_; changed = changes()) {
      tell("comparing the whole network");
      // Should it show nothing, there is another to be made.
      const double seconds = std::max(0.6 * seconds_left(), kFinalShare / 4 * options_.seconds);
      const Batch batch = tools_.measurer.compare(untuned_, choices_, seconds);
      if (!batch.failure && batch.whole.is_gain()) {
        result_.whole = batch.whole;
        return;
      }
      if (batch.failure) result_.failures.push_back("the tuned network: " + batch.failure->why);
      keep_better_half(changed, ratios);
    }
  }

  /// Of one change none; products are combined until no other change is left.
  void keep_better_half(std::vector<Trial>& changed, std::vector<std::optional<Ratio>>& ratios) {
    if (changed.empty()) {
      choices_.combined = untuned_.combined;
      ++result_.undone;
      return;
    }
    const auto gained = [&](const Trial& trial) {
      const TaskState& state = states_[trial.task];
      return (state.laid ? 1 : state.share) * (1 - ratios[trial.task]->value);
    };
    std::ranges::stable_sort(changed, [&](const Trial& a, const Trial& b) { return gained(a) > gained(b); });
    for (size_t i = changed.size() / 2; i < changed.size(); ++i) {
      undo(changed[i].task);
      ratios[changed[i].task].reset();
    }
  }

  const std::vector<Task>& tasks_;
  const TuneOptions& options_;
  Tools tools_;
  Random random_;
  double began_;
  Choices untuned_, choices_;
  std::vector<TaskState> states_;
  std::vector<Example> examples_;
  std::map<std::pair<size_t, std::string>, Prospect> prospects_;
  std::set<std::pair<size_t, std::string>> in_flight_;  ///< chosen, and not measured yet
  double quick_seconds_ = 0, sure_seconds_ = 0;  ///< that the last batch, and the longest acceptance, took
  std::string ended_;
  TuneResult result_;
};

}  // namespace

TuneResult tune(const std::vector<Task>& tasks, const TuneOptions& options, Tools tools) {
  return Tuner(tasks, options, std::move(tools)).run();
}

}  // namespace gantry::tune
