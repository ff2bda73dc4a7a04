// The end of a run: what was accepted is confirmed, and the whole network is compared.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

void Tuner::undo(size_t task) {
  choices_[task] = untuned_[task];
  ++result_.undone;
}

std::vector<Trial> Tuner::to_confirm() const {
  std::vector<Trial> trials = changes();
  if (trials.empty() && seconds_left() < sure_estimate()) return trials;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (choices_[i] == untuned_[i] && states_[i].promising)
      trials.push_back({i, states_[i].promising->first});
  }
  return trials;
}

std::vector<std::pair<Trial, Ratio>> Tuner::confirm(std::vector<std::optional<Ratio>>& ratios) {
  const std::vector<Trial> trials = to_confirm();
  const bool combines = choices_.combined != untuned_.combined;
  if (trials.empty() && !combines) return {};
  tell(
      fmt::format("confirming what was found for {} kernel{}", trials.size(), trials.size() == 1 ? "" : "s"));
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

std::optional<Ratio> Tuner::confirm_layouts(const std::vector<Trial>& laid) {
  if (laid.empty()) return std::nullopt;
  Batch batch = measure_once(laid, Effort::kSure);
  if (batch.failure) {
    result_.failures.push_back("images that lie otherwise: " + batch.failure->why);
    return std::nullopt;
  }
  return gains(batch.whole) ? std::optional(std::move(batch.whole)) : std::nullopt;
}

void Tuner::confirm_combined() {
  const Batch batch = compare_combined(untuned_);
  choices_.combined = !batch.failure && gains(batch.whole);
  if (!choices_.combined) ++result_.undone;
}

void Tuner::compare_whole(std::vector<std::optional<Ratio>>& ratios) {
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

void Tuner::keep_better_half(std::vector<Trial>& changed, std::vector<std::optional<Ratio>>& ratios) {
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

}  // namespace gantry::tune
