#include "host/tune/layouts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace gantry::tune {
namespace {

/// A quick ratio of the network below this is worth to be made sure of: what one kernel gains is little of
/// the whole.
constexpr double kPromising = 0.997;

LayoutTrial trial_of(LayoutChange change, Batch batch, Effort effort) {
  LayoutTrial trial{.change = std::move(change), .effort = effort, .whole = {}};
  if (batch.failure) {
    trial.failure = std::move(batch.failure);
  } else {
    trial.whole = std::move(batch.whole);
  }
  return trial;
}

/// Of each task the trial of the first change that has one.
LayoutChange together(const std::vector<const LayoutChange*>& changes) {
  LayoutChange all;
  std::vector<std::string> orders;
  for (const LayoutChange* change : changes) {
    bool adds = false;
    for (const Trial& trial : change->trials) {
      if (std::ranges::find(all.trials, trial.task, &Trial::task) != all.trials.end()) continue;
      all.trials.push_back(trial);
      adds = true;
    }
    if (adds && std::ranges::find(orders, change->orders) == orders.end()) orders.push_back(change->orders);
  }
  for (const std::string& one : orders) all.orders += (all.orders.empty() ? "" : "; ") + one;
  return all;
}

/// What is to be made sure of, in that order.
std::vector<LayoutChange> promising(const std::vector<LayoutTrial>& tried) {
  std::vector<const LayoutTrial*> good;
  for (const LayoutTrial& trial : tried)
    if (trial.whole && trial.whole->value < kPromising) good.push_back(&trial);
  if (good.empty()) return {};
  std::ranges::stable_sort(good, {}, [](const LayoutTrial* trial) { return trial->whole->value; });
  std::vector<const LayoutChange*> changes;
  for (const LayoutTrial* trial : good) changes.push_back(&trial->change);
  const LayoutChange& best = *changes.front();
  LayoutChange all = together(changes);
  // It has the best one's, then those of others.
  if (all.trials.size() == best.trials.size()) return {best};
  return {std::move(all), best};
}

}  // namespace

std::vector<LayoutChange> layout_changes(const std::vector<Task>& tasks, const std::vector<double>& shares,
                                         double least) {
  std::map<std::string, LayoutChange> by_orders;
  for (size_t task = 0; task < tasks.size(); ++task) {
    for (const OtherLayout& layout : tasks[task].layouts) {
      LayoutChange& change = by_orders[layout.orders];
      change.orders = layout.orders;
      change.trials.push_back({task, layout.decision});
    }
  }
  std::vector<LayoutChange> changes;
  for (const auto& [orders, change] : by_orders)
    if (change.trials.size() > 1) changes.push_back(change);
  std::vector<size_t> by_share(tasks.size());
  std::iota(by_share.begin(), by_share.end(), size_t{0});
  std::ranges::stable_sort(by_share, std::ranges::greater(), [&](size_t task) { return shares[task]; });
  for (const size_t task : by_share) {
    if (shares[task] < least) break;
    for (const OtherLayout& layout : tasks[task].layouts)
      changes.push_back({layout.orders, {{task, layout.decision}}});
  }
  return changes;
}

std::vector<LayoutTrial> try_layouts(std::vector<LayoutChange> changes, const LayoutTools& tools) {
  std::vector<LayoutTrial> tried;
  while (tried.size() < changes.size()) {
    const size_t first = tried.size();
    const size_t count =
        std::min({std::max<size_t>(tools.at_once, 1), tools.room(first), changes.size() - first});
    if (count == 0) break;
    std::vector<std::vector<Trial>> batches;
    for (size_t i = 0; i < count; ++i) batches.push_back(changes[first + i].trials);
    std::vector<Batch> results = tools.measure(batches, Effort::kQuick);
    for (size_t i = 0; i < count; ++i)
      tried.push_back(trial_of(std::move(changes[first + i]), std::move(results[i]), Effort::kQuick));
  }
  for (LayoutChange& change : promising(tried)) {
    if (!tools.may_confirm()) break;
    Batch batch = std::move(tools.measure({change.trials}, Effort::kSure).front());
    LayoutTrial& sure = tried.emplace_back(trial_of(std::move(change), std::move(batch), Effort::kSure));
    sure.accepted = sure.whole && sure.whole->high < 1 - tools.smallest_gain;
    if (sure.accepted) break;
  }
  return tried;
}

}  // namespace gantry::tune
