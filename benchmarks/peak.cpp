// What this machine can do at most, as JSON: multiply-add throughput of each vector instruction set and of
// AMX, and the bandwidth of reading from caches and from memory, on N threads at once.
//
//   build/bin/peak [THREADS]
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "device_runtime/src/affinity.h"
#include "device_runtime/src/cpu_info.h"
#include "device_runtime/src/thread_pool.h"

namespace gantry {
namespace {

using Clock = std::chrono::steady_clock;
volatile float sink = 0;

/// Amount a second of `work`, which says how much it did, on all threads together: the best of several
/// rounds.
double best_rate(int threads, const std::function<double(int)>& work) {
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> ready = 0;
    std::vector<double> rates(static_cast<size_t>(threads));
    const auto run = [&](int index) {
      const auto& cpus = runtime::cpu_info().core_cpus;
      if (static_cast<size_t>(index) < cpus.size()) {
        (void)runtime::pin_this_thread(
            cpus[static_cast<size_t>(index)]);  // where it is refused, Linux chooses
      }
      work(index);  // warm
      ready.fetch_add(1);
      while (ready.load() < threads) {
      }
      const auto start = Clock::now();
      double amount = 0;
      std::chrono::duration<double> elapsed{};
      while (elapsed.count() < 0.02) {
        amount += work(index);
        elapsed = Clock::now() - start;
      }
      rates[static_cast<size_t>(index)] = amount / elapsed.count();
    };
    std::vector<std::thread> pool;
    for (int i = 0; i < threads; ++i) pool.emplace_back(run, i);
    for (std::thread& thread : pool) thread.join();
    double total = 0;
    for (double rate : rates) total += rate;
    best = std::max(best, total);
  }
  return best;
}

constexpr int kRepeats = 20000;
constexpr int kChains = 12;  // latency 4 times 2 to 3 ports

#if defined(__x86_64__)
__attribute__((target("avx512f"))) double fma_avx512(int) {
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_set1_ps(1);
  __m512 factor = _mm512_set1_ps(0.999F);
  for (int i = 0; i < kRepeats; ++i) {
    __asm__ volatile("" : "+v"(factor));
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm512_fmadd_ps(sum, factor, factor);
  }
  for (const auto& sum : sums) sink = sink + _mm512_cvtss_f32(sum);
  return 2.0 * 16 * kChains * kRepeats;
}

__attribute__((target("avx2,fma"))) double fma_avx2(int) {
  __m256 sums[kChains];
  for (auto& sum : sums) sum = _mm256_set1_ps(1);
  __m256 factor = _mm256_set1_ps(0.999F);
  for (int i = 0; i < kRepeats; ++i) {
    __asm__ volatile("" : "+x"(factor));
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm256_fmadd_ps(sum, factor, factor);
  }
  for (const auto& sum : sums) sink = sink + _mm256_cvtss_f32(sum);
  return 2.0 * 8 * kChains * kRepeats;
}

__attribute__((target("avx512f,avx512bf16"))) double dot_avx512(int) {
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_set1_ps(1);
  auto factor = (__m512bh)_mm512_set1_epi32(0x3c003c00);
  for (int i = 0; i < kRepeats; ++i) {
    __asm__ volatile("" : "+v"(factor));
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, factor, factor);
  }
  for (const auto& sum : sums) sink = sink + _mm512_cvtss_f32(sum);
  return 4.0 * 16 * kChains * kRepeats;
}

