// The tuner against machines that are made up: what they measure scatters as real ones do, and some trials
// fail.
#include "host/tune/tuner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "host/cli/statistics/comparison.h"
#include "host/cli/statistics/estimate.h"
#include "host/support/error.h"
#include "tests/cli/simulated_timings.h"
#include "tests/records/samples.h"
#include "tests/tune/memory_store.h"
#include "tests/tune/small_space.h"

namespace gantry::tune {
namespace {

using cli::Round;
using cli::Scatter;
using cli::SimulatedTimings;
using records::Outcome;
using testing::AllOf;
using testing::Each;
using testing::Gt;
using testing::IsEmpty;

class ManualClock : public Clock {
 public:
  double seconds() const override { return now; }
  double now = 0;
};

/// What a decision of a task takes, of its untuned time: in truth.
using Truth = std::function<double(size_t task, const Decision& decision)>;
/// How a trial fails; none: it does not.
using Fault = std::function<std::optional<Outcome>(size_t task, const Decision& decision)>;

class MadeUpMachine : public Measurer {
 public:
  MadeUpMachine(size_t tasks, Truth truth, uint64_t seed, ManualClock& clock)
      : tasks_(tasks), truth_(std::move(truth)), timings_(seed), clock_(clock) {}

  Profile profile(const Choices& choices) override {
    Profile profile;
    for (size_t i = 0; i < choices.size(); ++i) profile.tasks.push_back(10 * truth_(i, choices[i]));
    profile.whole = whole_of(choices);
    return profile;
  }

  std::vector<Batch> measure(const Choices& base, const std::vector<std::vector<Trial>>& batches,
                             Effort effort) override {
    std::vector<Batch> results;
    for (const std::vector<Trial>& trials : batches) results.push_back(measure_batch(base, trials, effort));
    return results;
  }
  size_t batches_at_once() const override { return at_once; }
  std::vector<Batch> measure_whole(const Choices& base, const std::vector<Choices>& others,
                                   Effort effort) override {
    std::vector<Batch> results;
    for (const Choices& other : others) {
      std::vector<Trial> trials;
      for (size_t i = 0; i < tasks_; ++i)
        if (other[i] != base[i]) trials.push_back({i, other[i]});
      results.push_back(measure_choices(base, other, trials, effort));
    }
    whole_measurements += others.size();
    return results;
  }

  Batch measure_batch(const Choices& base, const std::vector<Trial>& trials, Effort effort) {
    Choices with = base;
    for (const Trial& trial : trials) with[trial.task] = trial.decision;
    return measure_choices(base, with, trials, effort);
  }

  /// `trials`: where the choices differ.
  Batch measure_choices(const Choices& base, const Choices& with, const std::vector<Trial>& trials,
                        Effort effort) {
    ++measurements;
    clock_.now += effort == Effort::kSure ? 8 : 1;
    Batch batch;
    for (const Trial& trial : trials) {
      if (const auto fault = fault_ ? fault_(trial.task, trial.decision) : std::nullopt)
        batch.failure = Failure{*fault, "injected"};
    }
    if (flaky > 0 && timings_.uniform() < flaky)
      batch.failure = Failure{Outcome::kCrashed, "the machine's own fault"};
    if (batch.failure) {
      if (batch.failure->outcome == Outcome::kTimedOut) clock_.now += 3;
      return batch;
    }
    for (const Trial& trial : trials)
      batch.ratios.push_back(
          ratio(truth_(trial.task, trial.decision) / truth_(trial.task, base[trial.task]), effort));
    batch.whole = ratio(whole_of(with) / whole_of(base), effort);
    return batch;
  }

  Batch compare(const Choices& base, const Choices& other, double seconds) override {
    clock_.now += seconds;
    Batch batch;
    if (other.combined && breaks_combined) batch.failure = Failure{Outcome::kWrong, "injected"};
    batch.whole = ratio(whole_of(other) / whole_of(base), Effort::kSure);
    return batch;
  }

  Scatter scatter{.between = 0.015, .within = 0.02, .slow_samples = 0, .loaded = 0.05};
  Fault fault_;
  double flaky = 0;
  double of_combined = 1;  ///< what products that are combined take of what they take apart
  bool breaks_combined = false;
  double of_apart = 1;  ///< the same of what is kept apart
  size_t at_once = 1;
  size_t measurements = 0, whole_measurements = 0;

 private:
  double whole_of(const Choices& choices) {
    // What no decision of a task changes.
    double ms = 10 * (choices.combined ? of_combined : 1) * (choices.apart.empty() ? 1 : of_apart);
    for (size_t i = 0; i < tasks_; ++i) ms += 10 * truth_(i, choices[i]);
    return ms;
  }

