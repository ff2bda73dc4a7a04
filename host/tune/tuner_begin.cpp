// How a run begins: the untuned network is timed, and what earlier runs found is taken up.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "host/support/words.h"
#include "host/tune/tuner_run.h"

namespace gantry::tune {

void Tuner::look_at_untuned() {
  tell("timing the untuned network");
  const double begun = worked();
  const Profile profile = tools_.measurer.profile(untuned_);
  profile_seconds_ = worked() - begun;
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

void Tuner::recall() {
  for (size_t i = 0; i < tasks_.size(); ++i) recall(i, untuned_[i], 1);
}

void Tuner::recall(size_t task, const Decision& base, double base_cost) {
  for (const Remembered& one : tools_.notebook.recall(tasks_[task], base)) {
    if (!one.cost) {
      states_[task].search.tell_failed(one.decision);
      continue;
    }
    const double cost = *one.cost * base_cost;
    states_[task].search.tell(one.decision, cost);
    examples_of(task, one.decision, cost);
    note_promising(task, one.decision, cost);
  }
}

void Tuner::begin_with_confirmed() {
  std::vector<Trial> confirmed;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (states_[i].laid) continue;  // the records compare with kernels that lie as the untuned one does
    const std::optional<Decision> decision = tools_.notebook.confirmed(tasks_[i]);
    if (decision && states_[i].search.cost_of(*decision)) confirmed.push_back({i, *decision});
  }
  if (confirmed.empty()) return;
  tell(fmt::format("building what was confirmed of {}", counted(confirmed.size(), "kernel")));
  begin_with(confirmed);
}

void Tuner::begin_with(const std::vector<Trial>& confirmed) {
  Choices choices = choices_;
  for (const Trial& trial : confirmed) choices[trial.task] = trial.decision;
  const std::optional<Failure> failure = tools_.measurer.build_failure(choices);
  if (failure && confirmed.size() > 1) {
    for (const std::vector<Trial>& half : halves_of(confirmed)) begin_with(half);
    return;
  }
  for (const auto& [task, decision] : confirmed) {
    if (failure) {
      fail(task, decision, *failure);
    } else {
      choices_[task] = decision;
      states_[task].search.move_to(decision);
      ++result_.accepted;
    }
    recall_promising(task);
  }
}

void Tuner::recall_promising(size_t task) {
  states_[task].promising.reset();
  for (const Remembered& one : tools_.notebook.recall(tasks_[task]))
    if (one.cost && states_[task].search.cost_of(one.decision)) note_promising(task, one.decision, *one.cost);
}

}  // namespace gantry::tune
