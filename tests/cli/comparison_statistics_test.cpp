#include "host/cli/statistics/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host/support/error.h"
#include "tests/cli/simulated_timings.h"

namespace gantry::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Share of comparisons that may err; 5 % is aimed at.
constexpr double kMayErr = 0.06;

std::string text(const Scatter& s) {
  return "between " + std::to_string(s.between) + ", within " + std::to_string(s.within) + ", correlation " +
         std::to_string(s.correlation);
}

TEST(CompareProcesses, IdenticalProgramsSeldomDiffer) {
  SimulatedTimings timings(1);
  constexpr int kTrials = 100;
  const std::vector<std::pair<int, int>> sides = {{1, 1}, {1, 2},  {1, 10}, {2, 2},
                                                  {2, 5}, {2, 10}, {5, 5},  {10, 10}};
  for (const auto& [base, other] : sides) {
    int all_claims = 0, cells = 0;
    for (double correlation : {0.0, 0.5, 0.8}) {
      for (double between : {0.005, 0.01, 0.02}) {
        for (double within : {0.005, 0.05}) {
          for (int samples : {5, 20, 100}) {
            const Scatter scatter{between, within, correlation, 0.03};
            int claims = 0;
            for (int trial = 0; trial < kTrials; ++trial) {
              claims += claims_difference(compare_processes(timings.processes(scatter, base, samples),
                                                            timings.processes(scatter, other, samples)))
                            ? 1
                            : 0;
            }
            // 500 cells are looked at: the worst of them is four deviations off by chance.
            EXPECT_LE(claims, most_of(kTrials, kMayErr) + 3)
                << base << " and " << other << " processes, " << samples << " samples, " << text(scatter);
            all_claims += claims;
            ++cells;
          }
        }
      }
    }
    EXPECT_LE(all_claims, most_of(cells * kTrials, 0.05)) << base << " and " << other << " processes";
  }
}

TEST(CompareProcesses, SpreadThatTwoProcessesHappenNotToShowIsTakenFromTheOtherSide) {
  SimulatedTimings timings(2);
  constexpr int kTrials = 2000;
  int claims = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Scatter scatter{.between = 0.02, .within = 0.005};
    claims += claims_difference(
                  compare_processes(timings.processes(scatter, 2, 10), timings.processes(scatter, 10, 10)))
                  ? 1
                  : 0;
  }
  // Welch's interval alone errs in 9.7 %.
  EXPECT_LE(claims, most_of(kTrials, 0.05));
}

TEST(CompareProcesses, TrueDifferencesAreFoundAndNamedByDirection) {
  SimulatedTimings timings(3);
  constexpr int kTrials = 200;
  const Scatter scatter{.between = 0.01, .within = 0.02, .slow_samples = 0.03};
  int slower = 0, faster = 0, covered = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto base = timings.processes(scatter, 10, 20),
               other = timings.processes(scatter, 10, 20, std::log(1.04));
    const Comparison c = compare_processes(base, other);
    slower += c.verdict == Verdict::kSlower ? 1 : 0;
    covered += c.low <= 1.04 && 1.04 <= c.high ? 1 : 0;
    faster += compare_processes(other, base).verdict == Verdict::kFaster ? 1 : 0;
  }
  EXPECT_GE(slower, 0.95 * kTrials);
  EXPECT_EQ(faster, slower);
  EXPECT_GE(covered, kTrials - most_of(kTrials, 0.05));
}

TEST(CompareProcesses, OneProcessASideNeverHasAnIntervalNarrowerThanWhatProcessesDifferBy) {
  const std::vector<ProcessSamples> base = {{std::vector<double>(50, 10.0)}},
                                    other = {{std::vector<double>(50, 10.3)}};
  const Comparison c = compare_processes(base, other);
  EXPECT_DOUBLE_EQ(c.ratio, 1.03);
  EXPECT_EQ(c.verdict, Verdict::kNotShown);
  EXPECT_LT(c.low, 1.03 * (1 - 1.9 * kAssumedProcessSpread * std::sqrt(2.0)));
  EXPECT_THAT(c.widened, Contains(Widening::kAssumedProcessSpread));
  EXPECT_EQ(compare_processes(base, std::vector<ProcessSamples>{{std::vector<double>(50, 11.0)}}).verdict,
            Verdict::kSlower);
}

