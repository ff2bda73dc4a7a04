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
/// A line of memory goes from thread to thread so often, after a first round that waits for the last of them.
constexpr int64_t kHandovers = 256;
/// Handovers that count for a turn of the burst: about a tenth of a pulse between cores that share a cache,
/// where one takes 20 to 30 times as long as a link of the chain; between cores that share none, 100 to 200
/// times.
constexpr double kHandoversPerTurn = 1.0 / 200;
/// The clock is looked at after so many looks at the line, which it would delay.
constexpr int kLooksBetweenClocks = 512;
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
  double* link_ns;
  int* cpus;
  /// The shortest of the tries, on average over the threads; thread 0's to write. The longest
  /// wait stands for those that were given up.
  double handover_ns = kLongestWaitNs / kHandovers;
  std::atomic<int> arrived{0};
  alignas(128) std::atomic<int64_t> handed{0};  ///< handovers so far: alone on its line
  alignas(128) std::atomic<bool> given_up{false};
};

/// Waits until all threads have come here `time` times.
void meet(Beat& beat, int time) {
  beat.arrived.fetch_add(1);
  const double deadline = now_ns() + kLongestWaitNs;
  while (beat.arrived.load() < time * beat.threads && now_ns() < deadline) {
  }
}

/// Waits until `count` handovers have been made. False where that lasts too long: a thread is kept away, here
/// or there.
bool wait_for_handover(Beat& beat, int64_t count, double deadline) {
  for (int looks = 0; beat.handed.load(std::memory_order_acquire) != count; ++looks) {
    if (looks < kLooksBetweenClocks) continue;
    looks = 0;
    if (beat.given_up.load(std::memory_order_relaxed)) return false;
    if (now_ns() < deadline) continue;
    beat.given_up.store(true, std::memory_order_relaxed);
    return false;
  }
  return true;
}

/// This thread's handovers from number `first` on, `rounds` of them; when the second round began for it, if
/// it came so far.
bool hand_on(Beat& beat, int64_t thread, int64_t first, int64_t rounds, double deadline,
             double& second_begun) {
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t turn = first + round * beat.threads + thread;
    if (!wait_for_handover(beat, turn, deadline)) return false;
    if (round == 1) second_begun = now_ns();
    beat.handed.store(turn + 1, std::memory_order_release);
  }
  return wait_for_handover(beat, first + rounds * beat.threads, deadline);
}

/// Hands the line round; the try is the `time`th, from 0. Thread 0 writes down how long a handover takes;
/// of one that was given up the longest wait stands for it.
void hand_round(Beat& beat, int64_t thread, int time) {
  if (beat.threads == 1 || beat.given_up.load(std::memory_order_relaxed)) return;
  const int64_t counted = std::max<int64_t>(1, kHandovers / beat.threads), rounds = 1 + counted;
  double begun = now_ns();
  const bool whole =
      hand_on(beat, thread, time * rounds * beat.threads, rounds, begun + kLongestWaitNs, begun);
  if (thread != 0 || !whole) return;
  const double each = (now_ns() - begun) / static_cast<double>(counted * beat.threads);
  beat.handover_ns = std::min(beat.handover_ns, each);
}

int32_t beat_on_thread(void* closure, int64_t thread, int64_t) {
  Beat& beat = *static_cast<Beat*>(closure);
  double burst = INFINITY, chain = INFINITY;
  for (int i = 0; i < kTries; ++i) {
    meet(beat, 2 * i + 1);
    burst = std::min(burst, time_burst(beat.turns));
    chain = std::min(chain, time_chain(beat.links));
    meet(beat, 2 * i + 2);
    hand_round(beat, thread, i);
  }
  beat.cpus[thread] = sched_getcpu();
  beat.link_ns[thread] = std::max(chain, 1.0) / static_cast<double>(beat.links);
  beat.values[thread] = burst / static_cast<double>(beat.turns) / beat.link_ns[thread];
  return 0;
}

}  // namespace

CorePulse::CorePulse(ThreadPool& pool, bool alike)
    : pool_(&pool),
      alike_(alike),
      turns_(count_that_lasts(kBurstNs, kFewestTurns, time_burst)),
      links_(count_that_lasts(kChainNs, kFewestLinks, time_chain)),
      values_(static_cast<size_t>(pool.threads())),
      link_ns_(values_.size()),
      cpus_(values_.size()) {}

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
  Beat beat{pool_->threads(), turns_, links_, values_.data(), link_ns_.data(), cpus_.data()};
  if (pool_->run_on_each_thread(beat_on_thread, &beat) != 0) return std::nullopt;
  if (pool_->threads() > 1) {
    for (size_t i = 0; i < values_.size(); ++i)
      values_[i] += kHandoversPerTurn * beat.handover_ns / link_ns_[i];
  }
  const auto [lowest, highest] = std::minmax_element(values_.begin(), values_.end());
  if (!(*lowest > 0) || !std::isfinite(*highest)) return std::nullopt;
  return Value{*highest, alike_ && each_on_its_own_core(cpus_) ? *lowest : *highest};
}

}  // namespace gantry::runtime
