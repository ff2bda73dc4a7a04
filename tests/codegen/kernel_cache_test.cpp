#include "host/codegen/kernel_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "host/codegen/find_target.h"
#include "tests/codegen/run_kernel.h"

namespace gantry {
namespace {

namespace fs = std::filesystem;

class KernelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "gantry-cache-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) found.push_back(entry.path());
    }
    return found;
  }

  fs::path folder_;
};

KernelCache::Key numbered(uint8_t number) {
  KernelCache::Key key{};
  key[0] = number;
  return key;
}

LoopKernel scaling_kernel(const std::string& name, double factor) {
  const Expr count = int_imm(DType::kI64, 16);
  const Buffer in = argument("in", DType::kF32, count), out = argument("out", DType::kF32, count);
  const Expr i = make_var("i");
  return make_kernel(
      name, {in, out},
      for_loop(i, 0, 16, LoopKind::kSerial, store(out, i, load(in, i) * float_imm(DType::kF32, factor))));
}

TEST_F(KernelCacheTest, AnEntryIsThereForTheNextProcess) {
  KernelCache(folder_).store(numbered(1), "object code");
  const KernelCache later(folder_);
  EXPECT_EQ(later.find(numbered(1)), "object code");
  EXPECT_EQ(later.find(numbered(2)), std::nullopt);
  EXPECT_EQ(later.hits(), 1u);
  EXPECT_EQ(later.misses(), 1u);
}

TEST_F(KernelCacheTest, DamagedEntriesCountAsAbsentAndAreReplaced) {
  KernelCache cache(folder_);
  const std::string bytes(1000, 'x');
  for (int damage = 0; damage < 4; ++damage) {
    cache.store(numbered(1), bytes);
    const auto stored = files();
    ASSERT_EQ(stored.size(), 1u);
    if (damage == 0) fs::resize_file(stored[0], 500);
    if (damage == 1) fs::resize_file(stored[0], 3);
    if (damage >= 2) {
      std::fstream file(stored[0], std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(damage == 2 ? 700 : 20);
      file.put('!');
    }
    EXPECT_EQ(cache.find(numbered(1)), std::nullopt) << "damage " << damage;
  }
  cache.store(numbered(1), bytes);
  EXPECT_EQ(cache.find(numbered(1)), bytes);
}

TEST_F(KernelCacheTest, EntriesThatCannotBeReadCountAsAbsent) {
  KernelCache cache(folder_);
  cache.store(numbered(1), "bytes");
  const std::vector<fs::path> stored = files();
  ASSERT_EQ(stored.size(), 1u);
  fs::remove(stored[0]);
  fs::create_directory(stored[0]);  // opens, but fails to be read
  EXPECT_EQ(cache.find(numbered(1)), std::nullopt);
  EXPECT_EQ(cache.misses(), 1u);
}

TEST_F(KernelCacheTest, AnEntryUnderAnotherNameIsNotBelieved) {
  KernelCache cache(folder_);
  cache.store(numbered(1), "one");
  cache.store(numbered(2), "two");
  for (const fs::path& file : files()) {
    if (file.parent_path().filename() == "01")
      fs::copy_file(file, folder_ / "kernels" / "02" / file.filename(), fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(cache.find(numbered(2)), std::nullopt);
  EXPECT_EQ(cache.find(numbered(1)), "one");
}

TEST_F(KernelCacheTest, WhatWasUsedLeastRecentlyGoesFirst) {
  KernelCache cache(folder_, 10'000);
  const std::string bytes(3000, 'x');
  for (uint8_t i = 1; i <= 3; ++i) cache.store(numbered(i), bytes);
  // All were stored long ago; the first is used now.
  for (const fs::path& file : files())
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::minutes(10));
  EXPECT_TRUE(cache.find(numbered(1)).has_value());
  cache.store(numbered(4), bytes);
  cache.trim();
  EXPECT_LE(cache.usage().bytes, cache.limit_bytes());
  EXPECT_TRUE(cache.find(numbered(1)).has_value());
  EXPECT_TRUE(cache.find(numbered(4)).has_value());
  EXPECT_EQ(cache.find(numbered(2)).has_value() + cache.find(numbered(3)).has_value(), 0);
}

TEST_F(KernelCacheTest, LeftoversOfKilledProcessesGoAndOthersStay) {
  KernelCache cache(folder_);
  cache.store(numbered(1), "one");
  const fs::path old = folder_ / "kernels" / "01" / "a.partial.1",
                 young = folder_ / "kernels" / "01" / "a.partial.2";
  std::ofstream(old) << "half";
  std::ofstream(young) << "half";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  cache.trim();
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));
  EXPECT_EQ(cache.usage().entries, 1u);
}

TEST_F(KernelCacheTest, ClearRemovesAllEntries) {
  KernelCache cache(folder_);
  for (uint8_t i = 1; i <= 3; ++i) cache.store(numbered(i), "bytes");
  const KernelCache::Usage before = cache.usage();
  const KernelCache::Cleared cleared = cache.clear();
  EXPECT_EQ(cleared.removed.entries, 3u);
  EXPECT_EQ(cleared.removed.bytes, before.bytes);
  EXPECT_EQ(cleared.failed, 0u);
  EXPECT_EQ(cache.usage().entries, 0u);
  EXPECT_EQ(cache.find(numbered(1)), std::nullopt);
}

TEST_F(KernelCacheTest, ClearDoesNotFailOverWhatOthersStoreAndRemoveMeanwhile) {
  std::atomic<bool> done = false;
  std::thread other([&] {
    KernelCache cache(folder_);
    for (uint8_t i = 0; !done; ++i) {
      cache.store(numbered(i), "bytes");
      if (i % 16 == 0) cache.clear();
    }
  });
  KernelCache cache(folder_);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(cache.clear().failed, 0u);
  done = true;
  other.join();
}

TEST_F(KernelCacheTest, ClearCountsWhatItCannotRemove) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may remove everything";
  KernelCache cache(folder_);
  cache.store(numbered(1), "one");
  cache.store(numbered(2), "two");
  fs::permissions(folder_ / "kernels" / "01", fs::perms(0500));
  const KernelCache::Cleared cleared = cache.clear();
  fs::permissions(folder_ / "kernels" / "01", fs::perms(0700));
  EXPECT_EQ(cleared.removed.entries, 1u);
  EXPECT_EQ(cleared.failed, 1u);
}