  /// As a machine's measurer makes them: processes with offsets of their own, segments in turns.
  Ratio ratio(double truth, Effort effort) {
    const std::vector<Round> rounds =
        timings_.rounds(scatter, effort == Effort::kSure ? 8 : 1, 4, std::log(truth));
    Ratio result;
    std::vector<double> ratios;
    for (const Round& round : rounds) {
      for (const cli::SegmentPair& pair : round.pairs) ratios.push_back(pair.other_ms / pair.base_ms);
    }
    result.value = cli::median_of(ratios);
    result.low = result.value * 0.94;
    result.high = result.value * 1.06;
    if (effort == Effort::kSure) {
      const cli::Comparison comparison = cli::compare_rounds(rounds);
      result.value = comparison.ratio;
      result.low = comparison.low;
      result.high = comparison.high;
    }
    result.base_amount = 10;
    result.amount = 10 * result.value;
    return result;
  }

  size_t tasks_;
  Truth truth_;
  SimulatedTimings timings_;
  ManualClock& clock_;
};

class MadeUpScreen : public Screen {
 public:
  std::vector<Look> look_at(size_t, const std::vector<Decision>& decisions) override {
    std::vector<Look> looks;
    for (const Decision& decision : decisions) {
      Look look;
      if (decision.knob("rows") == 5) look.misfit = "five rows fit nothing";
      look.features = {decision.form == "direct" ? 1.0F : 0.0F, float(decision.knob("block")),
                       float(decision.knob("rows")), float(decision.knob("chunk"))};
      // The analytic model sees half of it.
      look.predicted = 1e5 * std::sqrt(made_up_cost(decision));
      looks.push_back(look);
    }
    return looks;
  }
};

std::vector<Task> tasks(size_t count) {
  std::vector<Task> result;
  for (size_t i = 0; i < count; ++i) {
    Task task;
    task.work = std::string(63, 'a') + std::to_string(i);
    task.op = "conv";
    task.nodes = {"conv" + std::to_string(i)};
    task.numbers = {static_cast<int64_t>(10 * i)};
    task.space = small_space();
    task.untuned = task.space.proposed.front();
    result.push_back(std::move(task));
  }
  return result;
}

double true_cost(size_t, const Decision& decision) {
  return made_up_cost(decision) / made_up_cost(small_space().proposed.front());
}

struct MadeUpRun {
  MadeUpRun(size_t count, const Truth& truth, uint64_t seed)
      : all(tasks(count)),
        machine(count, truth, seed, clock),
        model(make_analytic_model()),
        notebook(nullptr, {}, {}) {
    options.seed = seed;
  }
  TuneResult run() { return tune(all, options, {machine, screen, *model, notebook, clock, {}}); }

