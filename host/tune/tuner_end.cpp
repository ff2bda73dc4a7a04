// The end of a run: what was accepted is confirmed, and the whole network is compared.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "host/support/words.h"
#include "host/tune/tuner_run.h"

namespace gantry::tune {

std::vector<Trial> Tuner::changes() const {
  std::vector<Trial> changed;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (choices_[i] != untuned_[i]) changed.push_back({i, choices_[i]});
  }
  return changed;
}

void Tuner::finish() {
  std::vector<std::optional<Ratio>> ratios(tasks_.size());
  const std::vector<std::pair<Trial, Ratio>> confirmed = confirm(ratios);
  const auto note = [&](bool confirmation) {
    for (const auto& [trial, ratio] : confirmed) {
      if (!confirmation || is_kept(trial))
        tools_.notebook.measured(tasks_[trial.task], trial.decision, untuned_[trial.task], ratio,
                                 confirmation);
    }
    for (const auto& [trial, whole] : network_confirmed_)
      if (!confirmation || is_kept(trial)) tools_.notebook.measured(trial, whole, confirmation);
    tools_.notebook.flush();
  };
  // Trials as any others, whatever ends the comparison of the whole network, which takes long. What decides
  // later is what was kept in the end.
  note(false);
  compare_whole(ratios);
  note(true);
  result_.choices = choices_;
  result_.ended = ended_;
  for (size_t i = 0; i < tasks_.size(); ++i)
    result_.tasks.push_back({states_[i].share, states_[i].amount, choices_[i], ratios[i], states_[i].trials,
                             states_[i].failures, states_[i].laid && ratios[i].has_value()});
}

bool Tuner::is_kept(const Trial& trial) const {
  return choices_[trial.task] == trial.decision;
}

bool Tuner::is_kept(const NetworkTrial& trial) const {
  switch (trial.question) {
    case NetworkQuestion::kLayouts:
      return trial == laid_trial();
    case NetworkQuestion::kProducts:
      return choices_.combined;
    case NetworkQuestion::kFusions:
      return choices_.apart != untuned_.apart;
  }
  return false;
}

NetworkTrial Tuner::laid_trial() const {
  NetworkChange laid;
  for (const Trial& trial : changes())
    if (states_[trial.task].laid) laid.trials.push_back(trial);
  return trial_of(NetworkQuestion::kLayouts, laid);
}

void Tuner::undo(size_t task) {
  choices_[task] = untuned_[task];
  ++result_.undone;
}

std::vector<Trial> Tuner::to_confirm() const {
  std::vector<Trial> trials = changes();
  if (trials.empty() && !may_confirm()) return trials;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (choices_[i] == untuned_[i] && states_[i].promising)
      trials.push_back({i, states_[i].promising->first});
  }
  return trials;
}

