// Changes of the network as a whole, by the tuner: layouts, products of the same data, what is kept apart.
#include <gmock/gmock.h>

#include "tests/tune/made_up_machine.h"

namespace gantry::tune {
namespace {

using testing::IsEmpty;

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

}  // namespace
}  // namespace gantry::tune
