// Who measures on a board when, with a clock that the test sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "rpc/server/lease_queue.h"

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using SessionId = LeaseQueue::SessionId;
using Time = LeaseQueue::Time;

constexpr auto kLow = LeasePriority::kBackground, kNormal = LeasePriority::kNormal,
               kUrgent = LeasePriority::kUrgent;

/// Turns of 60 s, 15 s to give way, 10 s of rest (1 s of who never asked), 600 s of patience, measurements of
/// 100 s.
class Leases : public ::testing::Test {
 protected:
  Leases() : queue_(terms(), [this] { return ++tokens_; }) {}
  static LeaseTerms terms() {
    LeaseTerms terms;
    terms.longest_measurement = seconds(100);
    return terms;
  }
  static LeaseParty party(SessionId session) {
    return {"key" + std::to_string(session), "10.0.0.1", "bench"};
  }

  void take(SessionId session, LeasePriority priority = kNormal) {
    ASSERT_TRUE(queue_.take(session, party(session), priority, now_));
  }
  void begin(SessionId session) { queue_.begin(session, party(session), now_); }
  void end(SessionId session) { queue_.end(session, now_); }
  /// Measures for that long, and leaves no time unaccounted.
  void measure(SessionId session, milliseconds time) {
    begin(session);
    now_ += time;
    end(session);
  }
  void pass(milliseconds time) {
    now_ += time;
    queue_.advance(now_);
  }
  /// Sessions whose question has been answered since the last call.
  std::vector<SessionId> granted() {
    std::vector<SessionId> sessions;
    for (const auto& grant : queue_.take_grants()) {
      sessions.push_back(grant.session);
      token_ = grant.token;
    }
    return sessions;
  }
  std::vector<std::string> waiting() {
    std::vector<std::string> keys;
    for (const auto& place : queue_.state(0, now_).waiting) keys.push_back(place.party.key);
    return keys;
  }
  std::string holder() {
    const auto state = queue_.state(0, now_);
    return state.holder ? state.holder->party.key : "";
  }

  Time now_{seconds(1000)};
  LeaseQueue::Token tokens_ = 0, token_ = 0;
  LeaseQueue queue_;
};

TEST_F(Leases, AreGrantedInTheOrderOfArrival) {
  take(1);
  EXPECT_THAT(granted(), ElementsAre(1));
  take(2);
  pass(seconds(1));
  take(3);
  EXPECT_THAT(granted(), IsEmpty());
  EXPECT_THAT(waiting(), ElementsAre("key2", "key3"));
  queue_.release(1, now_);
  EXPECT_THAT(granted(), ElementsAre(2));
  queue_.release(2, now_);
  EXPECT_THAT(granted(), ElementsAre(3));
}

TEST_F(Leases, HigherPrioritiesComeFirst) {
  take(1);
  take(2, kLow);
  take(3, kNormal);
  take(4, kUrgent);
  EXPECT_THAT(waiting(), ElementsAre("key4", "key3", "key2"));
  granted();
  for (SessionId next : {4, 3, 2}) {
    queue_.leave(next == 4 ? 1 : next + 1, now_);
    EXPECT_THAT(granted(), ElementsAre(next));
  }
}

TEST_F(Leases, WhoMeasuresAloneHasTurnAfterTurn) {
  take(1);
  for (int i = 0; i < 100; ++i) measure(1, seconds(5));
  EXPECT_EQ(holder(), "key1");
}

TEST_F(Leases, AHolderGivesWayWhenItsTurnIsOverAndIsTheLastAgain) {
  take(1);
  take(2);
  take(3);
  granted();
  measure(1, seconds(59));
  take(1);
  EXPECT_THAT(granted(), ElementsAre(1, 1)) << "to measure, and to go on";
  measure(1, seconds(2));
  granted();
  take(1);
  EXPECT_THAT(granted(), ElementsAre(2));
  EXPECT_THAT(waiting(), ElementsAre("key3", "key1"));
}

TEST_F(Leases, AHolderThatDoesNotAskLosesTheLeaseBetweenTwoMeasurements) {
  take(1);
  take(2);
  granted();
  measure(1, seconds(74));
  EXPECT_THAT(granted(), ElementsAre(1)) << "a while after its turn it may come to a better point";
  measure(1, seconds(2));
  EXPECT_THAT(granted(), ElementsAre(1, 2));
  begin(1);
  EXPECT_THAT(granted(), IsEmpty()) << "it waits like everybody";
  queue_.release(2, now_);
  EXPECT_THAT(granted(), ElementsAre(1));
}

