#include "host/tune/equal_candidates.h"

#include <gtest/gtest.h>

#include "host/support/error.h"
#include "tests/tune/made_up_machine.h"

namespace gantry::tune {
namespace {

constexpr size_t kTasks = 6;

Choices untuned_choices() {
  Choices choices;
  for (size_t i = 0; i < kTasks; ++i) choices.push_back(parse_decision("{form=a}"));
  return choices;
}

TEST(EqualCandidates, AreAcceptedAsSeldomAsTheirIntervalsSay) {
  ManualClock clock;
  MadeUpMachine machine(kTasks, [](size_t, const Decision&) { return 1.0; }, 5, clock);
  std::vector<size_t> told;
  const EqualCandidates found =
      try_equal_candidates(machine, untuned_choices(), 2000, 0,
                           [&](const EqualCandidates& now) { told.push_back(now.decisions); });
  EXPECT_EQ(found.decisions, 2000);
  EXPECT_EQ(found.networks, 334) << "all tasks in a measurement";
  EXPECT_EQ(told.size(), 334);
  EXPECT_EQ(told.at(1), kTasks);
  // Binomially distributed with 1/40: 50, and seldom more than 72.
  EXPECT_LE(found.accepted, 72);
  EXPECT_GE(found.accepted, 20) << "intervals that are wider than they should be find nothing";
  EXPECT_LE(found.networks_accepted, 19);
}

TEST(EqualCandidates, AreOfTasksThatTheTunerWouldTry) {
  ManualClock clock;
  MadeUpMachine machine(kTasks, [](size_t task, const Decision&) { return task == 0 ? 1.0 : 1e-6; }, 5, clock);
  EXPECT_EQ(try_equal_candidates(machine, untuned_choices(), 10, 0, {}).networks, 10);
}

TEST(EqualCandidates, WhatCannotBeMeasuredIsAnErrorOfTheBoard) {
  ManualClock clock;
  MadeUpMachine machine(kTasks, [](size_t, const Decision&) { return 1.0; }, 5, clock);
  machine.flaky = 1;
  try {
    try_equal_candidates(machine, untuned_choices(), 10, 0, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBoard);
    EXPECT_STREQ(error.what(), "the network as it is: the machine's own fault");
  }
}

}  // namespace
}  // namespace gantry::tune
