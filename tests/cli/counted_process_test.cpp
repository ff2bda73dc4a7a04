// Instructions as a tuner has them: of steps, of networks, and of machines that cannot count.
#include "host/cli/counted_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/cli/trial_failure.h"
#include "host/support/error.h"
#include "tests/cli/made_up_machine.h"

namespace gantry::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MadeUpMachine;

std::string complaint_of(MadeUpMachine& machine) {
  try {
    count_process(machine, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBoard);
    return error.what();
  }
  return "none";
}

TEST(CountedProcess, HasTheInstructionsOfItsSteps) {
  MadeUpMachine machine;
  machine.answer.step_instructions = {100, 20, 3};
  machine.answer.statistics.median_ms = 7;
  machine.answer.threads = 2;
  const CountedProcess counted = count_process(machine, std::chrono::milliseconds(50));
  EXPECT_TRUE(machine.asked.count_instructions);
  EXPECT_EQ(machine.asked.deadline, std::chrono::milliseconds(50));
  EXPECT_EQ(counted.whole(), 123);
  EXPECT_EQ(counted.of_steps({0, 2}), 103);
  EXPECT_EQ(counted.of_steps({3}), 1) << "a step that is not there";
  EXPECT_EQ(counted.run_ms, 7);
  EXPECT_EQ(counted.threads, 2);
}

TEST(CountedProcess, OfABoardThatCannotCountIsAnErrorThatNamesIt) {
  MadeUpMachine machine;
  machine.answer.instructions_problem = "nothing counts instructions there (perf_event_open: no)";
  EXPECT_EQ(
      complaint_of(machine),
      "pi (pi:7453): cannot count instructions: nothing counts instructions there (perf_event_open: no)");
  machine.answer.instructions_problem = "";  // as of a board that does not know the request
  EXPECT_THAT(complaint_of(machine),
              HasSubstr("pi (pi:7453): its gantry-device does not count instructions"));
}

TEST(CountedProcess, WhoseDeadlineLeavesNoTimeToCountIsATrialThatTookTooLong) {
  using std::chrono::milliseconds;
  MadeUpMachine machine;
  machine.answer.reached_deadline = true;
  machine.answer.instructions_problem = "the deadline left no time to count";
  try {
    of_trial(milliseconds(50), [&] { return count_process(machine, milliseconds(50)); });
    ADD_FAILURE() << "there are no counts";
  } catch (const TrialFailed& failed) {
    EXPECT_EQ(failed.failure.outcome, records::Outcome::kTimedOut);
    EXPECT_THAT(failed.failure.why, HasSubstr("pi (pi:7453): the deadline left no time to count"));
  }
  EXPECT_THROW(count_process(machine, {}), rpc::Error) << "of the base gantry-device's own deadline";
}

TEST(CountedRatio, OfOnePairHasAnIntervalWithoutAWidth) {
  const tune::Ratio ratio = ratio_of_counts({200}, {150});
  EXPECT_DOUBLE_EQ(ratio.value, 0.75);
  EXPECT_DOUBLE_EQ(ratio.low, 0.75);
  EXPECT_DOUBLE_EQ(ratio.high, 0.75);
  EXPECT_DOUBLE_EQ(ratio.base_amount, 200);
  EXPECT_DOUBLE_EQ(ratio.amount, 150);
  EXPECT_TRUE(ratio.is_gain());
}

TEST(CountedRatio, ReachesFromTheLeastToTheGreatestThatTheProcessesHave) {
  const tune::Ratio ratio = ratio_of_counts({100, 110}, {99, 101});
  EXPECT_DOUBLE_EQ(ratio.value, 100.0 / 105.0);
  EXPECT_DOUBLE_EQ(ratio.low, 0.9);
  EXPECT_DOUBLE_EQ(ratio.high, 1.01);
  EXPECT_FALSE(ratio.is_gain());
  EXPECT_THAT(ratio.base_process_amounts, ElementsAre(100, 110));
  EXPECT_THAT(ratio.process_amounts, ElementsAre(99, 101));
}

TEST(CountedBatch, HasTheRatiosOfEachTaskByItsStepsInEitherProgram) {
  // Three tasks, of which the second has two steps in the base and one in the other program.
  const std::vector<std::vector<size_t>> base = {{0}, {1, 2}, {3}}, other = {{0}, {1}, {2}};
  const CountedPair first{.base = {{100, 30, 10, 60}}, .trial = {{100, 20, 30}}};
  const CountedPair second{.base = {{100, 30, 10, 60}}, .trial = {{100, 22, 30}}};
  const tune::Batch batch =
      batch_of({first, second}, {{.task = 2, .decision = {}}, {.task = 1, .decision = {}}}, base, other);
  EXPECT_FALSE(batch.failure);
  ASSERT_EQ(batch.ratios.size(), 2u);
  EXPECT_DOUBLE_EQ(batch.ratios[0].value, 0.5);
  EXPECT_DOUBLE_EQ(batch.ratios[1].value, 21.0 / 40);
  EXPECT_DOUBLE_EQ(batch.ratios[1].low, 0.5);
  EXPECT_DOUBLE_EQ(batch.ratios[1].high, 0.55);
  EXPECT_THAT(batch.ratios[1].process_amounts, ElementsAre(20, 22));
  EXPECT_DOUBLE_EQ(batch.whole.base_amount, 200);
  EXPECT_DOUBLE_EQ(batch.whole.amount, 151);
}

TEST(CountedBatch, OfNoTrialsHasTheWholeNetwork) {
  const CountedPair pair{.base = {{100, 100}}, .trial = {{100, 50}}};
  const tune::Batch batch = batch_of({pair}, {}, {{0}, {1}}, {{0}, {1}});
  EXPECT_TRUE(batch.ratios.empty());
  EXPECT_DOUBLE_EQ(batch.whole.value, 0.75);
}

}  // namespace
}  // namespace gantry::cli