// Four sums of 16x16, two tiles of each operand: registers only.
__attribute__((target("amx-tile,amx-bf16"))) double dot_amx(int) {
  alignas(64) uint8_t config[64] = {1};
  for (int tile = 0; tile < 8; ++tile) {
    config[16 + 2 * tile] = 64;
    config[48 + tile] = 16;
  }
  __asm__ volatile("" ::"r"(config) : "memory");  // the intrinsic claims to read 8 bytes only
  _tile_loadconfig(config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int i = 0; i < kRepeats / 10; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 4.0 * 2 * 16 * 16 * 32 * (kRepeats / 10);
}
#elif defined(__aarch64__)
double fma_neon(int) {
  constexpr int kSums = 16;
  float32x4_t sums[kSums];
  for (auto& sum : sums) sum = vdupq_n_f32(1);
  float32x4_t factor = vdupq_n_f32(0.999F);
  for (int i = 0; i < kRepeats; ++i) {
    __asm__ volatile("" : "+w"(factor));
#pragma GCC unroll 16
    for (auto& sum : sums) sum = vfmaq_f32(factor, sum, factor);
  }
  for (const auto& sum : sums) sink = sink + vgetq_lane_f32(sum, 0);
  return 2.0 * 4 * kSums * kRepeats;
}
#endif

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void read_all_avx512(const std::byte* bytes, size_t size) {
  __m512i sums[4] = {};
  for (size_t i = 0; i + 256 <= size; i += 256) {
    for (size_t j = 0; j < 4; ++j) sums[j] = _mm512_or_si512(sums[j], _mm512_loadu_si512(bytes + i + 64 * j));
  }
  for (const auto& sum : sums) sink = sink + static_cast<float>(_mm512_reduce_or_epi32(sum));
}

__attribute__((target("avx2"))) void read_all_avx2(const std::byte* bytes, size_t size) {
  __m256i sums[4] = {};
  for (size_t i = 0; i + 128 <= size; i += 128) {
    for (size_t j = 0; j < 4; ++j) {
      const auto* at = reinterpret_cast<const __m256i*>(bytes + i + 32 * j);
      sums[j] = _mm256_or_si256(sums[j], _mm256_loadu_si256(at));
    }
  }
  for (const auto& sum : sums) sink = sink + static_cast<float>(_mm256_extract_epi32(sum, 0));
}

void read_all(const std::byte* bytes, size_t size) {
  if (runtime::cpu_info().has_feature("avx512f")) return read_all_avx512(bytes, size);
  read_all_avx2(bytes, size);
}
#elif defined(__aarch64__)
void read_all(const std::byte* bytes, size_t size) {
  uint8x16_t sums[4] = {};
  for (size_t i = 0; i + 64 <= size; i += 64) {
    for (size_t j = 0; j < 4; ++j)
      sums[j] = vorrq_u8(sums[j], vld1q_u8(reinterpret_cast<const uint8_t*>(bytes + i + 16 * j)));
  }
  for (const auto& sum : sums) sink = sink + static_cast<float>(vgetq_lane_u8(sum, 0));
}
#endif

/// Bytes a second of reading `bytes` a thread again and again.
double read_rate(int threads, size_t bytes) {
  constexpr size_t kLine = 64;  // loads of a whole line are the fastest where none crosses two
  std::vector<std::vector<std::byte>> data(static_cast<size_t>(threads));
  for (auto& part : data) part.assign(bytes + kLine, std::byte{1});
  return best_rate(threads, [&](int index) {
    const std::byte* part = data[static_cast<size_t>(index)].data();
    read_all(part + (kLine - reinterpret_cast<uintptr_t>(part) % kLine), bytes);
    return static_cast<double>(bytes);
  });
}

/// Bytes of the fastest core's cache of that level, data or unified; 0 if it has none.
size_t cache_bytes(int level) {
  for (const runtime::CacheInfo& cache : runtime::cpu_info().caches) {
    if (cache.level == level && cache.type != "Instruction") return cache.bytes;
  }
  return 0;
}

int run(int threads) {
  const runtime::CpuInfo& cpu = runtime::cpu_info();
  std::string text = fmt::format("{{\"threads\": {}, \"cpu\": \"{}\"", threads, cpu.brand);
  const auto add = [&](const char* name, double rate) {
    text += fmt::format(", \"{}\": {:.1f}", name, rate / 1e9);
  };
#if defined(__x86_64__)
  if (cpu.has_feature("avx512f")) add("avx512_gflops", best_rate(threads, fma_avx512));
  if (cpu.has_feature("avx2") && cpu.has_feature("fma")) add("avx2_gflops", best_rate(threads, fma_avx2));
  if (cpu.has_feature("avx512bf16")) add("avx512_bf16_gflops", best_rate(threads, dot_avx512));
  if (cpu.has_feature("amx-bf16")) add("amx_bf16_gflops", best_rate(threads, dot_amx));
#elif defined(__aarch64__)
  add("neon_gflops", best_rate(threads, fma_neon));
#endif
  const size_t l2 = cache_bytes(2), l3 = cache_bytes(3);
  add("l2_gb_per_s", read_rate(threads, std::max(l2 / 4, size_t{128} << 10)));
  // Beyond the second-level cache, and small enough to be there when other machines share it.
  if (l3 >= 8 * l2 && l2 > 0) add("l3_gb_per_s", read_rate(threads, 4 * l2));
  add("memory_gb_per_s", read_rate(threads, size_t{256} << 20));
  text += fmt::format(", \"l2_bytes\": {}, \"l3_bytes\": {}", l2, l3);
  fmt::print("{}}}\n", text);
  return 0;
}

}  // namespace
}  // namespace gantry

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1 || argc > 2) {
    std::fputs("usage: peak [THREADS]\n", stderr);
    return 2;
  }
  return gantry::run(threads);
}
