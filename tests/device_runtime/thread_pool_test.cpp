#include "device_runtime/src/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>

#include "device_runtime/src/affinity.h"
#include "device_runtime/src/cpu_info.h"

namespace gantry::runtime {
namespace {

using Body = std::function<int32_t(int64_t, int64_t)>;

int32_t run(ThreadPool& pool, const Body& body, int64_t count) {
  return pool.parallel_for([](void* closure, int64_t begin,
                              int64_t end) { return (*static_cast<const Body*>(closure))(begin, end); },
                           const_cast<Body*>(&body), count);
}

std::unique_ptr<ThreadPool> make_pool(int threads) {
  auto pool = ThreadPool::create(threads, {});
  EXPECT_TRUE(pool.ok()) << pool.status().message();
  return std::move(*pool);
}

TEST(ThreadPool, RunsEveryIterationOnce) {
  for (int threads : {1, 2, 3, 8}) {
    auto pool = make_pool(threads);
    for (int64_t count : {0, 1, 2, 3, 7, 8, 9, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
      const Body body = [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)].fetch_add(1);
        return 0;
      };
      EXPECT_EQ(run(*pool, body, count), 0);
      for (const auto& hit : hits)
        ASSERT_EQ(hit.load(), 1) << threads << " threads, " << count << " iterations";
    }
  }
}

int32_t run_rounds(ThreadPool& pool, const Body& body, int64_t rounds, int64_t count) {
  const auto call = [](void* closure, int64_t begin, int64_t end) {
    return (*static_cast<const Body*>(closure))(begin, end);
  };
  return pool.parallel_rounds(call, const_cast<Body*>(&body), rounds, count);
}

TEST(ThreadPool, RunsEveryIterationOfEveryRoundOnce) {
  for (int threads : {1, 2, 3, 8}) {
    auto pool = make_pool(threads);
    for (int64_t rounds : {0, 1, 2, 7, 300}) {
      for (int64_t count : {0, 1, 2, 3, 7, 28, 1000}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(rounds * count));
        const Body body = [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)].fetch_add(1);
          return 0;
        };
        EXPECT_EQ(run_rounds(*pool, body, rounds, count), 0);
        for (const auto& hit : hits)
          ASSERT_EQ(hit.load(), 1) << threads << " threads, " << rounds << " rounds of " << count;
      }
    }
  }
}

TEST(ThreadPool, GivesAThreadTheSamePartOfEveryRound) {
  auto pool = make_pool(2);
  constexpr int64_t kRounds = 5, kCount = 10;
  // Nobody helps the other before both have done all of their own.
  std::array<std::atomic<pthread_t>, kRounds * kCount> by{};
  std::atomic<int> done{0};
  const Body body = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) by[static_cast<size_t>(i)] = pthread_self();
    done += static_cast<int>(end - begin);
    const bool last_of_half = end % kCount == kCount / 2 || end % kCount == 0;
    if (end > (kRounds - 1) * kCount && last_of_half) {
      while (done < kRounds * kCount) usleep(50);
    }
    return 0;
  };
  EXPECT_EQ(run_rounds(*pool, body, kRounds, kCount), 0);
  for (int64_t i = 0; i < kRounds * kCount; ++i) {
    const int64_t in_round = i % kCount, first = in_round < kCount / 2 ? 0 : kCount / 2;
    EXPECT_EQ(by[static_cast<size_t>(i)].load(), by[static_cast<size_t>(first)].load()) << i;
  }
  EXPECT_NE(by[0].load(), by[kCount / 2].load());
}

