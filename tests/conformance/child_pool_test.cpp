#include "host/conformance/child_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <stdexcept>

#include "host/conformance/child_messages.h"
#include "host/support/error.h"

namespace gantry::conformance {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr milliseconds kLong{60'000};

ChildEnd end_of(const std::string& script, milliseconds limit = kLong) {
  ChildEnd result;
  run_in_children(
      1, 1, limit,
      [&](size_t) {
        return std::vector<std::string>{"sh", "-c", script};
      },
      [&](size_t, const ChildEnd& end) { result = end; });
  return result;
}

TestResult described() {
  TestResult test;
  test.name = "test_x";
  test.folder = "data/test_x";
  test.operator_name = "X";
  test.opset = 18;
  return test;
}

TEST(ChildPool, EveryProcessEndsOnceWithItsOwnLines) {
  std::map<size_t, ChildEnd> ends;
  run_in_children(
      17, 4, kLong,
      [](size_t index) {
        return std::vector<std::string>{
            "sh", "-c", "echo line " + std::to_string(index) + "; exit " + std::to_string(index)};
      },
      [&](size_t index, const ChildEnd& end) { EXPECT_TRUE(ends.emplace(index, end).second); });
  ASSERT_EQ(ends.size(), 17u);
  for (const auto& [index, end] : ends) {
    EXPECT_THAT(end.lines, ElementsAre("line " + std::to_string(index)));
    EXPECT_EQ(end.exit_code, static_cast<int>(index));
    EXPECT_FALSE(end.killed);
  }
  run_in_children(0, 4, kLong, {}, {});
}

TEST(ChildPool, WhatTakesTooLongIsKilled) {
  const auto began = std::chrono::steady_clock::now();
  const ChildEnd end = end_of("echo begun; sleep 50", milliseconds(300));
  EXPECT_TRUE(end.killed);
  EXPECT_THAT(end.lines, ElementsAre("begun"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
}

TEST(ChildPool, AnErrorOfTheListenerEndsTheWork) {
  size_t started = 0;
  const auto run = [&] {
    run_in_children(
        1000, 1, kLong,
        [&](size_t) {
          ++started;
          return std::vector<std::string>{"true"};
        },
        [](size_t index, const ChildEnd&) {
          if (index == 2) throw std::runtime_error("enough");
        });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_EQ(started, 3u);
}

TEST(ChildPool, AProgramThatIsNotThereIsAnError) {
  const auto run = [] {
    run_in_children(
        3, 2, kLong, [](size_t) { return std::vector<std::string>{"no-such-program-of-gantry"}; },
        [](size_t, const ChildEnd&) {});
  };
  EXPECT_THROW(run(), Error);
}

TEST(ChildMessages, TheResultThatWasSaidCountsUnderTheNameThatIsKnown) {
  TestResult said;
  said.status = Status::kUnsupported;
  said.phase = "import";
  said.reason = "no such op: \"\n\x1b";
  said.features = {"op: X (opset 18)"};
  ChildEnd end;
  end.lines = {phase_line("import"), "not JSON", result_line(said)};
  end.seconds = 0.5;
  const auto result = judge(end, described());
  ASSERT_TRUE(result);
  EXPECT_EQ(result->name, "test_x");
  EXPECT_EQ(result->operator_name, "X");
  EXPECT_EQ(result->opset, 18);
  EXPECT_EQ(result->status, Status::kUnsupported);
  EXPECT_EQ(result->reason, said.reason);
  EXPECT_EQ(result->features, said.features);
  EXPECT_EQ(result->seconds, 0.5);
}

TEST(ChildMessages, ASignalIsACrashInThePhaseThatWasSaidLast) {
  const auto result = judge(end_of("printf '%s\\n' '{\"phase\": \"import\"}' '{\"phase\": \"compile\"}'; "
                                   "echo first >&2; echo last words >&2; kill -SEGV $$"),
                            described());
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, Status::kCrash);
  EXPECT_EQ(result->phase, "compile");
  EXPECT_EQ(result->signal, SIGSEGV);
  EXPECT_THAT(result->reason, HasSubstr("was ended by SIGSEGV in phase compile: last words"));
}

TEST(ChildMessages, AnEndWithoutAResultIsACrashAndOneInTimeATimeout) {
  const auto mute = judge(end_of("exit 3"), described());
  ASSERT_TRUE(mute);
  EXPECT_EQ(mute->status, Status::kCrash);
  EXPECT_EQ(mute->phase, "start");
  EXPECT_EQ(mute->signal, 0);
  EXPECT_THAT(mute->reason, HasSubstr("exit code 3"));
  const auto slow = judge(end_of("echo '{\"phase\": \"run\"}'; sleep 50", milliseconds(300)), described());
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->status, Status::kTimeout);
  EXPECT_EQ(slow->phase, "run");
}

TEST(ChildMessages, ABoardThatIsGoneSaysNothingOfTheTest) {
  EXPECT_FALSE(judge(end_of("echo 'no route to host' >&2; exit 2"), described()));
}

TEST(ChildMessages, LongReasonsFitIntoALine) {
  TestResult said;
  said.status = Status::kUnsupported;
  said.reason = std::string(1 << 20, 'x');
  said.features.assign(10000, "op: some op (opset 1)");
  EXPECT_LT(result_line(said).size(), size_t{64} << 10);
}

}  // namespace
}  // namespace gantry::conformance