TEST(CompareProcesses, ASingleProcessIsAssumedToDifferByWhatTheOtherSideShows) {
  std::vector<ProcessSamples> wild;
  for (double ms : {8.0, 9.0, 10.0, 11.0, 12.0}) wild.push_back({std::vector<double>(5, ms)});
  const std::vector<ProcessSamples> single = {{std::vector<double>(50, 10.0)}};
  const Comparison c = compare_processes(single, wild);
  // The spread of the five is 16 %: one more of them lies within 2.8 * 16 % * sqrt(1 + 1 / 5) of their mean.
  EXPECT_LT(c.low, 0.7);
  EXPECT_GT(c.high, 1.35);
}

TEST(CompareProcesses, ExtraSpreadWidensByItsQuadratureOnEachSide) {
  SimulatedTimings timings(4);
  const auto base = timings.processes({}, 10, 20), other = timings.processes({}, 10, 20);
  const Comparison plain = compare_processes(base, other), widened = compare_processes(base, other, {}, 0.05);
  EXPECT_DOUBLE_EQ(plain.ratio, widened.ratio);
  EXPECT_THAT(plain.widened, IsEmpty());
  EXPECT_THAT(widened.widened, ElementsAre(Widening::kExtraSpread));
  const double added = t_quantile(1 - 0.05 * kStoppingAllowance, 1e9) * 0.05 * std::sqrt(2.0);
  EXPECT_NEAR(std::log(widened.high / widened.low) / 2, added, 0.1 * added);
}

TEST(CompareProcesses, TheSameIsSaidOnlyWhereTheWholeIntervalLiesWithinTheSmallestEffect) {
  SimulatedTimings timings(5);
  const Scatter quiet{.between = 0.002, .within = 0.002};
  const auto base = timings.processes(quiet, 10, 10), other = timings.processes(quiet, 10, 10);
  EXPECT_EQ(compare_processes(base, other).verdict, Verdict::kSame);
  EXPECT_EQ(compare_processes(base, other, {.smallest_effect = 0.0005}).verdict, Verdict::kNotShown);
  // 0.7 % is shown, and too little to claim.
  const auto slower = timings.processes(quiet, 10, 10, std::log(1.007));
  const Comparison c = compare_processes(base, slower);
  EXPECT_GT(c.low, 1);
  EXPECT_EQ(c.verdict, c.high <= 1.01 ? Verdict::kSame : Verdict::kNotShown);
}

TEST(CompareProcesses, ImpossibleInputIsAUserError) {
  const std::vector<ProcessSamples> good = {{std::vector<double>(5, 1.0)}}, few = {{{1, 1, 1, 1}}},
                                    zero = {{std::vector<double>(5, 0.0)}};
  EXPECT_THROW(compare_processes({}, good), Error);
  EXPECT_THROW(compare_processes(few, good), Error);
  EXPECT_THROW(compare_processes(good, few), Error);
  EXPECT_THROW(compare_processes(good, zero), Error);
}

TEST(RoundRatio, IsTheMiddleOfItsPairs) {
  EXPECT_DOUBLE_EQ(round_ratio({{{2, 3}, {1, 9}, {4, 4}}}), 1.5);
  EXPECT_DOUBLE_EQ(round_ratio({{{1, 2}, {1, 8}}}), 4);  // of two the geometric mean
  EXPECT_THROW(round_ratio({}), Error);
}

TEST(CompareRounds, IdenticalProgramsSeldomDiffer) {
  SimulatedTimings timings(6);
  constexpr int kTrials = 300;
  for (int rounds : {3, 5, 8, 12, 20}) {
    for (double between : {0.005, 0.01, 0.02}) {
      for (double loaded : {0.0, 0.1, 0.5}) {
        const Scatter scatter{.between = between, .within = 0.01, .loaded = loaded};
        int claims = 0;
        for (int trial = 0; trial < kTrials; ++trial)
          claims += claims_difference(compare_rounds(timings.rounds(scatter, rounds, 10))) ? 1 : 0;
        EXPECT_LE(claims, most_of(kTrials, 0.05))
            << rounds << " rounds, loaded " << loaded << ", " << text(scatter);
      }
    }
  }
}