  std::vector<Task> all;
  ManualClock clock;
  MadeUpMachine machine;
  MadeUpScreen screen;
  std::unique_ptr<CostModel> model;
  Notebook notebook;
  TuneOptions options;
};

/// Of the network.
double true_ratio(const MadeUpRun& setup, const TuneResult& result, const Truth& truth) {
  double tuned = 10, untuned = 10;
  for (size_t i = 0; i < setup.all.size(); ++i) {
    tuned += 10 * truth(i, result.choices[i]);
    untuned += 10 * truth(i, setup.all[i].untuned);
  }
  return tuned / untuned;
}

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

TEST(Tuner, MakesNoMoreTrialsThanItMay) {
  MadeUpRun setup(4, true_cost, 5);
  setup.options.trials = 10;
  const TuneResult result = setup.run();
  EXPECT_EQ(result.trials, 10U);
  EXPECT_EQ(result.ended, "all trials are made");
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

/// Each task may have its images otherwise, by {form=planar}.
void add_layouts(MadeUpRun& setup) {
  for (Task& task : setup.all) {
    OtherLayout layout{"images otherwise", {"planar", {{"block", 16}}}, {}};
    layout.space.forms = {{"planar", {{"block", 0, false, {8, 16, 32}}}}};
    layout.space.proposed = {layout.decision};
    task.layouts.push_back(std::move(layout));
  }
}

/// Planar kernels take that much; all others what the untuned one takes.
Truth of_planar(double cost) {
  return [cost](size_t, const Decision& decision) {
    if (decision.form != "planar") return 1.0;
    return decision.knob("block") == 32 ? 0.9 * cost : cost;
  };
}

TEST(Tuner, ALayoutByWhichTheNetworkIsFasterIsTakenAndItsKernelsAreTuned) {
  const Truth truth = of_planar(0.9);
  MadeUpRun setup(3, truth, 6);
  add_layouts(setup);
  const TuneResult result = setup.run();
  ASSERT_FALSE(result.layouts.empty());
  EXPECT_TRUE(result.layouts.back().accepted);
  EXPECT_LT(true_ratio(setup, result, truth), 0.95);
  ASSERT_TRUE(result.whole);
  EXPECT_LT(result.whole->high, 1);
  size_t tuned = 0;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(result.choices[i].form, "planar") << i;
    EXPECT_TRUE(result.tasks[i].of_network) << i;
    ASSERT_TRUE(result.tasks[i].ratio) << i;
    EXPECT_LT(result.tasks[i].ratio->high, 1) << "of the network";
    tuned += result.choices[i].knob("block") == 32 ? 1 : 0;
  }
  EXPECT_GT(tuned, 0U) << "a tenth less time is found among three blocks";
}

TEST(Tuner, ALayoutThatLosesIsLeft) {
  MadeUpRun setup(3, of_planar(1.5), 6);
  add_layouts(setup);
  const TuneResult result = setup.run();
  EXPECT_EQ(result.layouts.size(), 4U) << "of all tasks, and of each";
  for (const ChangeTrial& trial : result.layouts) EXPECT_FALSE(trial.accepted);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NE(result.choices[i].form, "planar");
    EXPECT_FALSE(result.tasks[i].of_network);
  }
}

TEST(Tuner, WhereNoLayoutIsFasterHardlyEverOneIsKept) {
  int kept = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    MadeUpRun setup(
        3, [](size_t, const Decision&) { return 1.0; }, seed);
    add_layouts(setup);
    const TuneResult result = setup.run();
    for (size_t i = 0; i < 3; ++i) {
      if (result.choices[i].form != "planar") continue;
      ++kept;
      break;
    }
  }
  EXPECT_LE(kept, 3);
}

TEST(Tuner, LayoutsThatFailChangeNothing) {
  MadeUpRun setup(2, of_planar(0.5), 6);
  add_layouts(setup);
  setup.machine.fault_ = [](size_t, const Decision& decision) {
    return decision.form == "planar" ? std::optional(Outcome::kWrong) : std::nullopt;
  };
  const TuneResult result = setup.run();
  for (const Decision& choice : result.choices) EXPECT_NE(choice.form, "planar");
  EXPECT_THAT(result.failures, testing::Contains(testing::HasSubstr("images otherwise: wrong")));
}

TEST(Tuner, LayoutsAreAmongTheTrials) {
  MadeUpRun setup(3, of_planar(1), 6);
  add_layouts(setup);
  setup.options.trials = 2;
  const TuneResult result = setup.run();
  EXPECT_EQ(result.trials, 2U);
  EXPECT_EQ(result.ended, "all trials are made");
}

TEST(Tuner, ProductsAreCombinedWhereTheNetworkIsFasterSo) {
  MadeUpRun setup(
      3, [](size_t, const Decision&) { return 1.0; }, 8);
  setup.machine.of_combined = 0.6;
  setup.options.may_combine = true;
  const TuneResult result = setup.run();
  ASSERT_TRUE(result.combined);
  EXPECT_TRUE(result.combined->accepted);
  EXPECT_TRUE(result.choices.combined);
  ASSERT_TRUE(result.whole);
  EXPECT_LT(result.whole->high, 1);
}

TEST(Tuner, ProductsStayApartWhereThatLosesFailsOrIsNotAskedFor) {
  for (const char* why : {"it loses", "it fails", "it is not asked for"}) {
    SCOPED_TRACE(why);
    MadeUpRun setup(
        3, [](size_t, const Decision&) { return 1.0; }, 8);
    setup.machine.of_combined = why == std::string("it loses") ? 1.4 : 0.6;
    setup.machine.breaks_combined = why == std::string("it fails");
    setup.options.may_combine = why != std::string("it is not asked for");
    const TuneResult result = setup.run();
    EXPECT_FALSE(result.choices.combined);
    EXPECT_EQ(result.combined.has_value(), setup.options.may_combine);
    EXPECT_FALSE(result.combined.value_or(CombinedTrial()).accepted);
  }
}

TEST(Tuner, WhereCombiningChangesNothingItIsHardlyEverKept) {
  int kept = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    MadeUpRun setup(
        2, [](size_t, const Decision&) { return 1.0; }, seed);
    setup.options.may_combine = true;
    kept += setup.run().choices.combined ? 1 : 0;
  }
  EXPECT_LE(kept, 3);
}

