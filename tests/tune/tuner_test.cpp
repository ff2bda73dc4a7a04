// The tuner against machines that are made up.
#include "host/tune/tuner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <set>

#include "tests/records/samples.h"
#include "tests/tune/made_up_machine.h"
#include "tests/tune/memory_store.h"

namespace gantry::tune {
namespace {

TEST(Tuner, FindsWhatIsFasterAndShowsIt) {
  MadeUpRun setup(4, true_cost, 3);
  const TuneResult result = setup.run();
  EXPECT_LT(true_ratio(setup, result, true_cost), 0.8);
  ASSERT_TRUE(result.whole);
  EXPECT_LT(result.whole->high, 1);
  for (const TaskResult& task : result.tasks) {
    ASSERT_TRUE(task.ratio);
    EXPECT_LT(task.ratio->high, 1);
  }
}

TEST(Tuner, TellsWhenItGained) {
  MadeUpRun setup(4, true_cost, 3);
  const TuneResult result = setup.run();
  ASSERT_FALSE(result.history.empty());
  Standing last;
  for (const Standing& one : result.history) {
    EXPECT_GE(one.trials, last.trials);
    EXPECT_GT(one.seconds, last.seconds);
    last = one;
  }
  EXPECT_LE(last.trials, result.trials);
  EXPECT_LE(last.seconds, setup.options.seconds);
  // Nothing of it is undone here: what it says of the kernels is what the network has gained.
  EXPECT_NEAR(1 - last.gain, true_ratio(setup, result, true_cost), 0.05);
}

TEST(Tuner, BatchesThatAreHandedOverTogetherHoldNoCandidateTwice) {
  MadeUpRun run(3, true_cost, 3);
  run.machine.at_once = 4;
  std::set<std::pair<size_t, std::string>> seen;
  run.machine.fault_ = [&](size_t task, const Decision& decision) {
    if (decision.form == "direct") {
      EXPECT_TRUE(seen.insert({task, to_string(decision)}).second) << to_string(decision);
    }
    return std::nullopt;
  };
  run.options.trials = 60;
  EXPECT_EQ(run.run().trials, 60U);
}

TEST(Tuner, IsOverInTime) {
  for (const double seconds : {30.0, 120.0, 300.0}) {
    MadeUpRun setup(6, true_cost, 5);
    setup.options.seconds = seconds;
    setup.run();
    EXPECT_LT(setup.clock.now, seconds * 1.1) << seconds;
    EXPECT_GT(setup.clock.now, seconds * 0.5) << seconds;
  }
}

TEST(Tuner, OnceTheTimeIsOverNoOtherComparisonBegins) {
  MadeUpRun setup(24, true_cost, 5);
  setup.options.seconds = 60;
  setup.machine.whole_gains = false;
  setup.machine.least_compare_s = 6;
  const TuneResult result = setup.run();
  EXPECT_FALSE(result.whole);
  EXPECT_EQ(true_ratio(setup, result, true_cost), 1);
  EXPECT_GE(setup.machine.comparisons, 1U);
  EXPECT_LE(setup.clock.now, setup.options.seconds + setup.machine.least_compare_s);
}

/// Each may show what is no gain; all together may no more often than one does.
TEST(Tuner, ComparisonsOfTheWholeNetworkShareTheErrorOfOne) {
  MadeUpRun setup(24, true_cost, 5);
  setup.machine.whole_gains = false;
  EXPECT_FALSE(setup.run().whole);
  double errors = 0;
  for (const double confidence : setup.machine.confidences) errors += 1 - confidence;
  EXPECT_GE(setup.machine.confidences.size(), 2U);
  EXPECT_LE(errors, 0.05 + 1e-9);
  EXPECT_GT(errors, 0) << "some is left to each";
}

TEST(Tuner, TheOnlyComparisonOfTheWholeNetworkMayErrAsOneDoes) {
  MadeUpRun setup(1, true_cost, 5);
  setup.run();
  ASSERT_EQ(setup.machine.confidences.size(), 1U);
  EXPECT_DOUBLE_EQ(setup.machine.confidences[0], 0.95);
}

/// Products that are combined are one more change: looked at with those of kernels, and by themselves.
TEST(Tuner, WhatIsCombinedBesideKernelsIsLookedAtOnceMore) {
  MadeUpRun setup(3, true_cost, 5);
  setup.machine.of_combined = 0.6;
  setup.options.may_combine = true;
  const TuneResult result = setup.run();
  ASSERT_TRUE(result.whole);
  ASSERT_TRUE(result.choices.combined);
  size_t changed = 0;  // the first look has shown it: all is kept
  for (size_t i = 0; i < setup.all.size(); ++i) changed += result.choices[i] != setup.all[i].untuned ? 1 : 0;
  const auto looks = static_cast<double>(std::bit_width(changed) + 1);
  EXPECT_DOUBLE_EQ(setup.machine.confidences.back(), 1 - 0.05 / looks);
}

/// As where all kernels are built for it. How long a sure measurement takes is no more than guessed then: a
/// guess that there is no time for one ends no run that has none to make.
TEST(Tuner, AFirstTrialThatTakesLongDoesNotEndIt) {
  for (const double seconds : {60.0, 30.0}) {
    MadeUpRun setup(4, true_cost, 5);
    setup.options.seconds = seconds;
    setup.machine.first_s = 10;
    EXPECT_GT(setup.run().trials, seconds > 30 ? 50U : 15U);
    EXPECT_LT(setup.clock.now, 1.1 * seconds);
  }
}

TEST(Tuner, ATimeThatIsOverBeforeTheFirstTrialIsSaid) {
  MadeUpRun setup(4, true_cost, 5);
  setup.options.seconds = 10;
  setup.machine.profile_s = 12;
  const TuneResult result = setup.run();
  EXPECT_EQ(result.trials, 0U);
  EXPECT_EQ(result.ended, "the time was over before the first trial");
  EXPECT_EQ(setup.machine.measurements, 0U);
}

TEST(Tuner, WaitingForOthersIsNotTakenForMeasuring) {
  MadeUpRun setup(4, true_cost, 5);
  setup.machine.others_every = 3;
  double left = 0;  // when the trials ended
  const auto hear = [&](const Progress& now) {
    if (now.doing.starts_with("confirming what was found")) left = now.seconds_left;
  };
  tune(setup.all, setup.options,
       {setup.machine, setup.screen, *setup.model, setup.notebook, setup.clock, hear});
  EXPECT_GT(setup.machine.waited, 100);
  EXPECT_LT(left, 75) << "a fifth of 300 s is for the end";
}

TEST(Tuner, MakesNoMoreTrialsThanItMay) {
  MadeUpRun setup(4, true_cost, 5);
  setup.options.trials = 10;
  const TuneResult result = setup.run();
  EXPECT_EQ(result.trials, 10U);
  EXPECT_EQ(result.ended, "all trials are made");
}

TEST(Tuner, WhoseTrialsAreMadeEndsHoweverMuchTimeIsLeft) {
  for (const double seconds : {3600.0, 360000.0}) {
    MadeUpRun setup(4, true_cost, 3);
    setup.options.trials = 60;
    setup.options.seconds = seconds;
    const TuneResult result = setup.run();
    EXPECT_TRUE(result.whole);
    EXPECT_LT(setup.clock.now, 300) << seconds;
  }
}

TEST(Tuner, TheSameSeedAndTimesGiveTheSameChoices) {
  MadeUpRun first(3, true_cost, 11), second(3, true_cost, 11);
  EXPECT_EQ(first.run().choices, second.run().choices);
}

/// A candidate that is no faster is accepted one time in forty at most; it may then be undone, too.
TEST(Tuner, OfAThousandEqualCandidatesAtMostFiftyAreAccepted) {
  size_t decisions = 0, accepted = 0;
  for (uint64_t seed = 0; decisions < 1000; ++seed) {
    MadeUpRun setup(
        8, [](size_t, const Decision&) { return 1.0; }, seed);
    setup.options.seconds = 600;
    size_t sure = 0;
    const TuneResult result = tune(
        setup.all, setup.options,
        {setup.machine, setup.screen, *setup.model, setup.notebook, setup.clock,
         [&](const Progress& progress) {
           int count = 0;
           if (std::sscanf(progress.doing.c_str(), "confirming %d cand", &count) == 1 ||
               std::sscanf(progress.doing.c_str(), "confirming what was found for %d kernel", &count) == 1)
             sure += static_cast<size_t>(count);
         }});
    decisions += sure;
    accepted += result.accepted;
    ASSERT_LT(seed, 400U) << "too few decisions: " << decisions;
  }
  EXPECT_LE(accepted * 1000, 50 * decisions) << accepted << " of " << decisions;
}

TEST(Tuner, WhereNothingIsFasterTheResultIsHardlyEverAnotherProgram) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    MadeUpRun setup(
        5, [](size_t, const Decision&) { return 1.0; }, seed);
    changed += setup.run().whole ? 1 : 0;
  }
  EXPECT_LE(changed, 3);
}