TEST_F(Leases, AMeasurementIsNeverCut) {
  take(1);
  begin(1);
  take(2);
  granted();
  pass(seconds(99));
  EXPECT_EQ(holder(), "key1");
  EXPECT_THAT(granted(), IsEmpty());
  end(1);
  EXPECT_THAT(granted(), ElementsAre(2));
}

TEST_F(Leases, AHolderThatRestsTooLongLosesTheLeaseOnlyToOthers) {
  take(1);
  granted();
  pass(seconds(50));
  EXPECT_EQ(holder(), "key1");
  take(2);
  EXPECT_THAT(granted(), ElementsAre(2)) << "it had rested already";
}

TEST_F(Leases, ALeaseHasAnEndEvenWhereNobodyWaits) {
  take(1);
  pass(seconds(61));
  EXPECT_EQ(holder(), "");
}

TEST_F(Leases, SomebodyOfHigherPriorityNeedNotWaitForTheTurnsEnd) {
  take(1, kLow);
  granted();
  measure(1, seconds(3));
  take(2, kNormal);
  granted();
  take(1, kLow);
  EXPECT_THAT(granted(), ElementsAre(2));
}

TEST_F(Leases, BackgroundWorkDoesNotTakeTheTurnOfWhoMeasures) {
  take(1);
  take(2, kLow);
  granted();
  for (int i = 0; i < 20; ++i) measure(1, seconds(5));
  take(1);
  EXPECT_EQ(holder(), "key1");
}

TEST_F(Leases, NobodyWaitsForEver) {
  take(1);
  take(2, kLow);
  granted();
  for (int i = 0; i < 140; ++i) {
    measure(1, seconds(5));
    take(1);
  }
  EXPECT_THAT(granted(), ::testing::Contains(2)) << "700 s count as a priority more";
}

TEST_F(Leases, SessionsThatJoinMeasureUnderTheLeaseAndWaitWithIt) {
  take(1);
  granted();
  ASSERT_TRUE(queue_.join(11, token_));
  begin(11);
  EXPECT_THAT(granted(), ElementsAre(11));
  take(2);
  end(11);
  queue_.leave(11, now_);
  EXPECT_EQ(holder(), "key1") << "a session that joined may end";
  EXPECT_FALSE(queue_.join(12, token_ + 100));
}

TEST_F(Leases, AnEndedHolderPassesTheLeaseOn) {
  take(1);
  take(2);
  granted();
  begin(1);
  granted();
  queue_.leave(1, now_);
  EXPECT_THAT(granted(), ElementsAre(2));
}

TEST_F(Leases, TheLeaseOfADeadOwnerWaitsForWhatStillMeasuresUnderIt) {
  take(1);
  granted();
  ASSERT_TRUE(queue_.join(11, token_));
  begin(11);
  take(2);
  granted();
  queue_.leave(1, now_);
  EXPECT_THAT(granted(), IsEmpty());
  end(11);
  EXPECT_THAT(granted(), ElementsAre(2));
  begin(11);
  EXPECT_EQ(waiting(), std::vector<std::string>{"key11"}) << "it has one of its own now";
}

TEST_F(Leases, AnOwnerThatTakesAnotherLeaseKeepsItWhenTheFirstOneEnds) {
  take(1);
  granted();
  ASSERT_TRUE(queue_.join(11, token_));
  begin(11);
  granted();
  queue_.release(1, now_);
  take(1);
  EXPECT_THAT(granted(), IsEmpty()) << "it waits for what still measures under the first";
  end(11);
  EXPECT_THAT(granted(), ElementsAre(1));
  begin(1);
  EXPECT_THAT(granted(), ElementsAre(1)) << "under the lease that it has";
  end(1);
  queue_.release(1, now_);
  EXPECT_EQ(holder(), "");
  EXPECT_THAT(waiting(), IsEmpty());
}

