// A lab of 1,000 boards and 50 tuners, and smaller ones in which everything fails often.
#include "tests/farm/lab_simulation.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace gantry::farm {
namespace {

void expect_every_trial_once(const LabOptions& options, const LabResult& result) {
  EXPECT_EQ(result.lost, 0u);
  EXPECT_EQ(result.repeated, 0u);
  EXPECT_EQ(result.overlaps, 0u);
  EXPECT_EQ(result.records, options.tuners * options.trials);
}

TEST(Lab, AThousandBoardsServeFiftyTuners) {
  const LabOptions options;
  const LabResult result = simulate_lab(options);
  std::printf("%s", to_text(options, result).c_str());
  expect_every_trial_once(options, result);
  EXPECT_GT(result.controller_starts, 0u);
  EXPECT_GT(result.forgotten + result.cut_off, 0u);
}

TEST(Lab, NothingIsLostWhereEverythingFailsOften) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    LabOptions options;
    options.boards = 40;
    options.tuners = 10;
    options.most_boards = 8;
    options.trials = 1500;
    options.lease_s = 300;
    options.arrival_s = 60;
    options.board_fails_s = 3600;
    options.repair_s = 300;
    options.controller_fails_s = 300;
    options.tuner_killed_s = 600;
    options.seed = seed;
    const LabResult result = simulate_lab(options);
    if (seed == 1) std::printf("%s", to_text(options, result).c_str());
    expect_every_trial_once(options, result);
    EXPECT_GT(result.boards_died, 0u);
    EXPECT_GT(result.tuners_killed, 0u);
    EXPECT_GT(result.controller_starts, 0u);
  }
}

TEST(Lab, WhereBoardsAreFewTunersWaitAndAllFinish) {
  LabOptions options;
  options.boards = 20;
  options.tuners = 10;
  options.most_boards = 8;
  options.trials = 2000;
  options.lease_s = 900;
  const LabResult result = simulate_lab(options);
  expect_every_trial_once(options, result);
  EXPECT_GT(result.wait_p95_s, 60);
  EXPECT_GT(result.utilisation, 0.7);
}

}  // namespace
}  // namespace gantry::farm
