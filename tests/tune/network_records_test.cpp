// What the tuner keeps in records of the network as a whole, and takes from them.
#include <gmock/gmock.h>

#include "tests/records/samples.h"
#include "tests/tune/made_up_machine.h"
#include "tests/tune/memory_store.h"

namespace gantry::tune {
namespace {

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

}  // namespace
}  // namespace gantry::tune
