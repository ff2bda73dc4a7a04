#include "host/cli/statistics/median_interval.h"

#include <gtest/gtest.h>

#include <cmath>

#include "host/support/error.h"
#include "tests/cli/simulated_timings.h"

namespace gantry::cli {
namespace {

TEST(MedianInterval, HoldsTheTimeOfTheProgramNotThatOfItsProcesses) {
  SimulatedTimings timings(1);
  constexpr int kTrials = 800;
  for (int processes : {2, 3, 5, 10}) {
    int missed = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const Scatter scatter{.between = 0.02, .within = 0.01, .correlation = 0.5};
      const MedianInterval m = median_interval(timings.processes(scatter, processes, 30));
      missed += m.low_ms > 10 || m.high_ms < 10 ? 1 : 0;
    }
    EXPECT_LE(missed, most_of(kTrials, 0.05)) << processes;
  }
}

TEST(MedianInterval, IsTheGeometricMeanOfTheProcesses) {
  const MedianInterval m = median_interval(std::vector<ProcessSamples>{{{4, 4, 4}}, {{9, 1, 20}}});
  EXPECT_DOUBLE_EQ(m.median_ms, 6);
  EXPECT_EQ(m.processes, 2u);
  EXPECT_FALSE(m.blind_to_processes);
  // Two processes have one degree of freedom; the half-width is t * |log 9 - log 4| / 2.
  const double half = t_quantile(1 - 0.05 * kStoppingAllowance, 1) * std::log(9.0 / 4) / 2;
  EXPECT_NEAR(std::log(m.high_ms / m.median_ms), half, 1e-9);
  EXPECT_NEAR(std::log(m.median_ms / m.low_ms), half, 1e-9);
}

TEST(MedianInterval, OneProcessIsMarkedBlindToOthers) {
  SimulatedTimings timings(2);
  const MedianInterval m = median_interval(timings.processes({}, 1, 30));
  EXPECT_TRUE(m.blind_to_processes);
  // Processes that differ by 2 %: the normal distribution's quantile of 96 % (StopRule's allowance) is 2.05.
  const MedianInterval of_others = median_interval(timings.processes({}, 1, 30), 0.02);
  EXPECT_FALSE(of_others.blind_to_processes);
  EXPECT_GE(of_others.relative_half_width(), 2.05 * 0.02);
  EXPECT_LE(of_others.relative_half_width(), 0.1);
  EXPECT_LT(m.low_ms, m.median_ms);
  EXPECT_GT(m.high_ms, m.median_ms);
  EXPECT_THROW(median_interval({}), Error);
}

TEST(Drift, IsSeenWhereTheMachineChangesAndRarelyElsewhere) {
  SimulatedTimings timings(3);
  constexpr int kTrials = 1000;
  for (int processes : {8, 9, 16, 40}) {
    int imagined = 0, seen = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const Scatter scatter{.between = 0.01, .within = 0.02, .correlation = 0.5};
      imagined += drift_between_processes(timings.processes(scatter, processes, 30)) ? 1 : 0;
      std::vector<ProcessSamples> moved = timings.processes(scatter, processes / 2, 30);
      for (ProcessSamples& process : timings.processes(scatter, processes - processes / 2, 30, 0.05))
        moved.push_back(std::move(process));
      const std::optional<double> drift = drift_between_processes(moved);
      seen += drift && std::abs(*drift - 0.05) < 0.04 ? 1 : 0;
    }
    EXPECT_LE(imagined, most_of(kTrials, 0.01)) << processes;
    EXPECT_GE(seen, kTrials * 8 / 10) << processes;
  }
  EXPECT_FALSE(drift_between_processes(timings.processes({}, 7, 30)));
}

TEST(StopRule, EndsAQuarterAfterThePrecisionOrAtTheTimeLimit) {
  StopRule stop;
  stop.goal = 0.01;
  stop.time_limit_s = 60;
  EXPECT_FALSE(stop.after(7, 0.001, 1));  // too few to believe it
  EXPECT_FALSE(stop.after(8, 0.02, 2));
  EXPECT_FALSE(stop.after(9, 0.009, 3));  // 9 and a quarter: 12
  EXPECT_FALSE(stop.after(10, 0.011, 4));
  EXPECT_FALSE(stop.after(11, 0.011, 5));
  EXPECT_EQ(stop.after(12, 0.011, 6), StopReason::kPrecision);
  StopRule slow;
  EXPECT_FALSE(slow.after(1, 1, 59));
  EXPECT_EQ(slow.after(2, 1, 61), StopReason::kTimeLimit);
}

TEST(StopRule, ComparisonsOfIdenticalProgramsThatEndByItSeldomDiffer) {
  SimulatedTimings timings(3);
  constexpr int kTrials = 500, kMostRounds = 40;
  for (double between : {0.007, 0.015, 0.02}) {
    for (double goal : {0.01, 0.02}) {
      int claims = 0;
      for (int trial = 0; trial < kTrials; ++trial) {
        std::vector<Round> rounds = timings.rounds({.between = between, .within = 0.01}, 7, 5);
        StopRule stop;
        stop.goal = goal;
        stop.time_limit_s = kMostRounds;
        Comparison c;
        do {
          rounds.push_back(timings.round({.between = between, .within = 0.01}, 5));
          c = compare_rounds(rounds);
        } while (!stop.after(rounds.size(), c.relative_half_width(), static_cast<double>(rounds.size())));
        claims += claims_difference(c) ? 1 : 0;
      }
      EXPECT_LE(claims, most_of(kTrials, 0.05)) << between << ", goal " << goal;
    }
  }
}

}  // namespace
}  // namespace gantry::cli
