// What a counted run tells of its steps.
#include "device_runtime/src/step_instructions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "device_runtime/src/benchmark.h"
#include "tests/device_runtime/ready_session.h"

namespace gantry::runtime {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ready_session;
using ::testing::SizeIs;

bool counts_here() {
  return InstructionCounter::open().ok();
}

/// As many instructions for each.
[[gnu::noinline]] void turn(int64_t turns) {
  for (int64_t i = 0; i < turns; ++i) __asm__ volatile("nop");
}

constexpr int64_t kTurns = 1'000'000;

/// What so many turns execute, by one counter alone. At least two instructions each.
double instructions_of_turns() {
  Result<InstructionCounter> counter = InstructionCounter::open();
  uint64_t before = 0, after = 0;
  EXPECT_TRUE(counter->read(before));
  turn(kTurns);
  EXPECT_TRUE(counter->read(after));
  EXPECT_GE(after - before, uint64_t{2 * kTurns});
  return static_cast<double>(after - before);
}

int32_t turn_in_loop(void* done, int64_t begin, int64_t end) {
  turn((end - begin) * kTurns);
  *static_cast<std::atomic<int64_t>*>(done) += end - begin;
  return 0;
}

TEST(StepInstructions, AreOfAllThreadsAndNotOfThoseThatWait) {
  if (!counts_here()) GTEST_SKIP() << "nothing counts instructions here";
  auto pool = ThreadPool::create(2, {});
  ASSERT_TRUE(pool.ok());
  auto counts = StepInstructions::create(**pool, 3);
  ASSERT_TRUE(counts.ok()) << counts.status().message();
  counts->begin(*(*pool)->host());
  const GantryKernelHost& host = counts->host();
  std::atomic<int64_t> done{0};
  counts->begin_step(0);
  EXPECT_EQ(host.parallel_for(host.context, turn_in_loop, &done, 10), 0);
  counts->end_step();
  counts->begin_step(1);
  turn(3 * kTurns);  // the other thread spins meanwhile, then sleeps
  EXPECT_EQ(host.parallel_rounds(host.context, turn_in_loop, &done, 2, 3), 0);
  counts->end_step();
  const auto steps = counts->end();
  ASSERT_TRUE(steps.ok()) << steps.status().message();
  EXPECT_EQ(done, 16);
  ASSERT_THAT(steps.value(), SizeIs(3));
  const double turns = instructions_of_turns();
  EXPECT_NEAR(static_cast<double>(steps.value()[0]) / turns, 10, 0.2);
  EXPECT_NEAR(static_cast<double>(steps.value()[1]) / turns, 9, 0.2);
  EXPECT_EQ(steps.value()[2], 0u) << "it was not run";
}

TEST(StepInstructions, ALoopInALoopCountsOnce) {
  if (!counts_here()) GTEST_SKIP() << "nothing counts instructions here";
  auto pool = ThreadPool::create(1, {});
  auto counts = StepInstructions::create(**pool, 1);
  ASSERT_TRUE(counts.ok()) << counts.status().message();
  counts->begin(*(*pool)->host());
  struct Nested {
    const GantryKernelHost* host;
    std::atomic<int64_t> done{0};
  } nested{&counts->host()};
  const auto body = [](void* closure, int64_t begin, int64_t end) {
    auto& both = *static_cast<Nested*>(closure);
    return both.host->parallel_for(both.host->context, turn_in_loop, &both.done, 5 * (end - begin));
  };
  counts->begin_step(0);
  EXPECT_EQ(nested.host->parallel_for(nested.host->context, body, &nested, 2), 0);
  counts->end_step();
  const auto steps = counts->end();
  ASSERT_TRUE(steps.ok()) << steps.status().message();
  EXPECT_EQ(nested.done, 10);
  EXPECT_NEAR(static_cast<double>(steps.value()[0]) / instructions_of_turns(), 10, 0.2);
}

TEST(StepInstructions, OfABenchmarkAreThereOrItSaysWhyNot) {
  auto session = ready_session();
  const auto result = run_benchmark(*session, {.warmup = 1, .repeat = 1, .count_instructions = true});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result.value().samples_ms, SizeIs(1));
  if (counts_here()) {
    EXPECT_THAT(result.value().step_instructions, SizeIs(2));
    EXPECT_THAT(result.value().step_instructions, Each(Gt(0u)));
    EXPECT_THAT(result.value().instructions_problem, IsEmpty());
  } else {
    EXPECT_THAT(result.value().step_instructions, IsEmpty());
    EXPECT_THAT(result.value().instructions_problem, HasSubstr("nothing counts instructions"));
  }
}

TEST(StepInstructions, AreNotCountedUnasked) {
  auto session = ready_session();
  const auto result = run_benchmark(*session, {.warmup = 0, .repeat = 1});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result.value().step_instructions, IsEmpty());
  EXPECT_THAT(result.value().instructions_problem, IsEmpty());
}

}  // namespace
}  // namespace gantry::runtime