TEST_F(Leases, AnOwnerThatGivesItsLeaseBackWhileItMeasuresHoldsItUntilItHasMeasured) {
  for (const bool dies : {false, true}) {
    take(1);
    begin(1);
    take(2);
    granted();
    queue_.release(1, now_);
    EXPECT_THAT(granted(), IsEmpty()) << "it measures";
    if (dies)
      queue_.leave(1, now_);
    else
      end(1);
    EXPECT_THAT(granted(), ElementsAre(2));
    queue_.release(2, now_);
    EXPECT_EQ(holder(), "");
  }
}

TEST_F(Leases, AWaitingSessionThatEndsIsForgotten) {
  take(1);
  take(2);
  take(3);
  granted();
  queue_.leave(2, now_);
  queue_.leave(1, now_);
  EXPECT_THAT(granted(), ElementsAre(3));
}

TEST_F(Leases, AQuestionCanBeTakenBackUntilItIsAnswered) {
  take(1);
  granted();
  begin(2);
  EXPECT_TRUE(queue_.cancel(2, now_));
  EXPECT_THAT(waiting(), IsEmpty());
  EXPECT_FALSE(queue_.cancel(1, now_));
  queue_.release(1, now_);
  EXPECT_THAT(granted(), IsEmpty());
}

TEST_F(Leases, OldClientsTakeTurnsMeasurementByMeasurementWithOthers) {
  begin(1);
  begin(2);
  EXPECT_THAT(granted(), ElementsAre(1));
  pass(seconds(2));
  end(1);
  EXPECT_THAT(granted(), IsEmpty()) << "it may go on at once";
  pass(milliseconds(1001));
  EXPECT_THAT(granted(), ElementsAre(2));
}

TEST_F(Leases, WhoMeasuresForTooLongIsNamed) {
  begin(1);
  take(2);
  pass(seconds(99));
  EXPECT_THAT(queue_.overdue(now_), IsEmpty());
  ASSERT_TRUE(queue_.next_change(now_));
  now_ = *queue_.next_change(now_);
  EXPECT_THAT(queue_.overdue(now_), ElementsAre(1));
}

/// Sessions that do anything at any time: never do two measure that are not of one lease, and nobody is
/// forgotten.
TEST_F(Leases, NeverOverlapAndForgetNobody) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    LeaseQueue queue(terms(), [this] { return ++tokens_; });
    std::map<SessionId, LeaseQueue::Token> measuring;
    std::set<SessionId> asked, taken, gone;
    Time now{seconds(1000)};
    const auto hear = [&] {
      for (const auto& grant : queue.take_grants()) {
        ASSERT_EQ(asked.erase(grant.session), 1u) << "answered once, and only who asked";
        if (taken.contains(grant.session)) continue;
        for (const auto& [other, token] : measuring) ASSERT_EQ(token, grant.token) << "two measure at once";
        measuring[grant.session] = grant.token;
      }
    };
    for (int step = 0; step < 300; ++step) {
      now += milliseconds(random() % 20'000);
      queue.advance(now);
      hear();
      const SessionId session = 1 + static_cast<SessionId>(random() % 8);
      if (gone.contains(session)) continue;
      const bool idle = !asked.contains(session) && !measuring.contains(session);
      switch (random() % 6) {
        case 0:
          if (!idle) break;
          asked.insert(session);
          taken.insert(session);
          if (!queue.take(session, party(session), static_cast<LeasePriority>(random() % 3), now)) FAIL();
          hear();
          break;
        case 1:
          if (!idle) break;
          asked.insert(session);
          taken.erase(session);
          queue.begin(session, party(session), now);
          hear();
          break;
        case 2:
        case 3:
          if (measuring.erase(session) == 0) break;
          queue.end(session, now);
          hear();
          break;
        case 4:
          if (asked.contains(session) && queue.cancel(session, now)) asked.erase(session);
          hear();
          break;
        default:
          if (random() % 10 != 0) break;
          measuring.erase(session);
          asked.erase(session);
          gone.insert(session);
          queue.leave(session, now);
          hear();
      }
    }
    // Everybody stops and nobody is left waiting.
    for (int i = 0; i < 100 && !asked.empty(); ++i) {
      now += seconds(100);
      for (const auto& [session, token] : std::exchange(measuring, {})) queue.end(session, now);
      queue.advance(now);
      hear();
    }
    ASSERT_THAT(asked, IsEmpty()) << "round " << round;
  }
}

}  // namespace
}  // namespace gantry::rpc
