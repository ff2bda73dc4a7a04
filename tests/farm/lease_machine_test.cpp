// A lease from wanting it to its end, beside a Slurm that the test plays.
#include "host/farm/lease_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gantry::farm {
namespace {

using ::testing::HasSubstr;
using State = LeaseMachine::State;
using Step = LeaseMachine::Step;

const SlurmError kUnreachable("sbatch failed (1): Unable to contact slurm controller", true);
const SlurmError kRefused("sbatch failed (1): Requested node configuration is not available", false);

Job job(JobId id, JobPhase phase, const std::string& comment, const std::string& state = "RUNNING") {
  Job result;
  result.id = id;
  result.phase = phase;
  result.state = state;
  result.comment = comment;
  result.node = "gw";
  return result;
}

class Lease : public ::testing::Test {
 protected:
  /// Until something is to be done; what.
  Step due() {
    now_ = std::max(now_, machine_.wakes_at());
    return machine_.next(now_);
  }
  void queue(JobId id) {
    ASSERT_EQ(due(), Step::kSubmit);
    machine_.submitted(id, now_);
  }
  void see(const std::vector<Job>& jobs) {
    ASSERT_EQ(due(), Step::kLook);
    machine_.saw(jobs, now_);
  }
  void make_ready(JobId id) {
    queue(id);
    see({job(id, JobPhase::kRunning, "gantry mine ready 10.0.0.1:7453")});
    ASSERT_EQ(machine_.state(), State::kReady);
  }
  double now_ = 100;
  LeaseMachine machine_{"mine", LeaseMachine::Bounds{}};
};

TEST_F(Lease, IsReadyWhenItsJobHasABoard) {
  queue(7);
  see({job(7, JobPhase::kPending, "gantry mine", "PENDING")});
  EXPECT_EQ(machine_.state(), State::kQueued);
  see({job(7, JobPhase::kRunning, "gantry mine")});
  EXPECT_EQ(machine_.state(), State::kQueued) << "it runs, and looks for a board";
  see({job(7, JobPhase::kRunning, "gantry mine a is held by another lease")});
  EXPECT_THAT(machine_.words(), HasSubstr("held by another"));
  see({job(6, JobPhase::kRunning, "gantry other ready x:1"),
       job(7, JobPhase::kRunning, "gantry mine ready 10.0.0.1:7453")});
  EXPECT_EQ(machine_.state(), State::kReady);
  EXPECT_EQ(machine_.address(), "10.0.0.1:7453");
}

TEST_F(Lease, AJobThatTheControllerHasForgottenIsSubmittedAgain) {
  queue(7);
  see({});
  EXPECT_EQ(machine_.state(), State::kQueued) << "squeue may lag behind sbatch";
  now_ += 10;
  see({});
  EXPECT_EQ(machine_.state(), State::kWanted);
  EXPECT_THAT(machine_.words(), HasSubstr("forgotten"));
  queue(8);
  EXPECT_EQ(machine_.submissions(), 2);
}

TEST_F(Lease, AJobThatHasGotTheNumberOfAForgottenOneIsNotTakenForIt) {
  queue(7);
  now_ += 10;
  see({job(7, JobPhase::kRunning, "gantry somebody-else ready 10.0.0.9:7453")});
  EXPECT_EQ(machine_.state(), State::kWanted);
  EXPECT_EQ(machine_.address(), "");
}

TEST_F(Lease, AControllerThatIsAwayIsWaitedFor) {
  queue(7);
  for (int i = 0; i < 600; ++i) {
    ASSERT_EQ(due(), Step::kLook);
    machine_.saw_nothing(kUnreachable, now_);
  }
  EXPECT_EQ(machine_.state(), State::kQueued);
  see({job(7, JobPhase::kRunning, "gantry mine ready 10.0.0.1:7453")});
  EXPECT_EQ(machine_.state(), State::kReady);
  EXPECT_EQ(machine_.submissions(), 1) << "nothing is queued twice";
}

TEST_F(Lease, AControllerThatStaysAwayIsGivenUp) {
  ASSERT_EQ(due(), Step::kSubmit);
  while (machine_.state() == State::kWanted && now_ < 1e5) {
    (void)due();
    machine_.submit_failed(kUnreachable, now_);
  }
  EXPECT_EQ(machine_.state(), State::kGivenUp);
  EXPECT_NEAR(now_ - 100, 1800, 10);
}

TEST_F(Lease, AControllerThatHasNeverAnsweredIsGivenUpSoon) {
  const SlurmError never("sbatch failed (1): Unable to contact slurm controller", true,
                         /*never_reached=*/true);
  while (machine_.state() == State::kWanted && now_ < 1e5) {
    (void)due();
    machine_.submit_failed(never, now_);
  }
  EXPECT_EQ(machine_.state(), State::kGivenUp);
  EXPECT_TRUE(machine_.unreachable());
  EXPECT_NEAR(now_ - 100, 60, 2);
}

TEST_F(Lease, WhatIsReadyGoesOnWithoutTheController) {
  make_ready(7);
  for (int i = 0; i < 10000; ++i) {
    (void)due();
    machine_.saw_nothing(kUnreachable, now_);
  }
  EXPECT_EQ(machine_.state(), State::kReady);
}

TEST_F(Lease, AnEndedLeaseIsOverAndCanBeWantedAgain) {
  make_ready(7);
  see({job(7, JobPhase::kEnded, "gantry mine a died: no route", "FAILED")});
  EXPECT_EQ(machine_.state(), State::kOver);
  EXPECT_EQ(machine_.next(now_ + 1e6), Step::kWait);
  EXPECT_THAT(machine_.words(), HasSubstr("a died: no route"));
  machine_.want_again(now_);
  make_ready(8);
}

TEST_F(Lease, BoardsThatAreNotWellAreTriedAgainEverLaterAndThenGivenUp) {
  std::vector<double> times;
  for (JobId id = 1; machine_.state() != State::kGivenUp && id < 100; ++id) {
    ASSERT_EQ(due(), Step::kSubmit);
    times.push_back(now_);
    machine_.submitted(id, now_);
    see({job(id, JobPhase::kEnded, "gantry mine a is not well: no route", "FAILED")});
  }
  ASSERT_EQ(times.size(), 12u);
  for (size_t i = 2; i < times.size(); ++i)
    EXPECT_GE(times[i] - times[i - 1], times[i - 1] - times[i - 2] - 1e-9);
  EXPECT_THAT(machine_.words(), HasSubstr("no route"));
}

TEST_F(Lease, WhatSlurmRefusesIsTriedAFewTimes) {
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(due(), Step::kSubmit);
    machine_.submit_failed(kRefused, now_);
  }
  EXPECT_EQ(machine_.state(), State::kGivenUp);
  EXPECT_THAT(machine_.words(), HasSubstr("not available"));
  EXPECT_FALSE(machine_.unreachable());
}

TEST(LeaseComment, RoundTripsAndOthersAreNone) {
  for (const LeaseComment& comment : {LeaseComment{"a1", "", ""}, LeaseComment{"a1", "10.0.0.1:7453", ""},
                                      LeaseComment{"a1", "", "looks for a board"}}) {
    const auto read = parse_comment(to_text(comment));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->lease, comment.lease);
    EXPECT_EQ(read->address, comment.address);
    EXPECT_EQ(read->words, comment.words);
  }
  for (const char* text : {"", "weather", "gantry"}) EXPECT_FALSE(parse_comment(text)) << text;
}

}  // namespace
}  // namespace gantry::farm
