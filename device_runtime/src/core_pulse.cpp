#include "device_runtime/src/core_pulse.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "device_runtime/src/cpu_info.h"

namespace gantry::runtime {
namespace {

/// Long beside the clock's 50 ns, short beside a scheduler's tick.
constexpr double kBurstNs = 25'000, kChainNs = 12'000;
constexpr int64_t kFewestTurns = 256, kFewestLinks = 512, kMostRounds = int64_t{1} << 20;
constexpr int kTries = 3;
/// Threads wait for each other so long at most: one that another process keeps away comes too late.
constexpr double kLongestWaitNs = 100'000;
/// A turn of the burst takes 1 to 4 links of the chain on cores with units for vectors, up to 14 where those
/// are narrow; under QEMU 42 to 45.
constexpr double kMostOfHardware = 24;

using Vector [[gnu::vector_size(16)]] = float;

double now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

#if defined(__x86_64__)
#define GANTRY_VECTOR_REGISTER "+x"
#else
#define GANTRY_VECTOR_REGISTER "+w"
#endif

/// Hides from the compiler what values are, so that it computes with each of them and leaves none out.
template <typename... Values>
void hide(Values&... values) {
  (..., [&values] { __asm__ volatile("" : GANTRY_VECTOR_REGISTER(values)); }());
}

/// Seven chains of each kind fill two units of each of 3 cycles' latency and more of those that do both; with
/// the two factors they fit into SSE's 16 registers.
double time_burst(int64_t turns) {
  Vector one{1, 1, 1, 1}, step{0.25F, 0.25F, 0.25F, 0.25F};
  Vector a0 = one, a1 = one, a2 = one, a3 = one, a4 = one, a5 = one, a6 = one;
  Vector b0 = step, b1 = step, b2 = step, b3 = step, b4 = step, b5 = step, b6 = step;
  hide(one, step);
  // One by one: chains that the compiler knew to be equal would become one.
  hide(a0, a1, a2, a3, a4, a5, a6);
  hide(b0, b1, b2, b3, b4, b5, b6);
  const double begin = now_ns();
  for (int64_t i = 0; i < turns; ++i) {
    a0 *= one, b0 += step, a1 *= one, b1 += step, a2 *= one, b2 += step, a3 *= one, b3 += step;
    a4 *= one, b4 += step, a5 *= one, b5 += step, a6 *= one, b6 += step;
  }
  hide(a0, a1, a2, a3, a4, a5, a6);
  hide(b0, b1, b2, b3, b4, b5, b6);
  return now_ns() - begin;
}

double time_chain(int64_t links) {
  float one = 1, value = 1;
  hide(one);
  const double begin = now_ns();
  for (int64_t i = 0; i < links; i += 8) {
    value *= one, value *= one, value *= one, value *= one;
    value *= one, value *= one, value *= one, value *= one;
  }
  hide(value);
  return now_ns() - begin;
}

/// How many last `ns`: powers of two, so that what they cost beside the loop is alike from one process to the
/// next.
template <typename Timed>
int64_t count_that_lasts(double ns, int64_t least, const Timed& timed) {
  int64_t count = least;
  while (count < kMostRounds && std::min(timed(count), timed(count)) < ns) count *= 2;
  return count;
}

bool cores_are_alike() {
  const std::vector<int>& cores = cpu_info().core_cpus;
  return std::all_of(cores.begin(), cores.end(),
                     [&](int cpu) { return cpu_capacity(cpu) == cpu_capacity(cores.front()); });
}

/// Threads that share a core disturb each other.
bool each_on_its_own_core(std::vector<int> cpus) {
  for (int& cpu : cpus) cpu = cpu_info().core_cpu(cpu);
  std::sort(cpus.begin(), cpus.end());
  return std::adjacent_find(cpus.begin(), cpus.end()) == cpus.end();
}

/// What the threads of one beat share.
struct Beat {
  int threads;
  int64_t turns, links;
  double* values;
  int* cpus;
  std::atomic<int> arrived{0};
};

/// Waits until all threads have come here `time` times.
void meet(Beat& beat, int time) {
  beat.arrived.fetch_add(1);
  const double deadline = now_ns() + kLongestWaitNs;
  while (beat.arrived.load() < time * beat.threads && now_ns() < deadline) {
  }
}

int32_t beat_on_thread(void* closure, int64_t thread, int64_t) {
  Beat& beat = *static_cast<Beat*>(closure);
  double burst = INFINITY, chain = INFINITY;
  for (int i = 0; i < kTries; ++i) {
    meet(beat, i + 1);
    burst = std::min(burst, time_burst(beat.turns));
    chain = std::min(chain, time_chain(beat.links));
  }
  beat.cpus[thread] = sched_getcpu();
  beat.values[thread] =
      burst / static_cast<double>(beat.turns) / (std::max(chain, 1.0) / static_cast<double>(beat.links));
  return 0;
}

}  // namespace

CorePulse::CorePulse(ThreadPool& pool, bool alike)
    : pool_(&pool),
      alike_(alike),
      turns_(count_that_lasts(kBurstNs, kFewestTurns, time_burst)),
      links_(count_that_lasts(kChainNs, kFewestLinks, time_chain)),
      values_(static_cast<size_t>(pool.threads())),
      cpus_(static_cast<size_t>(pool.threads())) {}

std::optional<CorePulse> CorePulse::create(ThreadPool& pool) {
  const bool alike = cores_are_alike();
  const bool on_all = static_cast<size_t>(pool.threads()) >= cpu_info().core_cpus.size();
  if (!alike && !on_all) return std::nullopt;
  // The first time, an emulator also translates them.
  double turn = INFINITY, link = INFINITY;
  for (int i = 0; i < kTries; ++i) {
    turn = std::min(turn, time_burst(kFewestTurns) / kFewestTurns);
    link = std::min(link, time_chain(kFewestLinks) / kFewestLinks);
  }
  if (!(turn < kMostOfHardware * link)) return std::nullopt;
  return CorePulse(pool, alike);
}

std::optional<CorePulse::Value> CorePulse::beat() {
  Beat beat{pool_->threads(), turns_, links_, values_.data(), cpus_.data()};
  if (pool_->run_on_each_thread(beat_on_thread, &beat) != 0) return std::nullopt;
  const auto [lowest, highest] = std::minmax_element(values_.begin(), values_.end());
  if (!(*lowest > 0) || !std::isfinite(*highest)) return std::nullopt;
  return Value{*highest, alike_ && each_on_its_own_core(cpus_) ? *lowest : *highest};
}

}  // namespace gantry::runtime