TEST_F(KernelCacheTest, AFolderThatCannotBeMadeIsAnEmptyCache) {
  std::ofstream(folder_ / "file") << "not a folder";
  KernelCache cache(folder_ / "file");
  cache.store(numbered(1), "bytes");
  cache.trim();
  EXPECT_EQ(cache.find(numbered(1)), std::nullopt);
  EXPECT_EQ(cache.usage().entries, 0u);
}

TEST_F(KernelCacheTest, ProcessesThatWriteAtOnceNeverReadHalfAnEntry) {
  const auto content = [](uint8_t i) { return std::string(20'000 + 100 * i, static_cast<char>('a' + i)); };
  constexpr int kProcesses = 4;
  for (int p = 0; p < kProcesses; ++p) {
    if (fork() != 0) continue;
    KernelCache cache(folder_, 100'000);
    bool good = true;
    for (int round = 0; round < 50; ++round) {
      const auto i = static_cast<uint8_t>((round + p) % 7);
      const auto found = cache.find(numbered(i));
      good = good && (!found || *found == content(i));
      cache.store(numbered(i), content(i));
      if (round % 10 == 0) cache.trim();
    }
    _exit(good ? 0 : 1);
  }
  for (int p = 0; p < kProcesses; ++p) {
    int status = -1;
    ASSERT_GT(wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(KernelCacheTest, KeysTellKernelsTargetsAndKindsApart) {
  const Target v3 = find_target("x86-64-v3");
  const auto key = KernelCache::key_of(scaling_kernel("k", 2), v3, "object");
  EXPECT_EQ(key, KernelCache::key_of(scaling_kernel("k", 2), v3, "object"));
  EXPECT_NE(key, KernelCache::key_of(scaling_kernel("k", 2.0000005), v3, "object"));
  EXPECT_NE(key, KernelCache::key_of(scaling_kernel("other", 2), v3, "object"));
  EXPECT_NE(key, KernelCache::key_of(scaling_kernel("k", 2), find_target("x86-64-v4"), "object"));
  EXPECT_NE(key, KernelCache::key_of(scaling_kernel("k", 2), find_target("x86-64-v3+avxvnni"), "object"));
  EXPECT_NE(key, KernelCache::key_of(scaling_kernel("k", 2), v3, "text"));
}

TEST_F(KernelCacheTest, AnImageIsTheSameByteForByteWithAndWithoutIt) {
  const std::vector<LoopKernel> kernels = {scaling_kernel("k0", 2), scaling_kernel("k1", 3)};
  for (const char* name : {"x86-64-v3", "aarch64"}) {
    const Target target = find_target(name);
    KernelCache cold(folder_), warm(folder_);
    const auto without = build_image(kernels, target, 1).elf;
    EXPECT_EQ(build_image(kernels, target, 2, &cold).elf, without);
    EXPECT_EQ(cold.misses(), 2u);
    EXPECT_EQ(build_image(kernels, target, 2, &warm).elf, without);
    EXPECT_EQ(warm.hits(), 2u);
    EXPECT_EQ(warm.misses(), 0u);
  }
}

TEST_F(KernelCacheTest, TheFolderComesFromTheEnvironment) {
  const auto with = [](const char* own, const char* xdg, const char* home) {
    for (const auto& [name, value] :
         {std::pair{"GANTRY_CACHE_DIR", own}, {"XDG_CACHE_HOME", xdg}, {"HOME", home}}) {
      if (value == nullptr) {
        ::unsetenv(name);
      } else {
        ::setenv(name, value, 1);
      }
    }
    return KernelCache::default_folder().string();
  };
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  EXPECT_EQ(with("/a", "/b", "/c"), "/a");
  EXPECT_EQ(with(nullptr, "/b", "/c"), "/b/gantry");
  EXPECT_EQ(with(nullptr, "relative", "/c"), "/c/.cache/gantry");
  EXPECT_EQ(with("", nullptr, "/c"), "/c/.cache/gantry");
  EXPECT_EQ(with(nullptr, nullptr, nullptr), "");
  if (!home.empty()) ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace gantry
