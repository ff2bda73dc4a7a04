// What a traced run tells of its steps and threads.
#include "device_runtime/src/run_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "device_runtime/src/executor.h"
#include "device_runtime/src/session.h"
#include "device_runtime/src/thread_pool.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime {
namespace {

using ::testing::HasSubstr;
using testing::share;
using ::testing::SizeIs;

void spin_for(int64_t nanoseconds) {
  const int64_t end = now_ns() + nanoseconds;
  while (now_ns() < end) {
  }
}

std::unique_ptr<ThreadPool> pool_of(int threads) {
  auto pool = ThreadPool::create(threads, {});
  EXPECT_TRUE(pool.ok()) << pool.status().message();
  return std::move(*pool);
}

/// What every timeline must satisfy.
void expect_sound(const RunTimeline& timeline) {
  for (const auto& step : timeline.steps) {
    EXPECT_LE(0, step.begin_ns);
    EXPECT_LE(step.begin_ns, step.end_ns);
    EXPECT_LE(step.end_ns, timeline.run_ns);
  }
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const auto& span = timeline.spans[i];
    ASSERT_LT(span.thread, timeline.threads.size());
    ASSERT_LT(span.step, timeline.steps.size());
    EXPECT_LE(span.begin_ns, span.end_ns);
    EXPECT_GE(span.begin_ns, timeline.steps[span.step].begin_ns);
    EXPECT_LE(span.end_ns, timeline.steps[span.step].end_ns);
    if (i == 0) continue;
    const auto& before = timeline.spans[i - 1];
    EXPECT_GE(span.thread, before.thread);
    if (span.thread == before.thread) EXPECT_GE(span.begin_ns, before.end_ns);
  }
}

/// A loop of `count` iterations of that length; adds them up.
struct Work {
  std::atomic<int64_t> done{0};
  int64_t nanoseconds = 0;
  static int32_t body(void* closure, int64_t begin, int64_t end) {
    auto& work = *static_cast<Work*>(closure);
    spin_for(work.nanoseconds * (end - begin));
    work.done += end - begin;
    return 0;
  }
};