TEST(ThreadPool, SaysWhichRangeIsTheFirstOfItsThread) {
  for (int threads : {1, 2, 3}) {
    auto pool = make_pool(threads);
    const auto is_first = [&] { return pool->host()->is_first_range(pool->host()->context) != 0; };
    std::mutex mutex;
    std::map<pthread_t, std::vector<bool>> ranges;
    const Body inner = [&](int64_t, int64_t) {
      EXPECT_TRUE(is_first()) << "a loop of its own inside another";
      return 0;
    };
    const Body body = [&](int64_t, int64_t) {
      const bool first = is_first();
      run(*pool, inner, 3);
      EXPECT_EQ(is_first(), first) << "after a loop inside";
      const std::lock_guard lock(mutex);
      ranges[pthread_self()].push_back(first);
      return 0;
    };
    for (int64_t rounds : {1, 5}) {
      ranges.clear();
      EXPECT_EQ(run_rounds(*pool, body, rounds, 64), 0);
      for (const auto& [thread, first] : ranges) {
        EXPECT_TRUE(first.front());
        EXPECT_EQ(std::count(first.begin(), first.end(), true), 1) << threads << " threads";
      }
    }
    EXPECT_EQ(run(*pool, inner, 1), 0) << "a single iteration, after a loop of many";
  }
}

TEST(ThreadPool, ReturnsTheErrorOfARound) {
  auto pool = make_pool(2);
  const Body body = [](int64_t begin, int64_t) { return begin >= 30 ? 42 : 0; };
  EXPECT_EQ(run_rounds(*pool, body, 4, 10), 42);
}

TEST(ThreadPool, SurvivesManyShortLoopsWithAndWithoutSleep) {
  auto pool = make_pool(3);
  std::atomic<int64_t> sum{0};
  const Body body = [&](int64_t begin, int64_t end) {
    sum.fetch_add(end - begin);
    return 0;
  };
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(run(*pool, body, 5), 0);
    if (i % 200 == 0) usleep(2000);
  }
  EXPECT_EQ(sum.load(), 10000);
}

TEST(ThreadPool, ReturnsTheErrorOfABody) {
  auto pool = make_pool(2);
  EXPECT_EQ(run(
                *pool, [](int64_t begin, int64_t) { return begin > 0 ? 42 : 0; }, 100),
            42);
  EXPECT_EQ(run(
                *pool, [](int64_t, int64_t) { return 0; }, 100),
            0);
}

TEST(ThreadPool, RunsALoopInsideALoopUnsplit) {
  auto pool = make_pool(2);
  std::atomic<int64_t> sum{0};
  const Body inner = [&](int64_t begin, int64_t end) {
    EXPECT_EQ(begin, 0);
    sum.fetch_add(end);
    return 0;
  };
  const Body outer = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run(*pool, inner, 10);
    return 0;
  };
  EXPECT_EQ(run(*pool, outer, 4), 0);
  EXPECT_EQ(sum.load(), 40);
}

TEST(ThreadPool, RunsEveryIterationOnceWhereTheyTakeUnlikeTimes) {
  auto pool = make_pool(3);
  for (int64_t count : {5, 100, 777}) {
    std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
    const Body body = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (i % 50 == 49) usleep(300);
        hits[static_cast<size_t>(i)].fetch_add(1);
      }
      return 0;
    };
    for (int repeat = 0; repeat < 10; ++repeat) EXPECT_EQ(run(*pool, body, count), 0);
    for (const auto& hit : hits) ASSERT_EQ(hit.load(), 10);
  }
}

TEST(ThreadPool, SharesWhatAThreadThatIsHeldUpHasNotBegun) {
  auto pool = make_pool(2);
  // Whoever takes the first iteration waits until all the others are done.
  std::atomic<int> others{0};
  constexpr int64_t kCount = 64;
  std::atomic<int64_t> held_up{0};
  const Body body = [&](int64_t begin, int64_t end) {
    if (begin != 0) {
      others.fetch_add(static_cast<int>(end - begin));
      return 0;
    }
    held_up = end;
    while (others.load() < kCount - end) usleep(50);
    return 0;
  };
  EXPECT_EQ(run(*pool, body, kCount), 0);
  EXPECT_LE(held_up.load(), kCount / 4) << "the first piece is at most half of a thread's range";
  EXPECT_EQ(others.load() + held_up.load(), kCount);
}

