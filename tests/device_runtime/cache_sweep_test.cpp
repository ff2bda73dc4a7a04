#include "device_runtime/src/cache_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstring>
#include <set>

#include "device_runtime/src/benchmark.h"
#include "tests/device_runtime/module_builder.h"
#include "tests/device_runtime/ready_session.h"

namespace gantry::runtime {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::share;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::vector<CacheInfo> core(uint64_t private_bytes, uint64_t shared_bytes, const std::string& own,
                            const std::string& group) {
  return {
      {1, "Data", 32u << 10, own}, {2, "Unified", private_bytes, own}, {3, "Unified", shared_bytes, group}};
}

TEST(CacheSweep, TakesTwiceTheLargestCacheOfEachCore) {
  const std::vector<std::vector<CacheInfo>> caches = {core(kMiB, 32 * kMiB, "0", "0-1"),
                                                      core(kMiB, 12 * kMiB, "1", "0-1")};
  EXPECT_THAT(*plan_sweep(caches, 1024 * kMiB), ElementsAre(64 * kMiB, 24 * kMiB));
}

TEST(CacheSweep, TakesEnoughWhereLittleIsKnown) {
  const std::vector<std::vector<CacheInfo>> caches = {{}, {{1, "Data", 32u << 10, "1"}}};
  EXPECT_THAT(*plan_sweep(caches, 1024 * kMiB), ElementsAre(16 * kMiB, 16 * kMiB));
}

TEST(CacheSweep, SharesTheWorkOnSharedCachesWhereMemoryIsShort) {
  // 64 cores, 8 a cache of 32 MiB: 4 GiB if each swept it alone.
  std::vector<std::vector<CacheInfo>> caches;
  for (int i = 0; i < 64; ++i)
    caches.push_back(core(kMiB, 32 * kMiB, std::to_string(i), "group " + std::to_string(i / 8)));
  auto bytes = plan_sweep(caches, 1024 * kMiB);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_THAT(*bytes, Each(8 * kMiB))
      << "eight of them are twice the cache, and each is 8 times the private one";
  // With private caches of 6 MiB these decide.
  for (auto& of_core : caches) of_core[1].bytes = 6 * kMiB;
  EXPECT_THAT(*plan_sweep(caches, 1024 * kMiB), Each(12 * kMiB));
}

TEST(CacheSweep, FailsRatherThanLeaveCachesWarm) {
  const std::vector<std::vector<CacheInfo>> caches(3, core(kMiB, 32 * kMiB, "", ""));
  const auto bytes = plan_sweep(caches, 100 * kMiB);
  EXPECT_EQ(bytes.status().code(), GANTRY_OUT_OF_MEMORY);
  EXPECT_THAT(bytes.status().message(), HasSubstr("cold runs need 192.0 MiB"));
  EXPECT_THAT(bytes.status().message(), HasSubstr("3 threads' cores, and 100.0 MiB may be used"));
}

/// Whether every line of the thread's buffer was changed by each of the sweeps.
bool swept_all(const CacheSweep& sweep, int thread) {
  const auto buffer = sweep.buffer(thread);
  bool all = !buffer.empty();
  for (uint64_t at = 0; at < buffer.size(); at += sweep.stride()) {
    uint32_t word = 0;
    memcpy(&word, buffer.data() + at, sizeof word);
    all = all && word == sweep.sweeps();
  }
  return all;
}

TEST(CacheSweep, ChangesEveryLineOfEveryThread) {
  auto pool = ThreadPool::create(3, {});
  ASSERT_TRUE(pool.ok());
  auto sweep = CacheSweep::create(**pool);
  if (sweep.status().code() == GANTRY_OUT_OF_MEMORY) GTEST_SKIP() << sweep.status().message();
  ASSERT_TRUE(sweep.ok()) << sweep.status().message();
  ASSERT_TRUE((*sweep)->sweep().ok());
  EXPECT_EQ((*sweep)->sweeps(), 2u);
  for (int thread = 0; thread < 3; ++thread) {
    EXPECT_TRUE(swept_all(**sweep, thread)) << thread;
    uint64_t largest = 0;
    for (const CacheInfo& cache : cpu_info().caches) largest = std::max(largest, cache.bytes);
    EXPECT_GE((*sweep)->buffer(thread).size() * 3, 2 * largest);
  }
}

TEST(ThreadPool, RunsOnceOnEachThread) {
  for (const int threads : {1, 2, 5}) {
    auto pool = ThreadPool::create(threads, {});
    ASSERT_TRUE(pool.ok());
    for (int round = 0; round < 200; ++round) {
      std::vector<pthread_t> ran(static_cast<size_t>(threads));
      std::vector<int> times(static_cast<size_t>(threads));
      struct Seen {
        std::vector<pthread_t>& ran;
        std::vector<int>& times;
      } seen{ran, times};
      const auto body = [](void* closure, int64_t begin, int64_t end) {
        auto& all = *static_cast<Seen*>(closure);
        all.ran[static_cast<size_t>(begin)] = pthread_self();
        all.times[static_cast<size_t>(begin)] += static_cast<int>(end - begin);
        return int32_t{0};
      };
      ASSERT_EQ((*pool)->run_on_each_thread(body, &seen), 0);
      EXPECT_THAT(times, Each(1));
      EXPECT_EQ(std::set<pthread_t>(ran.begin(), ran.end()).size(), static_cast<size_t>(threads));
      EXPECT_EQ(ran[0], pthread_self());
      // Loops between them are dealt out by the cores' speeds again.
      std::vector<int> hits(100);
      const auto hit = [](void* closure, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          ++(*static_cast<std::vector<int>*>(closure))[static_cast<size_t>(i)];
        return int32_t{0};
      };
      ASSERT_EQ((*pool)->parallel_for(hit, &hits, 100), 0);
      ASSERT_THAT(hits, Each(1));
    }
  }
}

TEST(ThreadPool, KnowsWherePinnedThreadsAre) {
  const std::vector<int>& allowed = cpu_info().allowed_cpus;
  if (allowed.size() < 2) GTEST_SKIP() << "one CPU";
  const int cpus[] = {allowed[0], allowed[1], allowed[1]};
  auto pool = ThreadPool::create(3, cpus);
  ASSERT_TRUE(pool.ok());
  const std::vector<int> found = (*pool)->thread_cpus();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1], allowed[1]);
  EXPECT_EQ(found[2], allowed[1]);
}