/// Every other candidate is a loss; nothing that is a loss comes out.
TEST(Tuner, NeverEndsWithALoss) {
  const Truth truth = [](size_t task, const Decision& decision) {
    const size_t hash = std::hash<std::string>()(to_string(decision)) + task;
    return decision == small_space().proposed.front() ? 1.0 : 0.97 + 0.01 * static_cast<double>(hash % 8);
  };
  for (uint64_t seed = 0; seed < 20; ++seed) {
    MadeUpRun setup(6, truth, seed);
    const TuneResult result = setup.run();
    EXPECT_LE(true_ratio(setup, result, truth), 1.003) << seed;
  }
}

/// One in ten of each kind.
std::optional<Outcome> faults(size_t task, const Decision& decision) {
  if (decision == small_space().proposed.front()) return std::nullopt;
  switch ((std::hash<std::string>()(to_string(decision)) + task) % 10) {
    case 0:
      return Outcome::kCrashed;
    case 1:
      return Outcome::kWrong;
    case 2:
      return Outcome::kTimedOut;
    default:
      return std::nullopt;
  }
}

TEST(Tuner, CrashesWrongResultsAndHangsAreOutcomes) {
  MadeUpRun setup(6, true_cost, 2);
  setup.machine.fault_ = faults;
  setup.options.seconds = 1000;
  const TuneResult result = setup.run();
  std::set<Outcome> seen;
  for (const auto& [outcome, count] : result.outcomes) seen.insert(outcome);
  EXPECT_THAT(seen, testing::IsSupersetOf(
                        {Outcome::kMeasured, Outcome::kCrashed, Outcome::kWrong, Outcome::kTimedOut}));
  for (size_t i = 0; i < result.choices.size(); ++i) EXPECT_EQ(faults(i, result.choices[i]), std::nullopt);
  EXPECT_LT(true_ratio(setup, result, true_cost), 0.9);
  EXPECT_FALSE(result.failures.empty());
}