TEST(Tuner, ANetworkThatWasCombinedStaysSo) {
  MadeUpRun setup(
      2, [](size_t, const Decision&) { return 1.0; }, 8);
  setup.options.combined = true;
  setup.options.may_combine = true;
  const TuneResult result = setup.run();
  EXPECT_TRUE(result.choices.combined);
  EXPECT_FALSE(result.combined);
}

/// What follows each task's kernel may be one of its own.
void add_fusions(MadeUpRun& setup) {
  for (size_t i = 0; i < setup.all.size(); ++i) {
    NumberedSeparation one;
    one.edge.maker.origin = setup.all[i].nodes;
    one.edge.reader.origin = {"relu" + std::to_string(i)};
    one.maker = setup.all[i].numbers[0];
    one.reader = one.maker + 1;
    setup.all[i].fusions = {{"relu apart from conv", {one}}};
  }
}

TEST(Tuner, NodesAreKeptApartWhereTheNetworkIsFasterSo) {
  MadeUpRun setup(
      3, [](size_t, const Decision&) { return 1.0; }, 8);
  add_fusions(setup);
  setup.machine.of_apart = 0.6;
  const TuneResult result = setup.run();
  ASSERT_FALSE(result.fusions.empty());
  EXPECT_TRUE(result.fusions.back().accepted);
  EXPECT_FALSE(result.choices.apart.empty());
  ASSERT_TRUE(result.whole);
  EXPECT_LT(result.whole->high, 1);
}

TEST(Tuner, NodesStayTogetherWhereKeepingThemApartLoses) {
  MadeUpRun setup(
      3, [](size_t, const Decision&) { return 1.0; }, 8);
  add_fusions(setup);
  setup.machine.of_apart = 1.3;
  const TuneResult result = setup.run();
  EXPECT_THAT(result.fusions, testing::SizeIs(4)) << "of all tasks, and of each";
  EXPECT_THAT(result.choices.apart, IsEmpty());
}

TEST(Tuner, WhereKeepingApartChangesNothingItIsHardlyEverKept) {
  int kept = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    MadeUpRun setup(
        3, [](size_t, const Decision&) { return 1.0; }, seed);
    add_fusions(setup);
    kept += setup.run().choices.apart.empty() ? 0 : 1;
  }
  EXPECT_LE(kept, 3);
}

// --- records of the network

class NetworkRecords : public testing::Test {
 protected:
  /// A run that keeps records, of three tasks of which all decisions take the same time.
  TuneResult run(const Truth& truth, const std::function<void(MadeUpRun&)>& change, bool resume = false) {
    MadeUpRun setup(3, truth, 8);
    setup.notebook = Notebook(&store_, facts(), {});
    setup.options.resume = resume;
    change(setup);
    TuneResult result = setup.run();
    setup.notebook.finish();
    measured_ = setup.machine.whole_measurements;
    return result;
  }
  static Truth equal() {
    return [](size_t, const Decision&) { return 1.0; };
  }
  static RunFacts facts() {
    RunFacts facts;
    facts.setting = records::testing::sample_setting();
    facts.source = "a test";
    for (size_t i = 0; i < facts.network.size(); ++i)
      facts.network[i] = records::testing::sample_work(static_cast<int>(100 + i));
    return facts;
  }
  /// What decides for the question.
  std::optional<records::Record> best(NetworkQuestion question) {
    const std::string& work = facts().network[static_cast<size_t>(question)];
    return records::best_of(store_.of_work(work), facts().setting).record;
  }
  size_t count(NetworkQuestion question) {
    return store_.of_work(facts().network[static_cast<size_t>(question)]).size();
  }

  MemoryStore store_;
  size_t measured_ = 0;  ///< of the whole network, by the last run
};

TEST_F(NetworkRecords, ALayoutThatIsKeptDecidesWithAllItsNodes) {
  const TuneResult result = run(of_planar(0.8), add_layouts);
  ASSERT_EQ(result.choices[0].form, "planar");
  const auto record = best(NetworkQuestion::kLayouts);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->op, records::kNetworkOp);
  EXPECT_EQ(record->decision.form, "layouts");
  ASSERT_THAT(record->parts, testing::SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(record->parts[i].node, static_cast<int64_t>(10 * i));
    EXPECT_EQ(record->parts[i].decision, result.choices[i]) << "as it was tuned in it";
  }
}

