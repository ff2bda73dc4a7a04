// Who builds what, of programs that a tuner wants.
#include "host/cli/build_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace gantry::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000}, kShort{20};

tune::Choices job(const std::string& form) {
  return {{Decision{form, {}}}};
}
std::string form_of(const BuildJobPtr& job) {
  return job ? job->choices.at(0).form : "none";
}
Built program() {
  return std::make_shared<const TunedProgram>();
}

TEST(BuildQueue, ThisMachineTakesEverythingWhereThereAreNoHosts) {
  BuildQueue queue;
  const auto first = queue.add(job("a")), second = queue.add(job("b"));
  for (const char* form : {"a", "b"}) {
    const BuildJobPtr taken = queue.take_here();
    EXPECT_EQ(form_of(taken), form);
    queue.finish(taken, program());
  }
  EXPECT_EQ(queue.take_here(), nullptr);
  EXPECT_TRUE(std::holds_alternative<TunedProgramPtr>(first.get()));
  EXPECT_TRUE(std::holds_alternative<TunedProgramPtr>(second.get()));
}

TEST(BuildQueue, AFreeHostComesFirst) {
  BuildQueue queue;
  auto host = std::async(std::launch::async, [&] { return queue.take_elsewhere(kLong); });
  std::this_thread::sleep_for(kShort);  // it is free now; were it late, it would take the job all the same
  const auto wanted = queue.add(job("a"));
  const BuildJobPtr taken = host.get();
  ASSERT_EQ(form_of(taken), "a");
  auto here = std::async(std::launch::async, [&] { return queue.take_here(); });
  EXPECT_EQ(here.wait_for(kShort), std::future_status::timeout) << "the job may come back";
  queue.finish(taken, program());
  EXPECT_EQ(here.get(), nullptr);
}

TEST(BuildQueue, WhatNoHostIsFreeForIsBuiltHere) {
  BuildQueue queue;
  const auto first = queue.add(job("a")), second = queue.add(job("b"));
  const BuildJobPtr elsewhere = queue.take_elsewhere(kLong);
  const BuildJobPtr here = queue.take_here();
  EXPECT_EQ(form_of(elsewhere), "a");
  EXPECT_EQ(form_of(here), "b");
  queue.finish(here, program());
  queue.finish(elsewhere, program());
  EXPECT_EQ(queue.take_here(), nullptr);
}

TEST(BuildQueue, WhatAHostHasLostIsTheNextOne) {
  BuildQueue queue;
  const auto first = queue.add(job("a")), second = queue.add(job("b"));
  queue.give_back(queue.take_elsewhere(kLong));
  const BuildJobPtr again = queue.take_elsewhere(kLong);
  EXPECT_EQ(form_of(again), "a");
  queue.finish(again, tune::Failure{});
  EXPECT_TRUE(std::holds_alternative<tune::Failure>(first.get()));
}

TEST(BuildQueue, WhatTwoHostsHaveLostIsForThisMachineAlone) {
  BuildQueue queue;
  const auto wanted = queue.add(job("a"));
  for (size_t i = 0; i < BuildQueue::kMostLost; ++i) queue.give_back(queue.take_elsewhere(kLong));
  EXPECT_EQ(queue.take_elsewhere(kShort), nullptr);
  auto host = std::async(std::launch::async, [&] { return queue.take_elsewhere(milliseconds(200)); });
  const BuildJobPtr here = queue.take_here();
  EXPECT_EQ(form_of(here), "a");
  queue.finish(here, program());
  EXPECT_EQ(host.get(), nullptr);
}

TEST(BuildQueue, WhatIsGivenBackToThisMachineIsNoHosts) {
  BuildQueue queue;
  const auto wanted = queue.add(job("a"));
  queue.give_back_here(queue.take_elsewhere(kLong));
  EXPECT_EQ(queue.take_elsewhere(kShort), nullptr);
  EXPECT_EQ(form_of(queue.take_here()), "a");
}

TEST(BuildQueue, AHostThatFindsNothingIsToldSo) {
  BuildQueue queue;
  EXPECT_EQ(queue.take_elsewhere(kShort), nullptr);
}

TEST(BuildQueue, WhatGoesWrongIsThrownWhereTheProgramIsUsed) {
  BuildQueue queue;
  const auto wanted = queue.add(job("a"));
  queue.fail(queue.take_here(), std::make_exception_ptr(std::runtime_error("no memory")));
  EXPECT_THROW((void)wanted.get(), std::runtime_error);
  EXPECT_EQ(queue.take_here(), nullptr);
}

