// Which layouts are tried on a network, and which is accepted: measurements are made up.
#include "host/tune/layouts.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

namespace gantry::tune {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

Decision in_order(const std::string& orders) {
  return {orders == "a" ? "form_a" : "form_b", {}};
}

Task task_with(const std::vector<std::string>& orders) {
  Task task;
  for (const std::string& one : orders) task.layouts.push_back({one, in_order(one), {}});
  return task;
}

std::vector<size_t> tasks_of(const LayoutChange& change) {
  std::vector<size_t> tasks;
  for (const Trial& trial : change.trials) tasks.push_back(trial.task);
  return tasks;
}

TEST(LayoutChanges, AreOfAllTasksTogetherThenOfEachByItsShare) {
  const std::vector<Task> tasks{task_with({"a"}), task_with({}), task_with({"a", "b"}), task_with({"a"})};
  const std::vector<LayoutChange> changes = layout_changes(tasks, {0.1, 0.5, 0.3, 0.001}, 0.01);
  ASSERT_THAT(changes, SizeIs(4));
  EXPECT_EQ(changes[0].orders, "a");
  EXPECT_THAT(tasks_of(changes[0]), ElementsAre(0, 2, 3))
      << "small ones too, where they cost no trial of their own";
  EXPECT_THAT(tasks_of(changes[1]), ElementsAre(2));
  EXPECT_EQ(changes[1].orders, "a");
  EXPECT_THAT(tasks_of(changes[2]), ElementsAre(2));
  EXPECT_EQ(changes[2].orders, "b");
  EXPECT_EQ(changes[2].trials[0].decision, in_order("b"));
  EXPECT_THAT(tasks_of(changes[3]), ElementsAre(0));
}

TEST(LayoutChanges, AreNoneWhereNothingMayLieOtherwise) {
  EXPECT_THAT(layout_changes({task_with({}), task_with({})}, {0.5, 0.5}, 0.01), IsEmpty());
}

/// A network whose ratio is the product of those of the tasks that are changed.
struct MadeUpNetwork {
  std::map<size_t, double> ratios;
  std::optional<size_t> fails;  ///< with that task changed
  /// What tasks lose together, whatever they gain alone.
  double penalty = 1;
  double spread = 0.004;  ///< half of a sure interval
  size_t sure = 0, at_most = 100;
  std::vector<size_t> batches = {};

  LayoutTools tools() {
    LayoutTools tools;
    tools.measure = [this](const std::vector<std::vector<Trial>>& changes, Effort effort) {
      batches.push_back(changes.size());
      sure += effort == Effort::kSure ? 1 : 0;
      std::vector<Batch> results;
      for (const auto& trials : changes) results.push_back(measured(trials));
      return results;
    };
    tools.room = [this](size_t tried) { return at_most - std::min(at_most, tried); };
    tools.may_confirm = [] { return true; };
    return tools;
  }

  Batch measured(const std::vector<Trial>& trials) const {
    Batch batch;
    double ratio = trials.size() > 1 ? penalty : 1;
    for (const Trial& trial : trials) {
      if (fails == trial.task) batch.failure = Failure{records::Outcome::kCrashed, "injected"};
      ratio *= ratios.at(trial.task);
    }
    batch.whole.value = ratio;
    batch.whole.low = ratio - spread;
    batch.whole.high = ratio + spread;
    return batch;
  }
};

std::vector<LayoutChange> each_of(size_t count) {
  std::vector<LayoutChange> changes;
  for (size_t task = 0; task < count; ++task) changes.push_back({"a", {{task, in_order("a")}}});
  return changes;
}

TEST(Layouts, WhatGainsIsMadeSureOfTogether) {
  MadeUpNetwork network{{{0, 0.98}, {1, 1.02}, {2, 0.97}}};
  const std::vector<LayoutTrial> tried = try_layouts(each_of(3), network.tools());
  ASSERT_THAT(tried, SizeIs(4));
  EXPECT_EQ(network.sure, 1U);
  EXPECT_TRUE(tried.back().accepted);
  EXPECT_EQ(tried.back().effort, Effort::kSure);
  EXPECT_THAT(tasks_of(tried.back().change), ElementsAre(2, 0)) << "the best one first";
}

TEST(Layouts, WhereThatDoesNotGainTogetherTheBestOneAloneIsMadeSureOf) {
  MadeUpNetwork network{{{0, 0.98}, {1, 0.97}}};
  network.penalty = 1.1;
  const std::vector<LayoutTrial> tried = try_layouts(each_of(2), network.tools());
  ASSERT_THAT(tried, SizeIs(4));
  EXPECT_FALSE(tried[2].accepted);
  EXPECT_TRUE(tried[3].accepted);
  EXPECT_THAT(tasks_of(tried[3].change), ElementsAre(1));
}

TEST(Layouts, AreAcceptedOnlyWhereTheIntervalExcludesALoss) {
  MadeUpNetwork network{{{0, 0.99}}};
  network.spread = 0.011;
  const std::vector<LayoutTrial> tried = try_layouts(each_of(1), network.tools());
  ASSERT_THAT(tried, SizeIs(2));
  EXPECT_EQ(network.sure, 1U);
  EXPECT_FALSE(tried[1].accepted);
  MadeUpNetwork asks_more{{{0, 0.99}}};
  LayoutTools tools = asks_more.tools();
  tools.smallest_gain = 0.01;
  EXPECT_FALSE(try_layouts(each_of(1), tools).back().accepted);
}

TEST(Layouts, WhatFailsOrLosesIsNotMadeSureOf) {
  MadeUpNetwork network{{{0, 0.9}, {1, 1.05}}};
  network.fails = 0;
  const std::vector<LayoutTrial> tried = try_layouts(each_of(2), network.tools());
  ASSERT_THAT(tried, SizeIs(2));
  EXPECT_EQ(network.sure, 0U);
  EXPECT_FALSE(tried[0].whole);
  ASSERT_TRUE(tried[0].failure);
  EXPECT_EQ(tried[0].failure->outcome, records::Outcome::kCrashed);
}

TEST(Layouts, AreHandedOverTogetherAndNoMoreThanThereIsRoomFor) {
  MadeUpNetwork network{{{0, 1.1}, {1, 1.1}, {2, 1.1}, {3, 1.1}, {4, 1.1}}};
  network.at_most = 3;
  LayoutTools tools = network.tools();
  tools.at_once = 2;
  EXPECT_THAT(try_layouts(each_of(5), tools), SizeIs(3));
  EXPECT_THAT(network.batches, ElementsAre(2, 1));
}

}  // namespace
}  // namespace gantry::tune