TEST(Benchmark, SweepsEveryThreadsCachesBeforeEachTimedRun) {
  auto contents = ModuleContents::from_bytes(share(testing::static_module().write()));
  auto module = Module::create(std::move(*contents));
  auto session = Session::create(*module, {.threads = 2});
  ASSERT_TRUE(session.ok()) << session.status().message();
  const int64_t shape[] = {2, 3};
  auto input = (*session)->input_storage(0, shape);
  ASSERT_TRUE(input.ok());
  memset(input->data(), 0, input->size());
  BenchmarkOptions options{.warmup = 1, .number = 2, .repeat = 3, .flush_cache = true, .profile = true};
  uint32_t sweeps = 0;
  options.swept = [&](const CacheSweep& sweep) {
    // The first is that of its creation.
    EXPECT_EQ(sweep.sweeps(), ++sweeps + 1);
    for (int thread = 0; thread < 2; ++thread) EXPECT_TRUE(swept_all(sweep, thread)) << thread;
    // Each run comes after its own sweep: the output is there again, and this removes it.
    auto output = (*session)->output(0);
    ASSERT_TRUE(output.ok());
    float first = 0;
    memcpy(&first, output->data, sizeof first);
    EXPECT_EQ(first, 1);
    memset(output->data, 0, output->bytes);
  };
  auto result = run_benchmark(**session, options);
  if (result.status().code() == GANTRY_OUT_OF_MEMORY) GTEST_SKIP() << result.status().message();
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(sweeps, 2 * 3 + 3u + kTracedRuns) << "runs of samples, of the profile, and traced ones";
}

TEST(Benchmark, PeakMemoryIsThatBeforeSweepsWhereTheSessionHasRun) {
  auto session = testing::ready_session();
  ASSERT_TRUE(session->run().ok());
  const uint64_t before = peak_resident_memory_bytes();
  auto result = run_benchmark(*session, {.warmup = 0, .repeat = 3, .flush_cache = true});
  if (result.status().code() == GANTRY_OUT_OF_MEMORY) GTEST_SKIP() << result.status().message();
  ASSERT_TRUE(result.ok()) << result.status().message();
  constexpr uint64_t kBesides = 8 << 20;  // half of the least that a sweep takes
  EXPECT_LT(result->peak_resident_bytes, before + kBesides);
}

}  // namespace
}  // namespace gantry::runtime
