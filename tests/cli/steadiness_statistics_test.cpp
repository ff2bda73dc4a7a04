#include "host/cli/statistics/steadiness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "host/cli/statistics/estimate.h"
#include "tests/cli/simulated_timings.h"

namespace gantry::cli {
namespace {

/// A simulated program: runs of `run_ms` in the end, times `curve` of the seconds since it began.
struct Program {
  double run_ms = 1;
  double noise = 0;  ///< of each run
  std::function<double(double)> curve = [](double) { return 1.0; };
};

/// Seconds until the detector says steady; infinite where it has not after 30 s.
double seconds_to_steady(SimulatedTimings& timings, const Program& program) {
  SteadinessDetector detector;
  double now_ms = 0;
  while (!detector.steady()) {
    if (now_ms > 30e3) return std::numeric_limits<double>::infinity();
    std::vector<double> runs;
    double window = 0;
    while (window < 50 || runs.size() < 3) {
      const double ms = program.run_ms * program.curve((now_ms + window) / 1e3);
      runs.push_back(ms * std::exp(program.noise * timings.normal()));
      window += runs.back();
    }
    now_ms += window;
    detector.add(window, median_of(runs));
  }
  return now_ms / 1e3;
}

/// By how much the median of the second after `begin` differs from the final time.
double bias_after(const Program& program, double begin) {
  std::vector<double> times;
  for (int i = 0; i < 50; ++i) times.push_back(program.curve(begin + i / 50.0));
  return std::abs(median_of(times) - 1);
}

void expect_little_bias(Program program, const std::string& what) {
  SimulatedTimings timings(1);
  constexpr int kTrials = 60;
  for (double noise : {0.005, 0.02, 0.1}) {
    for (double run_ms : {1.0, 20.0, 200.0}) {
      program.noise = noise;
      program.run_ms = run_ms;
      int biased = 0;
      for (int trial = 0; trial < kTrials; ++trial) {
        const double begin = seconds_to_steady(timings, program);
        ASSERT_LT(begin, 15) << what;
        biased += bias_after(program, begin) > 0.01 ? 1 : 0;
      }
      EXPECT_LE(biased, most_of(kTrials, 0.05))
          << what << ", noise " << noise << ", runs of " << run_ms << " ms";
    }
  }
}

TEST(SteadinessDetector, WaitsUntilAWarmUpCurveIsOver) {
  for (double height : {0.05, 0.2, 1.0}) {
    for (double seconds : {0.05, 0.2, 0.5, 1.0}) {
      Program program;
      program.curve = [=](double at) { return 1 + height * std::exp(-at / seconds); };
      expect_little_bias(program, std::to_string(height) + " for " + std::to_string(seconds) + " s");
    }
  }
}

TEST(SteadinessDetector, WaitsForAStepAfterHalfASecond) {
  for (double height : {-0.3, 0.05, 0.3, 1.0}) {
    Program program;
    program.curve = [=](double at) { return at < 0.5 ? 1 + height : 1; };
    expect_little_bias(program, std::to_string(height));
  }
}

TEST(SteadinessDetector, SaysSteadySoonWithoutNoiseAndAfterFourSecondsWithMuch) {
  SimulatedTimings timings(2);
  EXPECT_LT(seconds_to_steady(timings, {}), 0.85);
  std::vector<double> noisy;
  for (int trial = 0; trial < 100; ++trial) noisy.push_back(seconds_to_steady(timings, {20, 0.1}));
  EXPECT_LT(median_of(noisy), 4.5);
  EXPECT_LT(*std::max_element(noisy.begin(), noisy.end()), 7);
}

TEST(SteadinessDetector, IsNotSteadyWhileTimesKeepGrowing) {
  SimulatedTimings timings(3);
  Program throttling{20, 0.01};
  throttling.curve = [](double at) { return 1 + 0.05 * at; };
  EXPECT_EQ(seconds_to_steady(timings, throttling), std::numeric_limits<double>::infinity());
}

TEST(SteadinessDetector, SlowRunsNeedFiveWindows) {
  SteadinessDetector detector;
  for (int window = 0; window < 4; ++window) {
    detector.add(30e3, 10e3);
    EXPECT_FALSE(detector.steady());
  }
  detector.add(30e3, 10e3);
  EXPECT_TRUE(detector.steady());
}

}  // namespace
}  // namespace gantry::cli