TEST(CompareRounds, ThreePercentAreFoundInTwelveRounds) {
  SimulatedTimings timings(7);
  constexpr int kTrials = 300;
  int slower = 0, faster = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Scatter scatter{.between = 0.01, .within = 0.02};
    slower +=
        compare_rounds(timings.rounds(scatter, 12, 10, std::log(1.03))).verdict == Verdict::kSlower ? 1 : 0;
    faster +=
        compare_rounds(timings.rounds(scatter, 12, 10, std::log(0.97))).verdict == Verdict::kFaster ? 1 : 0;
  }
  EXPECT_GE(slower, 0.95 * kTrials);
  EXPECT_GE(faster, 0.95 * kTrials);
}

// On a machine that is disturbed in stretches some rounds scatter ten times as much as others.
TEST(CompareRounds, ThreePercentAreFoundAmongRoundsThatScatterUnlike) {
  SimulatedTimings timings(11);
  constexpr int kTrials = 300;
  const double within[] = {0.006, 0.012, 0.02, 0.02, 0.06, 0.12};
  int slower = 0, claims = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    for (const double effect : {std::log(1.033), 0.0}) {
      std::vector<Round> rounds;
      for (int i = 0; i < 13; ++i) {
        const Scatter scatter{.between = 0.004, .within = within[static_cast<int>(6 * timings.uniform())]};
        rounds.push_back(timings.round(scatter, 5, effect));
      }
      const Comparison c = compare_rounds(rounds);
      if (effect == 0) claims += claims_difference(c) ? 1 : 0;
      if (effect != 0) slower += c.verdict == Verdict::kSlower ? 1 : 0;
    }
  }
  EXPECT_GE(slower, 0.95 * kTrials);
  EXPECT_LE(claims, most_of(kTrials, 0.05));
}

TEST(CompareRounds, TwoSpoiledRoundsOfTwelveDoNotDecide) {
  SimulatedTimings timings(8);
  std::vector<Round> rounds = timings.rounds({}, 12, 10, std::log(1.05));
  for (size_t i : {3, 7})
    for (SegmentPair& pair : rounds[i].pairs) pair.base_ms *= 2;
  EXPECT_EQ(compare_rounds(rounds).verdict, Verdict::kSlower);
}

TEST(CompareRounds, MediansAreThoseOfTheSidesAndTheRatioThatOfPairs) {
  // The machine slows down in the second round; the pairs do not notice.
  std::vector<Round> rounds(3);
  for (int i = 0; i < 3; ++i) {
    const double speed = i == 1 ? 3 : 1;
    for (int k = 0; k < 5; ++k) rounds[i].pairs.push_back({10 * speed, 12 * speed * (1 + 1e-4 * i)});
  }
  const Comparison c = compare_rounds(rounds);
  EXPECT_DOUBLE_EQ(c.base_median_ms, 10);
  EXPECT_NEAR(c.other_median_ms, 12, 0.01);
  EXPECT_NEAR(c.ratio, 1.2, 1e-3);
  EXPECT_EQ(c.verdict, Verdict::kSlower);
  EXPECT_EQ(c.base_processes, 3u);
  EXPECT_THAT(c.widened, ElementsAre(Widening::kFewProcesses));
}

TEST(CompareRounds, SameRoundsGiveTheSameResult) {
  SimulatedTimings timings(9);
  const auto rounds = timings.rounds({}, 8, 6);
  EXPECT_EQ(compare_rounds(rounds).low, compare_rounds(rounds).low);
  EXPECT_EQ(compare_rounds(rounds).high, compare_rounds(rounds).high);
}

TEST(CompareRounds, TooFewOrImpossibleRoundsAreUserErrors) {
  SimulatedTimings timings(10);
  auto rounds = timings.rounds({}, 3, 4);
  EXPECT_NO_THROW(compare_rounds(rounds));
  EXPECT_THROW(compare_rounds(std::span(rounds).first(2)), Error);
  rounds[1].pairs[2].other_ms = 0;
  EXPECT_THROW(compare_rounds(rounds), Error);
  rounds[1].pairs.clear();
  EXPECT_THROW(compare_rounds(rounds), Error);
}

}  // namespace
}  // namespace gantry::cli
