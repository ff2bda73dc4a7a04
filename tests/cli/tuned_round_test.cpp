#include "host/cli/tuned_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/cli/trial_failure.h"
#include "tests/cli/made_up_machine.h"

namespace gantry::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Where a run takes 2 ms, in two steps.
testing::MadeUpMachine machine_of_two_steps() {
  testing::MadeUpMachine machine;
  machine.answer.statistics.median_ms = 2;
  machine.answer.kernels.resize(2);
  for (uint32_t step = 0; step < 2; ++step) {
    machine.answer.kernels[step].step = step;
    machine.answer.kernels[step].total_ms = 0.5 + step;
  }
  return machine;
}

TEST(ProfiledProcess, HasTheTimesOfItsSteps) {
  testing::MadeUpMachine machine = machine_of_two_steps();
  machine.answer.reached_deadline = true;  // a step was timed in fewer runs: its time is one all the same
  const ProfiledProcess profiled = profile_process(machine);
  EXPECT_TRUE(machine.asked.profile);
  EXPECT_DOUBLE_EQ(profiled.run_ms, 2);
  EXPECT_DOUBLE_EQ(profiled.ms_of({1}), 1.5);
  EXPECT_DOUBLE_EQ(profiled.ms_of({0, 1}), 2);
}

TEST(ProfiledProcess, WhoseDeadlineLeavesNoTimeForKernelsIsNone) {
  testing::MadeUpMachine machine = machine_of_two_steps();
  machine.answer.kernels.clear();
  machine.answer.reached_deadline = true;
  try {
    profile_process(machine);
    ADD_FAILURE() << "no kernel was timed";
  } catch (const OutOfTime& error) {
    EXPECT_EQ(error.kind(), rpc::ErrorKind::kBoard);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("pi (pi:7453): the deadline left no time to time kernels"),
                                    HasSubstr("--deadline")));
  }
}

TEST(TunedRound, ATrialWhoseKernelsWereNotTimedHasTakenTooLong) {
  using std::chrono::milliseconds;
  testing::MadeUpMachine base = machine_of_two_steps(), trial = machine_of_two_steps();
  trial.answer.kernels.clear();
  trial.answer.reached_deadline = true;
  Random random(1, "order");
  TunedRound round(base, trial, random, false);
  round.warm_up_base();
  round.warm_up_trial(milliseconds(50));
  round.time_base();
  try {
    of_trial(milliseconds(50), [&] { round.time_trial(milliseconds(50)); });
    ADD_FAILURE() << "no kernel was timed";
  } catch (const TrialFailed& failed) {
    EXPECT_EQ(failed.failure.outcome, records::Outcome::kTimedOut);
  }
}

}  // namespace
}  // namespace gantry::cli