TEST(Tuner, WhereAllTrialsFailTheUntunedProgramIsLeft) {
  MadeUpRun setup(3, true_cost, 2);
  setup.machine.fault_ = [](size_t, const Decision& decision) {
    return decision == small_space().proposed.front() ? std::optional<Outcome>() : Outcome::kCrashed;
  };
  const TuneResult result = setup.run();
  EXPECT_FALSE(result.whole);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(result.choices[i], setup.all[i].untuned);
}

TEST(Tuner, AMachineThatFailsNowAndThenBlamesHardlyAnyTrial) {
  MadeUpRun setup(6, true_cost, 4);
  setup.machine.flaky = 0.1;
  setup.options.seconds = 1000;
  const TuneResult result = setup.run();
  size_t failures = 0, measured = 0;
  for (const auto& [outcome, count] : result.outcomes) {
    (outcome == Outcome::kMeasured ? measured : failures) += outcome == Outcome::kMisfit ? 0 : count;
  }
  EXPECT_LE(failures * 30, measured);
  EXPECT_LT(true_ratio(setup, result, true_cost), 0.9);
}

TEST(Tuner, ATaskWithoutAChoiceIsLeftAlone) {
  MadeUpRun setup(2, true_cost, 4);
  setup.all[1].space.forms = {{"direct", {{"block", 0, false, {16}}}}};
  setup.all[1].space.proposed = {setup.all[1].untuned};
  const TuneResult result = setup.run();
  EXPECT_EQ(result.choices[1], setup.all[1].untuned);
  EXPECT_EQ(result.tasks[1].trials, 0U);
}

TEST(Tuner, AGainBelowTheSmallestThatIsAskedForIsNotTaken) {
  // All that is not untuned gains three of a hundred, exactly.
  const Truth three_percent = [](size_t, const Decision& decision) {
    return decision == small_space().proposed.front() ? 1.0 : 0.97;
  };
  MadeUpRun taken(2, three_percent, 4), left(2, three_percent, 4);
  for (MadeUpRun* run : {&taken, &left})
    run->machine.scatter = {.between = 0, .within = 1e-6, .slow_samples = 0, .loaded = 0};
  taken.options.smallest_gain = 0.01;
  left.options.smallest_gain = 0.05;
  EXPECT_GT(taken.run().accepted, 0U);
  const TuneResult result = left.run();
  EXPECT_EQ(result.accepted, 0U);
  EXPECT_FALSE(result.whole);
}