TEST_F(NetworkRecords, WhatLosesDecidesNothing) {
  run(equal(), [](MadeUpRun& setup) {
    add_fusions(setup);
    setup.machine.of_apart = 1.3;
    setup.options.may_combine = true;
    setup.machine.of_combined = 1.3;
  });
  EXPECT_EQ(count(NetworkQuestion::kFusions), 4U);
  EXPECT_EQ(count(NetworkQuestion::kProducts), 1U);
  for (const NetworkQuestion question : network_questions()) EXPECT_FALSE(best(question));
}

TEST_F(NetworkRecords, WhatIsKeptApartOrCombinedDecides) {
  const TuneResult result = run(equal(), [](MadeUpRun& setup) {
    add_fusions(setup);
    setup.machine.of_apart = 0.5;
    setup.options.may_combine = true;
    setup.machine.of_combined = 0.5;
  });
  ASSERT_FALSE(result.choices.apart.empty());
  ASSERT_TRUE(result.choices.combined);
  const auto apart = best(NetworkQuestion::kFusions), combined = best(NetworkQuestion::kProducts);
  ASSERT_TRUE(apart);
  EXPECT_THAT(apart->parts, testing::SizeIs(result.choices.apart.size()));
  EXPECT_EQ(apart->parts[0].decision, (Decision{"apart", {{"reader", apart->parts[0].node + 1}}}));
  ASSERT_TRUE(combined);
  EXPECT_EQ(combined->decision, (Decision{"combined", {}}));
  EXPECT_EQ(combined->baseline, (Decision{"separate", {}}));
}

TEST_F(NetworkRecords, AResumedRunMeasuresNothingOfThatAgain) {
  const auto all = [](MadeUpRun& setup) {
    add_layouts(setup);
    add_fusions(setup);
    setup.machine.of_apart = 1.3;
    setup.options.may_combine = true;
    setup.machine.of_combined = 1.3;
  };
  run(of_planar(1.5), all);
  EXPECT_GE(measured_, 8U);
  const TuneResult again = run(of_planar(1.5), all, true);
  EXPECT_EQ(measured_, 0U);
  EXPECT_THAT(again.layouts, testing::SizeIs(4));
  for (const auto& tried : {again.layouts, again.fusions}) {
    for (const ChangeTrial& trial : tried) {
      EXPECT_TRUE(trial.remembered);
      EXPECT_GT(trial.whole->value, 1);
    }
  }
  ASSERT_TRUE(again.combined);
  EXPECT_TRUE(again.combined->remembered);
  EXPECT_FALSE(again.choices.combined);
}

TEST_F(NetworkRecords, WhatGainedIsConfirmedAgainByAResumedRun) {
  run(of_planar(0.8), add_layouts);
  const size_t before = count(NetworkQuestion::kLayouts);
  const TuneResult again = run(of_planar(0.8), add_layouts, true);
  EXPECT_TRUE(again.layouts.front().remembered);
  EXPECT_EQ(again.choices[0].form, "planar");
  EXPECT_GT(count(NetworkQuestion::kLayouts), before);
  EXPECT_TRUE(best(NetworkQuestion::kLayouts));
}

TEST_F(NetworkRecords, AFailureIsRememberedAndAMachinesOwnIsNone) {
  int failures = 0;
  const auto fails = [&](Outcome outcome, int times) {
    return [&, outcome, times](MadeUpRun& setup) {
      add_layouts(setup);
      setup.machine.fault_ = [&, outcome, times](size_t, const Decision& decision) -> std::optional<Outcome> {
        return decision.form == "planar" && failures++ < times ? std::optional(outcome) : std::nullopt;
      };
    };
  };
  const auto wrong = [&] {
    size_t wrong = 0;
    for (const records::Record& record : store_.of_work(facts().network[0]))
      wrong += record.outcome == Outcome::kMeasured ? 0 : 1;
    return wrong;
  };
  run(of_planar(1.2), fails(Outcome::kCrashed, 1));
  EXPECT_EQ(wrong(), 0U) << "it happened once";
  store_.kept.clear();
  run(of_planar(0.5), fails(Outcome::kWrong, 1000));
  EXPECT_GE(wrong(), 4U);
  const TuneResult again = run(of_planar(0.5), fails(Outcome::kWrong, 1000), true);
  EXPECT_EQ(measured_, 0U);
  for (const ChangeTrial& trial : again.layouts) EXPECT_TRUE(trial.failure);
}

TEST(Tuner, ANetworkWithoutTasksIsDoneAtOnce) {
  MadeUpRun setup(0, true_cost, 4);
  const TuneResult result = setup.run();
  EXPECT_EQ(result.ended, "nothing is left to try");
  EXPECT_EQ(setup.machine.measurements, 0U);
}

}  // namespace
}  // namespace gantry::tune
