// Which changes of a network are tried on it, and which is accepted: measurements are made up.
#include "host/tune/network_changes.h"

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

std::vector<size_t> tasks_of(const NetworkChange& change) {
  std::vector<size_t> tasks;
  for (const Trial& trial : change.trials) tasks.push_back(trial.task);
  return tasks;
}

TEST(LayoutChanges, AreOfAllTasksTogetherThenOfEachByItsShare) {
  const std::vector<Task> tasks{task_with({"a"}), task_with({}), task_with({"a", "b"}), task_with({"a"})};
  const std::vector<NetworkChange> changes = layout_changes(tasks, {0.1, 0.5, 0.3, 0.001}, 0.01);
  ASSERT_THAT(changes, SizeIs(4));
  EXPECT_EQ(changes[0].what, "a");
  EXPECT_THAT(tasks_of(changes[0]), ElementsAre(0, 2, 3))
      << "small ones too, where they cost no trial of their own";
  EXPECT_THAT(tasks_of(changes[1]), ElementsAre(2));
  EXPECT_EQ(changes[1].what, "a");
  EXPECT_THAT(tasks_of(changes[2]), ElementsAre(2));
  EXPECT_EQ(changes[2].what, "b");
  EXPECT_EQ(changes[2].trials[0].decision, in_order("b"));
  EXPECT_THAT(tasks_of(changes[3]), ElementsAre(0));
}

TEST(LayoutChanges, AreNoneWhereNothingMayLieOtherwise) {
  EXPECT_THAT(layout_changes({task_with({}), task_with({})}, {0.5, 0.5}, 0.01), IsEmpty());
}

NumberedSeparation edge(int64_t maker) {
  NumberedSeparation one;
  one.edge.maker.origin = {std::to_string(maker)};
  one.maker = maker;
  one.reader = maker + 1;
  return one;
}

TEST(FusionChanges, AreOfAllTasksTogetherThenOfEachByItsShare) {
  std::vector<Task> tasks(3);
  tasks[0].fusions = {{"relu apart", {edge(1), edge(5)}}};
  tasks[1].fusions = {{"add apart", {edge(9)}}};
  tasks[2].fusions = {{"relu apart", {edge(3)}}};
  const std::vector<NetworkChange> changes = fusion_changes(tasks, {0.2, 0.001, 0.5}, 0.01);
  ASSERT_THAT(changes, SizeIs(3));
  EXPECT_EQ(changes[0].what, "relu apart");
  EXPECT_THAT(changes[0].apart, ElementsAre(edge(1), edge(5), edge(3)));
  EXPECT_THAT(changes[1].apart, ElementsAre(edge(3)));
  EXPECT_THAT(changes[2].apart, ElementsAre(edge(1), edge(5)));
  Choices choices;
  choices.push_back({"direct", {}});
  const Choices apart = with_change(choices, changes[1]);
  EXPECT_EQ(apart.front(), choices.front());
  EXPECT_THAT(apart.apart, ElementsAre(edge(3).edge));
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

  ChangeTools tools() {
    ChangeTools tools;
    tools.measure = [this](const std::vector<NetworkChange>& changes, Effort effort) {
      batches.push_back(changes.size());
      sure += effort == Effort::kSure ? 1 : 0;
      std::vector<Batch> results;
      for (const NetworkChange& change : changes) results.push_back(measured(change.trials));
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

std::vector<NetworkChange> each_of(size_t count) {
  std::vector<NetworkChange> changes;
  for (size_t task = 0; task < count; ++task) changes.push_back({"a", {{task, in_order("a")}}});
  return changes;
}

TEST(Layouts, WhatGainsIsMadeSureOfTogether) {
  MadeUpNetwork network{{{0, 0.98}, {1, 1.02}, {2, 0.97}}};
  const std::vector<ChangeTrial> tried = try_changes(each_of(3), network.tools());
  ASSERT_THAT(tried, SizeIs(4));
  EXPECT_EQ(network.sure, 1U);
  EXPECT_TRUE(tried.back().accepted);
  EXPECT_EQ(tried.back().effort, Effort::kSure);
  EXPECT_THAT(tasks_of(tried.back().change), ElementsAre(2, 0)) << "the best one first";
}

TEST(Layouts, WhereThatDoesNotGainTogetherTheBestOneAloneIsMadeSureOf) {
  MadeUpNetwork network{{{0, 0.98}, {1, 0.97}}};
  network.penalty = 1.1;
  const std::vector<ChangeTrial> tried = try_changes(each_of(2), network.tools());
  ASSERT_THAT(tried, SizeIs(4));
  EXPECT_FALSE(tried[2].accepted);
  EXPECT_TRUE(tried[3].accepted);
  EXPECT_THAT(tasks_of(tried[3].change), ElementsAre(1));
}

TEST(Layouts, AreAcceptedOnlyWhereTheIntervalExcludesALoss) {
  MadeUpNetwork network{{{0, 0.99}}};
  network.spread = 0.011;
  const std::vector<ChangeTrial> tried = try_changes(each_of(1), network.tools());
  ASSERT_THAT(tried, SizeIs(2));
  EXPECT_EQ(network.sure, 1U);
  EXPECT_FALSE(tried[1].accepted);
  MadeUpNetwork asks_more{{{0, 0.99}}};
  ChangeTools tools = asks_more.tools();
  tools.smallest_gain = 0.01;
  EXPECT_FALSE(try_changes(each_of(1), tools).back().accepted);
}

TEST(Layouts, WhatFailsOrLosesIsNotMadeSureOf) {
  MadeUpNetwork network{{{0, 0.9}, {1, 1.05}}};
  network.fails = 0;
  const std::vector<ChangeTrial> tried = try_changes(each_of(2), network.tools());
  ASSERT_THAT(tried, SizeIs(2));
  EXPECT_EQ(network.sure, 0U);
  EXPECT_FALSE(tried[0].whole);
  ASSERT_TRUE(tried[0].failure);
  EXPECT_EQ(tried[0].failure->outcome, records::Outcome::kCrashed);
}

TEST(Layouts, WhatIsRememberedIsNotMeasuredAgainButMadeSureOf) {
  MadeUpNetwork network{{{0, 0.97}, {1, 1.05}, {2, 1.01}}};
  ChangeTools tools = network.tools();
  tools.remembered = [&](const NetworkChange& change) -> std::optional<Batch> {
    if (change.trials[0].task == 2) return std::nullopt;
    return network.measured(change.trials);
  };
  const std::vector<ChangeTrial> tried = try_changes(each_of(3), tools);
  ASSERT_THAT(tried, SizeIs(4));
  EXPECT_TRUE(tried[0].remembered);
  EXPECT_TRUE(tried[1].remembered);
  EXPECT_FALSE(tried[2].remembered);
  EXPECT_THAT(tasks_of(tried[2].change), ElementsAre(2));
  EXPECT_THAT(network.batches, ElementsAre(1, 1)) << "the one that is not known, and what looked best";
  EXPECT_TRUE(tried[3].accepted);
  EXPECT_THAT(tasks_of(tried[3].change), ElementsAre(0));
}

TEST(Layouts, AreHandedOverTogetherAndNoMoreThanThereIsRoomFor) {
  MadeUpNetwork network{{{0, 1.1}, {1, 1.1}, {2, 1.1}, {3, 1.1}, {4, 1.1}}};
  network.at_most = 3;
  ChangeTools tools = network.tools();
  tools.at_once = 2;
  EXPECT_THAT(try_changes(each_of(5), tools), SizeIs(3));
  EXPECT_THAT(network.batches, ElementsAre(2, 1));
}

}  // namespace
}  // namespace gantry::tune