TEST(BuildQueue, WhatIsNotWantedAnyMoreIsBuiltByNobody) {
  BuildQueue queue;
  const auto first = queue.add(job("a")), second = queue.add(job("b"));
  const BuildJobPtr taken = queue.take_elsewhere(kLong);
  queue.clear();
  queue.finish(taken, program());
  EXPECT_EQ(queue.take_here(), nullptr);
  EXPECT_TRUE(std::holds_alternative<TunedProgramPtr>(first.get()));
  EXPECT_THROW((void)second.get(), std::future_error);
}

TEST(BuildQueue, WhatAHostIsAtForTooLongIsBuiltHereAsWell) {
  BuildQueue queue;
  const auto late = queue.add(job("a")), other = queue.add(job("b"));
  const BuildJobPtr elsewhere = queue.take_elsewhere(kLong, milliseconds(1));
  EXPECT_EQ(form_of(elsewhere), "a");
  const BuildJobPtr first = queue.take_here();
  EXPECT_EQ(form_of(first), "b") << "what nobody is at comes first";
  queue.finish(first, program());
  const BuildJobPtr again = queue.take_here();
  EXPECT_EQ(again, elsewhere);
  queue.finish(again, program());
  EXPECT_TRUE(std::holds_alternative<TunedProgramPtr>(late.get()));
  EXPECT_EQ(queue.take_here(), nullptr) << "the host is not waited for";
  queue.finish(elsewhere, tune::Failure{});
  EXPECT_TRUE(std::holds_alternative<TunedProgramPtr>(late.get())) << "the first answer counts";
}

TEST(BuildQueue, AHostThatAnswersLateMayStillBeTheFirst) {
  BuildQueue queue;
  const auto late = queue.add(job("a"));
  const BuildJobPtr elsewhere = queue.take_elsewhere(kLong, milliseconds(0));
  const BuildJobPtr here = queue.take_here();
  EXPECT_EQ(here, elsewhere);
  queue.finish(elsewhere, tune::Failure{});
  EXPECT_TRUE(std::holds_alternative<tune::Failure>(late.get()));
  queue.fail(here, std::make_exception_ptr(std::runtime_error("no memory")));
  EXPECT_TRUE(std::holds_alternative<tune::Failure>(late.get()));
  EXPECT_EQ(queue.take_here(), nullptr);
}

TEST(BuildQueue, WhatAHostGivesBackLateIsNotBuiltTwiceHere) {
  BuildQueue queue;
  const auto late = queue.add(job("a"));
  const BuildJobPtr elsewhere = queue.take_elsewhere(kLong, milliseconds(0));
  const BuildJobPtr here = queue.take_here();
  queue.give_back(elsewhere);
  EXPECT_EQ(queue.take_elsewhere(kShort), nullptr);
  queue.finish(here, program());
  queue.give_back_here(elsewhere);
  EXPECT_EQ(queue.take_here(), nullptr);
}

TEST(BuildQueue, AHostIsNotWaitedForWhereNothingIsWantedAnyMore) {
  BuildQueue queue;
  const auto wanted = queue.add(job("a"));
  const BuildJobPtr elsewhere = queue.take_elsewhere(kLong);
  queue.clear();
  EXPECT_EQ(queue.take_here(), nullptr);
  queue.give_back(elsewhere);
  EXPECT_EQ(queue.take_here(), nullptr);
}

TEST(BuildQueue, ManyBuildersDoEachJobOnce) {
  BuildQueue queue;
  std::vector<std::shared_future<Built>> wanted;
  for (int i = 0; i < 200; ++i) wanted.push_back(queue.add(job(std::to_string(i))));
  std::atomic<int> built = 0, losses = 0;
  std::atomic<bool> over = false;
  std::vector<std::thread> hosts;
  for (int i = 0; i < 3; ++i)
    hosts.emplace_back([&] {
      while (!over) {
        const BuildJobPtr taken = queue.take_elsewhere(milliseconds(1));
        if (!taken) continue;
        if (losses++ % 5 == 0) {
          queue.give_back(taken);
        } else {
          ++built;
          queue.finish(taken, program());
        }
      }
    });
  while (const BuildJobPtr taken = queue.take_here()) {
    ++built;
    queue.finish(taken, program());
  }
  EXPECT_EQ(built, 200);
  for (const auto& one : wanted) EXPECT_EQ(one.wait_for(milliseconds(0)), std::future_status::ready);
  over = true;
  for (std::thread& host : hosts) host.join();
}

}  // namespace
}  // namespace gantry::cli