TEST(Tuner, AResumedRunGoesOnFromWhatWasConfirmed) {
  const Decision confirmed{"direct", {{"block", 24}}}, lucky{"direct", {{"block", 48}}};
  const Truth truth = [&](size_t, const Decision& decision) {
    return decision == confirmed ? 0.95 : decision == small_space().proposed.front() ? 1.0 : 1.05;
  };
  MadeUpRun setup(2, truth, 7);
  setup.machine.scatter = {.between = 0, .within = 1e-4, .slow_samples = 0, .loaded = 0};
  MemoryStore store;
  RunFacts facts;
  facts.setting = records::testing::sample_setting();
  facts.source = "a test";
  setup.notebook = Notebook(&store, facts, {});
  for (const Task& task : setup.all) {
    setup.notebook.measured(task, confirmed, task.untuned,
                            {.value = 0.95, .low = 0.94, .high = 0.96, .amount = 9.5, .base_amount = 10},
                            true);
    // A quick measurement that looked better than it was.
    setup.notebook.measured(task, lucky, task.untuned,
                            {.value = 0.9, .low = 0.8, .high = 1.1, .amount = 9, .base_amount = 10}, false);
  }
  setup.notebook.finish();
  setup.options.resume = true;
  setup.options.trials = 1;
  const TuneResult result = setup.run();
  ASSERT_TRUE(result.whole);
  for (const TaskResult& task : result.tasks) EXPECT_EQ(task.decision, confirmed);
}

/// The same work may be a part of another kernel in another network.
TEST(Tuner, WhatWasConfirmedElsewhereIsLeftOutWhereItFitsNoKernel) {
  const Decision confirmed{"direct", {{"block", 24}}};
  const Truth truth = [&](size_t, const Decision& decision) {
    return decision == confirmed ? 0.95 : decision == small_space().proposed.front() ? 1.0 : 1.05;
  };
  MadeUpRun setup(3, truth, 7);
  setup.machine.scatter = {.between = 0, .within = 1e-4, .slow_samples = 0, .loaded = 0};
  setup.machine.misfit_ = [&](size_t task, const Decision& decision) {
    return task == 1 && decision == confirmed;
  };
  MemoryStore store;
  RunFacts facts;
  facts.setting = records::testing::sample_setting();
  setup.notebook = Notebook(&store, facts, {});
  for (const Task& task : setup.all)
    setup.notebook.measured(task, confirmed, task.untuned,
                            {.value = 0.95, .low = 0.94, .high = 0.96, .amount = 9.5, .base_amount = 10},
                            true);
  setup.notebook.finish();
  setup.options.resume = true;
  setup.options.trials = 1;
  const TuneResult result = setup.run();
  ASSERT_TRUE(result.whole);
  EXPECT_EQ(result.choices[0], confirmed);
  EXPECT_EQ(result.choices[1], setup.all[1].untuned);
  EXPECT_EQ(result.choices[2], confirmed);
  EXPECT_THAT(result.failures, testing::IsEmpty());
  for (const records::Record& record : store.kept) EXPECT_EQ(record.outcome, Outcome::kMeasured);
}

TEST(Tuner, WhatWasConfirmedIsKeptBeforeTheWholeNetworkIsCompared) {
  MadeUpRun setup(3, true_cost, 7);
  MemoryStore store;
  RunFacts facts;
  facts.setting = records::testing::sample_setting();
  setup.notebook = Notebook(&store, facts, {});
  std::vector<records::Record> before;
  setup.machine.comparing = [&] {
    if (before.empty()) before = store.kept;
  };
  const TuneResult result = setup.run();
  ASSERT_TRUE(result.whole);
  for (size_t i = 0; i < 3; ++i) {
    const auto is_it = [&](const records::Record& record) {
      return record.key.work == setup.all[i].work && record.baseline == setup.all[i].untuned &&
             record.decision == result.choices[i] && record.timing &&
             record.timing->ratio == result.tasks[i].ratio->value;
    };
    ASSERT_TRUE(result.tasks[i].ratio) << i;
    EXPECT_EQ(std::ranges::count_if(before, is_it), 1) << i;
    const auto decides = [&](const records::Record& record) { return is_it(record) && record.confirmation; };
    EXPECT_EQ(std::ranges::count_if(store.kept, decides), 1) << i;
  }
  EXPECT_TRUE(std::ranges::none_of(before, &records::Record::confirmation));
}

TEST(Tuner, ANetworkWithoutTasksIsDoneAtOnce) {
  MadeUpRun setup(0, true_cost, 4);
  const TuneResult result = setup.run();
  EXPECT_EQ(result.ended, "nothing is left to try");
  EXPECT_EQ(setup.machine.measurements, 0U);
}

}  // namespace
}  // namespace gantry::tune
