// A run of the tuner: what tune() (host/tune/tuner.h) does, in parts. How it begins is in tuner_begin.cpp,
// trials and acceptance in tuner.cpp, what is decided for the network as a whole in tuner_network.cpp, the
// end in tuner_end.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/support/random.h"
#include "host/tune/task_state.h"
#include "host/tune/tuner.h"

namespace gantry::tune {

/// Of the network's time; tasks below it are not worth a build.
constexpr double kLeastShare = 0.002;
/// Of the time, what each comparison of combined products gets.
constexpr double kCombinedShare = 0.05;
/// Of the time, what the final comparisons get at least.
constexpr double kFinalShare = 0.2;
/// What a comparison gets at most, however much time is left: more of it would tell little.
constexpr double kMostCompareSeconds = 60;

/// Of NetworkQuestion::kProducts the only one.
NetworkTrial combined_trial();
/// Of two trials at least.
std::array<std::vector<Trial>, 2> halves_of(const std::vector<Trial>& trials);

class Tuner {
 public:
  Tuner(const std::vector<Task>& tasks, const TuneOptions& options, Tools tools);
  TuneResult run();

 private:
  double elapsed() const { return tools_.clock.seconds() - began_; }
  double seconds_left() const { return std::max(0.0, options_.seconds - elapsed()); }
  /// Of the time what was not waiting for others who measure: only that says how long the next ones take.
  double worked() const { return tools_.clock.seconds() - tools_.measurer.waited_s(); }
  /// What the end needs: a sure measurement, of layouts and of what is kept apart one more each, and a
  /// comparison.
  double final_seconds() const;
  /// final_seconds(), but that a guess of it ends nothing in the first half of the time: the first trials
  /// take the longest, as most is built for them. None where the end would have nothing to do.
  double planned_end() const;
  /// Something was accepted, or looks better and can be made sure of in the time that is left.
  bool has_to_confirm() const;
  /// Whether what is left is enough for a sure measurement and a comparison.
  bool may_confirm() const { return seconds_left() >= sure_estimate() + least_compare_seconds(); }
  /// What a comparison of the whole network gets at least.
  double least_compare_seconds() const {
    return std::min(kFinalShare / 4 * options_.seconds, kMostCompareSeconds);
  }
  /// What a comparison of combined products gets.
  double combined_seconds() const { return std::min(kCombinedShare * options_.seconds, kMostCompareSeconds); }
  /// Before one was made, by what a quick one took, most of which is a build, or that by the profile, which
  /// is of one process where a quick one has two.
  double sure_estimate() const {
    if (sure_seconds_ > 0) return sure_seconds_;
    return 4 * (quick_seconds_ > 0 ? quick_seconds_ : 2 * profile_seconds_);
  }
  void tell(const std::string& doing) const;
  /// Of the network's time, by what was accepted.
  double gain() const;
  /// Puts that down where it has changed.
  void put_down_gain();
  void look_at_untuned();
  void recall();
  /// What is known of a task's decisions by way of one whose cost is that, to untuned.
  void recall(size_t task, const Decision& base, double cost);
  /// Goes on from what earlier runs confirmed of kernels, where it fits those of this network; the end
  /// confirms it anew.
  void begin_with_confirmed();
  /// Takes of these what a program can be built with: the work may be a part of another kernel here.
  void begin_with(const std::vector<Trial>& confirmed);
  /// Anew, beside what is chosen now.
  void recall_promising(size_t task);
  bool wants_more();
  bool states_are_over() const;

  // --- the network as a whole