TEST(ThreadPool, RangesFollowTheSpeedsOfTheCores) {
  std::vector<uint32_t> bounds;
  const uint32_t alike[] = {1, 1};
  ThreadPool::partition(alike, 7, bounds);
  EXPECT_EQ(bounds, (std::vector<uint32_t>{0, 4, 7}));
  const uint32_t big_little[] = {1024, 1024, 446, 446};
  ThreadPool::partition(big_little, 128, bounds);
  EXPECT_EQ(bounds, (std::vector<uint32_t>{0, 45, 90, 109, 128}));
  ThreadPool::partition(big_little, 1, bounds);
  EXPECT_EQ(bounds, (std::vector<uint32_t>{0, 1, 1, 1, 1}));
  const uint32_t fast[] = {1u << 30, 1u << 30};
  ThreadPool::partition(fast, 32768, bounds);
  EXPECT_EQ(bounds, (std::vector<uint32_t>{0, 16384, 32768}));
}

#if defined(__x86_64__)
TEST(ThreadPool, WorkersComputeInTheCallersFloatingPointMode) {
  auto pool = make_pool(2);
  volatile float tiny = 1e-30f;
  const auto products = [&] {
    // Each iteration waits for the other, so that both threads take one.
    std::atomic<int> arrived{0};
    std::array<float, 2> results{};
    const Body body = [&](int64_t begin, int64_t) {
      arrived.fetch_add(1);
      while (arrived.load() < 2) {
      }
      results[static_cast<size_t>(begin)] = tiny * 1e-10f;
      return 0;
    };
    EXPECT_EQ(run(*pool, body, 2), 0);
    return results;
  };
  const auto denormal = products();
  EXPECT_GT(denormal[0], 0);
  EXPECT_EQ(denormal[0], denormal[1]);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | _MM_FLUSH_ZERO_ON);
  const auto flushed = products();
  _mm_setcsr(before);
  EXPECT_EQ(flushed[0], 0);
  EXPECT_EQ(flushed[1], 0);
  EXPECT_GT(products()[1], 0);
}
#endif

/// The core that each thread was on in a loop that all of them took part in.
std::vector<int> cores_in_loop(ThreadPool& pool) {
  const int threads = pool.threads();
  std::vector<int> cores(static_cast<size_t>(threads));
  std::atomic<int> arrived{0};
  const Body body = [&](int64_t begin, int64_t) {
    arrived.fetch_add(1);
    while (arrived.load() < threads) {
    }
    cores[static_cast<size_t>(begin)] = cpu_info().core_cpu(sched_getcpu());
    return 0;
  };
  EXPECT_EQ(run(pool, body, threads), 0);
  return cores;
}

TEST(ThreadPool, WorkersGiveWayToTheCaller) {
  const std::vector<int>& cores = cpu_info().core_cpus;
  if (cores.size() < 2) GTEST_SKIP() << "this process may use one core only";
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  auto pool = ThreadPool::create_on_all_cores();
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  // A pinned caller is surely where the test wants it.
  for (int core : {cores[0], cores[1], cores.back(), cores[0]}) {
    ASSERT_TRUE(pin_this_thread(core).ok());
    std::vector<int> seen = cores_in_loop(**pool);
    EXPECT_EQ(seen[0], core);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end()) << "two threads on one core";
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(ThreadPool, WorksInAForkedChild) {
  const pid_t child = fork();
  if (child == 0) {
    auto pool = make_pool(2);
    std::atomic<int64_t> sum{0};
    const Body body = [&](int64_t begin, int64_t end) {
      sum.fetch_add(end - begin);
      return 0;
    };
    run(*pool, body, 100);
    _exit(sum.load() == 100 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(ThreadPool, RefusesSenselessThreadsAndCpus) {
  EXPECT_EQ(ThreadPool::create(0, {}).status().code(), GANTRY_INVALID_ARGUMENT);
  EXPECT_EQ(ThreadPool::create(5000, {}).status().code(), GANTRY_INVALID_ARGUMENT);
  const int cpus[] = {0, 100000};
  const auto status = ThreadPool::create(2, cpus).status();
  EXPECT_EQ(status.code(), GANTRY_INVALID_ARGUMENT);
  EXPECT_NE(status.message().find("100000"), std::string::npos);
  const std::string allowed = "may use CPUs " + std::to_string(cpu_info().allowed_cpus.front());
  EXPECT_NE(status.message().find(allowed), std::string::npos) << status.message();
}

}  // namespace
}  // namespace gantry::runtime