std::vector<std::pair<Trial, Ratio>> Tuner::confirm(std::vector<std::optional<Ratio>>& ratios) {
  const std::vector<Trial> trials = to_confirm();
  const bool combines = choices_.combined != untuned_.combined, separates = choices_.apart != untuned_.apart;
  if (trials.empty() && !combines && !separates) return {};
  tell(fmt::format("confirming what was found for {}", counted(trials.size(), "kernel")));
  std::vector<Trial> kernels, laid;
  for (const Trial& trial : trials) (states_[trial.task].laid ? laid : kernels).push_back(trial);
  const Choices accepted = std::exchange(choices_, untuned_);  // what is compared with
  std::vector<std::pair<Trial, Ratio>> confirmed;
  if (!kernels.empty()) confirmed = measured(kernels, Effort::kSure);
  const std::optional<Ratio> of_layouts = confirm_layouts(laid);
  if (separates) confirm_apart();
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

std::optional<Ratio> Tuner::confirm_layouts(const std::vector<Trial>& laid) {
  if (laid.empty()) return std::nullopt;
  const NetworkChange change{.what = "images that lie otherwise", .trials = laid};
  return confirmed(NetworkQuestion::kLayouts, change);
}

void Tuner::confirm_apart() {
  const NetworkChange change{.what = "kernels apart", .trials = {}, .apart = taken_apart_};
  if (confirmed(NetworkQuestion::kFusions, change)) {
    choices_ = with_change(std::move(choices_), change);
  } else {
    ++result_.undone;
  }
}

std::optional<Ratio> Tuner::confirmed(NetworkQuestion question, const NetworkChange& change) {
  Batch batch = std::move(measure_changes(untuned_, {change}, Effort::kSure).front());
  if (batch.failure) result_.failures.push_back(change.what + ": " + batch.failure->why);
  return confirmed(trial_of(question, change), std::move(batch));
}

void Tuner::confirm_combined() {
  choices_.combined = confirmed(combined_trial(), compare_combined(untuned_)).has_value();
  if (!choices_.combined) ++result_.undone;
}

std::optional<Ratio> Tuner::confirmed(const NetworkTrial& trial, Batch batch) {
  if (batch.failure) {
    note(trial, batch);
    return std::nullopt;
  }
  network_confirmed_.emplace_back(trial, batch.whole);
  return gains(batch.whole) ? std::optional(std::move(batch.whole)) : std::nullopt;
}

size_t Tuner::most_looks() const {
  // n changes, half of them, …, one: as many as n has binary digits.
  return static_cast<size_t>(std::bit_width(changes().size())) + (choices_.apart != untuned_.apart ? 1 : 0) +
         (choices_.combined != untuned_.combined ? 1 : 0);
}

void Tuner::compare_whole(std::vector<std::optional<Ratio>>& ratios) {
  // The first look that shows a gain ends it, so that each is a chance to find one that is none. By
  // Bonferroni's inequality all of them together err no more often than one interval may where each has its
  // share of that (Dunn, "Multiple comparisons among means", JASA 56, 1961), however they depend on each
  // other.
  const double confidence = 1 - (1 - kConfidence) / static_cast<double>(std::max<size_t>(most_looks(), 1));
  for (bool first = true; choices_ != untuned_; first = false) {
    std::vector<Trial> changed = changes();
    // Each takes some seconds at least: once the time is over, only the first one is made.
    if (!first && seconds_left() <= 0) {
      keep_better_half(changed, ratios);
      continue;
    }
    tell("comparing the whole network");
    // Should it show nothing, there is another to be made.
    const double seconds =
        std::min(std::max(0.6 * seconds_left(), least_compare_seconds()), kMostCompareSeconds);
    const Batch batch = tools_.measurer.compare(untuned_, choices_, seconds, confidence);
    if (!batch.failure && batch.whole.is_gain()) {
      result_.whole = batch.whole;
      return;
    }
    if (batch.failure) result_.failures.push_back("the tuned network: " + batch.failure->why);
    keep_better_half(changed, ratios);
  }
}

void Tuner::keep_better_half(std::vector<Trial>& changed, std::vector<std::optional<Ratio>>& ratios) {
  if (changed.empty()) {
    // One after the other.
    if (choices_.apart != untuned_.apart) {
      choices_.apart = untuned_.apart;
    } else {
      choices_.combined = untuned_.combined;
    }
    ++result_.undone;
    return;
  }
  const auto gained = [&](const Trial& trial) {
    const TaskState& state = states_[trial.task];
    return (state.laid ? 1 : state.share) * (1 - ratios[trial.task]->value);
  };
  std::ranges::stable_sort(changed, [&](const Trial& a, const Trial& b) { return gained(a) > gained(b); });
  const auto is_laid = [&](const Trial& trial) { return states_[trial.task].laid; };
  const auto middle = changed.begin() + static_cast<std::ptrdiff_t>(changed.size() / 2);
  // What images that lie otherwise gain is known of all of them together.
  const bool undoes_laid = std::any_of(middle, changed.end(), is_laid);
  for (auto trial = changed.begin(); trial != changed.end(); ++trial) {
    if (trial < middle && !(undoes_laid && is_laid(*trial))) continue;
    undo(trial->task);
    ratios[trial->task].reset();
  }
}

}  // namespace gantry::tune