  void play_layouts();
  void play_fusions();
  std::vector<double> shares() const;
  std::vector<ChangeTrial> play_changes(NetworkQuestion question, std::vector<NetworkChange> changes);
  ChangeTools change_tools(NetworkQuestion question);
  /// Against a base; what fails is measured twice before that is believed.
  std::vector<Batch> measure_changes(const Choices& base, const std::vector<NetworkChange>& changes,
                                     Effort effort);
  NetworkTrial trial_of(NetworkQuestion question, const NetworkChange& change) const;
  std::optional<RememberedTrial> remembered(const NetworkTrial& trial);
  /// Puts down what was tried.
  void note(const NetworkTrial& trial, const Batch& batch);
  /// What the network gained counts as if it were these tasks' alone; their candidates lie so from now on.
  void lay(const ChangeTrial& taken);
  /// The network with products of the same data combined to the same with them apart; failures are put down.
  Batch compare_combined(const Choices& apart);
  void play_combined();

  // --- trials

  /// What may be gained by another trial of the task.
  static double worth(const TaskState& state);
  /// False: nothing is left to try.
  bool play_batches();
  std::vector<Trial> next_trials();
  std::optional<Decision> next_candidate(size_t task);
  size_t choose(const std::vector<Prospect>& prospects);
  std::vector<std::pair<Trial, Ratio>> measured(const std::vector<Trial>& trials, Effort effort);
  Batch measure_once(const std::vector<Trial>& trials, Effort effort);
  /// Trials with ratios; those that failed are found and told of, and are not among them.
  std::vector<std::pair<Trial, Ratio>> settled(const std::vector<Trial>& trials, Batch batch, Effort effort);
  /// Puts down what was measured; the cost, to untuned.
  double note(const Trial& trial, const Ratio& ratio);
  void learn_of(const Trial& trial, const Ratio& ratio);
  /// `cost`: to untuned.
  void note_promising(size_t task, const Decision& decision, double cost);
  void fail(size_t task, const Decision& decision, const Failure& failure);
  void count(records::Outcome outcome);
  void examples_of(size_t task, const Decision& decision, double cost);

  // --- acceptance

  void accept_promising();
  bool gains(const Ratio& ratio) const { return ratio.high < 1 - options_.smallest_gain; }
  void judge(const Trial& trial, const Ratio& ratio);

  // --- the end

  std::vector<Trial> changes() const;
  void finish();
  void undo(size_t task);
  /// What was accepted, and where nothing was, what looked best and could not be made sure of in time.
  std::vector<Trial> to_confirm() const;
  /// Against what the compiler takes by itself, task by task; what does not gain is undone.
  std::vector<std::pair<Trial, Ratio>> confirm(std::vector<std::optional<Ratio>>& ratios);
  /// Of the network; none where it does not gain.
  std::optional<Ratio> confirm_layouts(const std::vector<Trial>& laid);
  /// What was taken apart, or combined, against what is untuned.
  void confirm_apart();
  void confirm_combined();
  /// What a change comes to, for the records, too; none where it does not gain.
  std::optional<Ratio> confirmed(NetworkQuestion question, const NetworkChange& change);
  std::optional<Ratio> confirmed(const NetworkTrial& trial, Batch batch);
  bool is_kept(const Trial& trial) const;
  /// All of it, as it was confirmed.
  bool is_kept(const NetworkTrial& trial) const;
  /// What of the choices lies otherwise than untuned.
  NetworkTrial laid_trial() const;
  /// At the whole network, by compare_whole(), at the choices as they are now.
  size_t most_looks() const;
  /// Until a set of changes is shown to gain in the whole network, or none is left.
  void compare_whole(std::vector<std::optional<Ratio>>& ratios);
  /// Of one change none; products are combined, and nodes kept apart, until no other change is left.
  void keep_better_half(std::vector<Trial>& changed, std::vector<std::optional<Ratio>>& ratios);

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
  /// That the untuned network's profile, the last batch, and the longest acceptance took.
  double profile_seconds_ = 0, quick_seconds_ = 0, sure_seconds_ = 0;
  std::vector<NumberedSeparation> taken_apart_;  ///< of choices_.apart those that are not untuned
  std::vector<std::pair<NetworkTrial, Ratio>> network_confirmed_;
  std::string ended_;
  TuneResult result_;
};

}  // namespace gantry::tune
