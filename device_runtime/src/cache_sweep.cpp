#include "device_runtime/src/cache_sweep.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>

namespace gantry::runtime {
namespace {

constexpr uint64_t kLeastBytes = uint64_t{16} << 20;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of all threads

bool same_cache(const CacheInfo& a, const CacheInfo& b) {
  return a.level == b.level && a.type == b.type && !a.shared_cpus.empty() && a.shared_cpus == b.shared_cpus;
}

uint64_t threads_on(const CacheInfo& cache, std::span<const std::vector<CacheInfo>> caches) {
  const auto sees = [&](const std::vector<CacheInfo>& core) {
    return std::any_of(core.begin(), core.end(), [&](const CacheInfo& c) { return same_cache(c, cache); });
  };
  return std::max<uint64_t>(1, static_cast<uint64_t>(std::count_if(caches.begin(), caches.end(), sees)));
}

uint64_t largest(const std::vector<CacheInfo>& core) {
  uint64_t bytes = 0;
  for (const CacheInfo& cache : core) bytes = std::max(bytes, cache.bytes);
  return bytes;
}

/// Twice the thread's part of every cache of its core.
uint64_t shared_part(const std::vector<CacheInfo>& core, std::span<const std::vector<CacheInfo>> caches) {
  if (core.empty()) return kLeastBytes;
  uint64_t bytes = 0;
  for (const CacheInfo& cache : core) {
    const uint64_t sharers = threads_on(cache, caches);
    bytes = std::max(bytes, 2 * ((cache.bytes + sharers - 1) / sharers));
  }
  return bytes;
}

uint64_t sum(const std::vector<uint64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
}

/// Distance of the words that a sweep changes: a line or less, so that no line is left out.
uint64_t find_stride() {
  const long line = sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
  return line == 32 ? 32 : 64;
}

}  // namespace

Result<std::vector<uint64_t>> plan_sweep(std::span<const std::vector<CacheInfo>> caches, uint64_t limit) {
  std::vector<uint64_t> bytes;
  for (const auto& core : caches) bytes.push_back(std::max(2 * largest(core), kLeastBytes));
  if (sum(bytes) <= limit) return bytes;
  for (size_t i = 0; i < caches.size(); ++i) bytes[i] = shared_part(caches[i], caches);
  if (sum(bytes) <= limit) return bytes;
  return failure(
      GANTRY_OUT_OF_MEMORY,
      "cold runs need %s to sweep the caches of %zu threads' cores, and %s may be used for that: use "
      "fewer threads, free memory, or measure without flushing the caches",
      byte_text(static_cast<double>(sum(bytes))).c_str(), caches.size(),
      byte_text(static_cast<double>(limit)).c_str());
}

Result<std::unique_ptr<CacheSweep>> CacheSweep::create(ThreadPool& pool) {
  std::vector<std::vector<CacheInfo>> caches;
  for (const int cpu : pool.thread_cpus()) caches.push_back(cpu < 0 ? cpu_info().caches : cpu_caches(cpu));
  const uint64_t available = available_memory_bytes().value_or(usable_memory_bytes());
  auto bytes = plan_sweep(caches, std::min(kMostBytes, available / 4));
  if (!bytes.ok()) return bytes.status();
  std::unique_ptr<CacheSweep> sweep(new CacheSweep(pool));
  sweep->bytes_ = std::move(*bytes);
  sweep->stride_ = find_stride();
  for (const uint64_t size : sweep->bytes_)
    GANTRY_TRY(sweep->buffers_.emplace_back().reserve(size, "flushing the caches"));
  // The first sweep gets the memory itself, near each thread's core, and takes far longer than the others.
  GANTRY_TRY(sweep->sweep());
  return sweep;
}

int32_t CacheSweep::sweep_part(void* self, int64_t thread, int64_t) {
  auto& sweep = *static_cast<CacheSweep*>(self);
  const auto i = static_cast<size_t>(thread);
  std::byte* data = sweep.buffers_[i].data();
  for (uint64_t at = 0; at < sweep.bytes_[i]; at += sweep.stride_) {
    auto* word = reinterpret_cast<volatile uint32_t*>(data + at);
    *word = *word + 1;
  }
  return 0;
}

Status CacheSweep::sweep() {
  if (pool_.run_on_each_thread(sweep_part, this) != 0)
    return failure(GANTRY_KERNEL_FAILED, "the caches cannot be flushed while the session runs");
  ++sweeps_;
  return Status();
}

std::span<const std::byte> CacheSweep::buffer(int thread) const {
  const auto i = static_cast<size_t>(thread);
  return {buffers_[i].data(), bytes_[i]};
}

}  // namespace gantry::runtime