TEST(RunTrace, ShowsWhenEachThreadComputedAPartOfWhichStep) {
  auto pool = pool_of(2);
  auto trace = RunTrace::create(2, 2);
  ASSERT_TRUE(trace.ok());
  trace->begin(*pool->host());
  const GantryKernelHost& host = trace->host();
  Work first{.nanoseconds = 100'000}, second{.nanoseconds = 100'000};
  trace->begin_step(0);
  EXPECT_EQ(host.parallel_for(host.context, Work::body, &first, 40), 0);
  trace->end_step();
  trace->begin_step(1);
  EXPECT_EQ(host.parallel_rounds(host.context, Work::body, &second, 4, 10), 0);
  trace->end_step();
  const RunTimeline timeline = trace->end();
  EXPECT_EQ(first.done, 40);
  EXPECT_EQ(second.done, 40);
  expect_sound(timeline);
  ASSERT_THAT(timeline.threads, SizeIs(2));
  EXPECT_EQ(timeline.threads[1].name, "thread 1");
  int64_t computed[2] = {};
  for (const auto& span : timeline.spans) computed[span.step] += span.end_ns - span.begin_ns;
  // Every iteration lies in some thread's stretch, whoever ran it.
  EXPECT_GE(computed[0], 40 * 100'000);
  EXPECT_GE(computed[1], 40 * 100'000);
}

/// Thread 1 has one long iteration, thread 0 another, which is short, and something to do behind the loop.
/// What thread 0 computed.
std::vector<RunTimeline::Span> spans_of_a_thread_that_waits() {
  auto pool = pool_of(2);
  auto trace = RunTrace::create(2, 1);
  trace->begin(*pool->host());
  const GantryKernelHost& host = trace->host();
  std::atomic<int> begun{0};
  const auto body = [](void* closure, int64_t, int64_t) {
    auto& both = *static_cast<std::atomic<int>*>(closure);
    ++both;
    while (both < 2) {
    }
    if (ThreadPool::calling_thread() == 1) spin_for(2'000'000);
    return int32_t{0};
  };
  trace->begin_step(0);
  EXPECT_EQ(host.parallel_for(host.context, body, &begun, 2), 0);
  spin_for(500'000);
  trace->end_step();
  const RunTimeline timeline = trace->end();
  expect_sound(timeline);
  std::vector<RunTimeline::Span> own;
  for (const auto& span : timeline.spans)
    if (span.thread == 0) own.push_back(span);
  return own;
}

TEST(RunTrace, ThePausesOfTheThreadThatWaitsAreNoStretches) {
  // Where the machine takes thread 0's core away for as long as thread 1 computes, there is nothing to wait
  // for.
  const auto has_waited = [](const std::vector<RunTimeline::Span>& own) {
    return own.size() == 2 && own[1].begin_ns - own[0].end_ns >= 1'000'000;
  };
  std::vector<RunTimeline::Span> own;
  for (int attempt = 0; attempt < 100 && !has_waited(own); ++attempt) own = spans_of_a_thread_that_waits();
  ASSERT_TRUE(has_waited(own));
  EXPECT_GE(own[1].end_ns - own[1].begin_ns, 500'000);
}

TEST(RunTrace, KeepsToItsMemoryHoweverOftenAThreadPauses) {
  auto pool = pool_of(2);
  auto trace = RunTrace::create(2, 1);
  trace->begin(*pool->host());
  const GantryKernelHost& host = trace->host();
  const auto both_take_a_part = [](void* closure, int64_t, int64_t) {
    auto& begun = *static_cast<std::atomic<int>*>(closure);
    for (++begun; begun < 2;) {
    }
    spin_for(5000);
    return int32_t{0};
  };
  trace->begin_step(0);
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> begun{0};
    EXPECT_EQ(host.parallel_for(host.context, both_take_a_part, &begun, 2), 0);
    spin_for(5000);  // the other thread pauses
  }
  trace->end_step();
  const RunTimeline timeline = trace->end();
  expect_sound(timeline);
  std::vector<RunTimeline::Span> other;
  for (const auto& span : timeline.spans)
    if (span.thread == 1) other.push_back(span);
  ASSERT_THAT(other, SizeIs(RunTrace::kMostSpansOfStep));
  EXPECT_GE(other.back().end_ns - other.back().begin_ns, 12 * 10'000) << "holds the rest, with its pauses";
}

TEST(RunTrace, ALoopInALoopIsAPartOfIt) {
  auto pool = pool_of(2);
  auto trace = RunTrace::create(2, 1);
  trace->begin(*pool->host());
  struct Nested {
    const GantryKernelHost* host;
    Work work;
  } nested{&trace->host(), {}};
  nested.work.nanoseconds = 1000;
  const auto body = [](void* closure, int64_t begin, int64_t end) {
    auto& both = *static_cast<Nested*>(closure);
    for (int64_t i = begin; i < end; ++i)
      both.host->parallel_for(both.host->context, Work::body, &both.work, 3);
    return int32_t{0};
  };
  trace->begin_step(0);
  EXPECT_EQ(nested.host->parallel_for(nested.host->context, body, &nested, 8), 0);
  trace->end_step();
  expect_sound(trace->end());
  EXPECT_EQ(nested.work.done, 24);
}

TEST(RunTrace, PassesOnWhatTheHostOffersAndTheErrorsOfBodies) {
  auto pool = pool_of(2);
  auto trace = RunTrace::create(2, 1);
  trace->begin(*pool->host());
  const GantryKernelHost& host = trace->host();
  EXPECT_EQ(host.abi_version, pool->host()->abi_version);
  void* memory = host.thread_memory(host.context, 100);
  EXPECT_NE(memory, nullptr);
  EXPECT_EQ(pool->thread_memory(100), memory);
  EXPECT_EQ(host.is_first_range(host.context), 1);
  trace->begin_step(0);
  const auto fails = [](void*, int64_t, int64_t) { return int32_t{7}; };
  EXPECT_EQ(host.parallel_for(host.context, fails, nullptr, 10), 7);
  trace->end_step();
}

TEST(RunTrace, RefusesMoreThreadsAndStepsThanItHasRoomFor) {
  EXPECT_TRUE(RunTrace::create(1024, 256).ok());
  for (const auto& [threads, steps] : std::initializer_list<std::pair<int, size_t>>{
           {1024, 257}, {1, RunTrace::kMostSpans + 1}, {2, SIZE_MAX}, {0, 1}}) {
    const auto trace = RunTrace::create(threads, steps);
    EXPECT_EQ(trace.status().code(), GANTRY_INVALID_ARGUMENT);
    EXPECT_THAT(trace.status().message(), HasSubstr("too many to trace"));
  }
}

TEST(RunTrace, OfADeviceShowsItsStepsOneAfterAnother) {
  const int64_t nanoseconds[] = {300, 0, 200};
  const RunTimeline timeline = RunTrace::one_after_another(nanoseconds, "GPU");
  expect_sound(timeline);
  EXPECT_EQ(timeline.run_ns, 500);
  ASSERT_THAT(timeline.threads, SizeIs(1));
  EXPECT_EQ(timeline.threads[0].name, "GPU");
  ASSERT_THAT(timeline.steps, SizeIs(3));
  EXPECT_EQ(timeline.steps[2].begin_ns, 300);
  ASSERT_THAT(timeline.spans, SizeIs(2)) << "a step that took no time computed nothing";
  EXPECT_EQ(timeline.spans[1].step, 2u);
}

TEST(RunTrace, OfASessionHasEveryStepAndTheSameResult) {
  auto contents = ModuleContents::from_bytes(share(testing::symbolic_module().write()));
  auto module = Module::create(std::move(*contents));
  auto session = Session::create(*module, {.threads = 2});
  ASSERT_TRUE(session.ok()) << session.status().message();
  const int64_t shape[] = {500, 4};
  auto storage = (*session)->input_storage(0, shape);
  ASSERT_TRUE(storage.ok());
  auto* values = reinterpret_cast<float*>(storage->data());
  for (int i = 0; i < 2000; ++i) values[i] = static_cast<float>(i % 17);
  ASSERT_TRUE((*session)->run().ok());
  const auto result = [&] {
    auto view = (*session)->output(0);
    const auto* data = reinterpret_cast<const float*>(view->data);
    return std::vector<float>(data, data + view->bytes / sizeof(float));
  };
  const std::vector<float> expected = result();
  RunTimeline timeline;
  const Status status = (*session)->run_traced(timeline);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(result(), expected);
  expect_sound(timeline);
  ASSERT_THAT(timeline.steps, SizeIs(2));
  EXPECT_LE(timeline.steps[0].end_ns, timeline.steps[1].begin_ns);
  std::map<uint32_t, int> stretches;
  for (const auto& span : timeline.spans) ++stretches[span.step];
  EXPECT_THAT(stretches, SizeIs(2)) << "each step was computed by somebody";
}

}  // namespace
}  // namespace gantry::runtime
