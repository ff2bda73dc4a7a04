#include "host/tune/network_changes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace gantry::tune {
namespace {

/// A quick ratio of the network below this is worth to be made sure of: what one kernel gains is little of
/// the whole.
constexpr double kPromising = 0.997;

ChangeTrial trial_of(NetworkChange change, Batch batch, Effort effort) {
  ChangeTrial trial{.change = std::move(change), .effort = effort, .whole = {}};
  if (batch.failure) {
    trial.failure = std::move(batch.failure);
  } else {
    trial.whole = std::move(batch.whole);
  }
  return trial;
}

/// Adds what the change has of it: of each task the first trial, each edge once. Whether that is anything.
bool add(NetworkChange& all, const NetworkChange& change) {
  const size_t before = all.trials.size() + all.apart.size();
  for (const Trial& trial : change.trials) {
    if (std::ranges::find(all.trials, trial.task, &Trial::task) == all.trials.end())
      all.trials.push_back(trial);
  }
  for (const NumberedSeparation& edge : change.apart) {
    if (std::ranges::find(all.apart, edge) == all.apart.end()) all.apart.push_back(edge);
  }
  return all.trials.size() + all.apart.size() > before;
}

NetworkChange together(const std::vector<const NetworkChange*>& changes) {
  NetworkChange all;
  std::vector<std::string> said;
  for (const NetworkChange* change : changes) {
    if (add(all, *change) && std::ranges::find(said, change->what) == said.end())
      said.push_back(change->what);
  }
  for (const std::string& one : said) all.what += (all.what.empty() ? "" : "; ") + one;
  return all;
}

/// What is to be made sure of, in that order.
std::vector<NetworkChange> promising(const std::vector<ChangeTrial>& tried) {
  std::vector<const ChangeTrial*> good;
  for (const ChangeTrial& trial : tried)
    if (trial.whole && trial.whole->value < kPromising) good.push_back(&trial);
  if (good.empty()) return {};
  std::ranges::stable_sort(good, {}, [](const ChangeTrial* trial) { return trial->whole->value; });
  std::vector<const NetworkChange*> changes;
  for (const ChangeTrial* trial : good) changes.push_back(&trial->change);
  const NetworkChange& best = *changes.front();
  NetworkChange all = together(changes);
  // It has the best one's, then those of others.
  if (all.trials.size() == best.trials.size() && all.apart.size() == best.apart.size()) return {best};
  return {std::move(all), best};
}

/// `of_tasks`: what each may have otherwise, one by one.
std::vector<NetworkChange> in_order(const std::vector<std::vector<NetworkChange>>& of_tasks,
                                    const std::vector<double>& shares, double least) {
  std::map<std::string, std::pair<NetworkChange, size_t>> by_what;
  for (const std::vector<NetworkChange>& of_task : of_tasks) {
    for (const NetworkChange& change : of_task) {
      auto& [all, tasks] = by_what[change.what];
      all.what = change.what;
      tasks += add(all, change) ? 1 : 0;
    }
  }
  std::vector<NetworkChange> changes;
  for (const auto& [what, entry] : by_what)
    if (entry.second > 1) changes.push_back(entry.first);
  std::vector<size_t> by_share(of_tasks.size());
  std::iota(by_share.begin(), by_share.end(), size_t{0});
  std::ranges::stable_sort(by_share, std::ranges::greater(), [&](size_t task) { return shares[task]; });
  for (const size_t task : by_share) {
    if (shares[task] < least) break;
    changes.insert(changes.end(), of_tasks[task].begin(), of_tasks[task].end());
  }
  return changes;
}

/// Takes those out that are remembered.
std::vector<ChangeTrial> recalled(std::vector<NetworkChange>& changes, const ChangeTools& tools) {
  std::vector<ChangeTrial> known;
  std::vector<NetworkChange> others;
  for (NetworkChange& change : changes) {
    std::optional<Batch> batch = tools.remembered ? tools.remembered(change) : std::nullopt;
    if (!batch) {
      others.push_back(std::move(change));
      continue;
    }
    known.push_back(trial_of(std::move(change), std::move(*batch), Effort::kQuick));
    known.back().remembered = true;
  }
  changes = std::move(others);
  return known;
}

}  // namespace

Choices with_change(Choices choices, const NetworkChange& change) {
  for (const Trial& trial : change.trials) choices[trial.task] = trial.decision;
  for (const NumberedSeparation& one : change.apart) choices.apart.push_back(one.edge);
  return choices;
}

std::vector<NetworkChange> layout_changes(const std::vector<Task>& tasks, const std::vector<double>& shares,
                                          double least) {
  std::vector<std::vector<NetworkChange>> of_tasks(tasks.size());
  for (size_t task = 0; task < tasks.size(); ++task) {
    for (const OtherLayout& layout : tasks[task].layouts)
      of_tasks[task].push_back({.what = layout.orders, .trials = {{task, layout.decision}}});
  }
  return in_order(of_tasks, shares, least);
}

std::vector<NetworkChange> fusion_changes(const std::vector<Task>& tasks, const std::vector<double>& shares,
                                          double least) {
  std::vector<std::vector<NetworkChange>> of_tasks(tasks.size());
  for (size_t task = 0; task < tasks.size(); ++task) {
    for (const OtherFusion& fusion : tasks[task].fusions)
      of_tasks[task].push_back({.what = fusion.what, .trials = {}, .apart = fusion.apart});
  }
  return in_order(of_tasks, shares, least);
}

std::vector<ChangeTrial> try_changes(std::vector<NetworkChange> changes, const ChangeTools& tools) {
  std::vector<ChangeTrial> tried = recalled(changes, tools);
  for (size_t begun = 0; begun < changes.size();) {
    const size_t count =
        std::min({std::max<size_t>(tools.at_once, 1), tools.room(begun), changes.size() - begun});
    if (count == 0) break;
    const auto first = changes.begin() + static_cast<std::ptrdiff_t>(begun);
    const std::vector<NetworkChange> some(first, first + static_cast<std::ptrdiff_t>(count));
    std::vector<Batch> results = tools.measure(some, Effort::kQuick);
    for (size_t i = 0; i < count; ++i)
      tried.push_back(trial_of(some[i], std::move(results[i]), Effort::kQuick));
    begun += count;
  }
  for (NetworkChange& change : promising(tried)) {
    if (!tools.may_confirm()) break;
    Batch batch = std::move(tools.measure({change}, Effort::kSure).front());
    ChangeTrial& sure = tried.emplace_back(trial_of(std::move(change), std::move(batch), Effort::kSure));
    sure.accepted = sure.whole && sure.whole->high < 1 - tools.smallest_gain;
    if (sure.accepted) break;
  }
  return tried;
}

}  // namespace gantry::tune
