// What a parallel loop costs: the time from the call to the return where every thread must take part, that of
// loops whose iterations do next to nothing, back to back (workers spin) and after pauses (workers sleep),
// and how evenly uneven work is shared.
//
//   build/bin/fork_join [THREADS [CPU...]]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "device_runtime/src/affinity.h"
#include "device_runtime/src/thread_pool.h"

namespace gantry::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

double percentile(std::vector<double>& samples, double share) {
  std::ranges::sort(samples);
  return samples[static_cast<size_t>(share * static_cast<double>(samples.size() - 1))];
}

int32_t touch(void* counters, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<std::atomic<int>*>(counters)[i * 16].store(1);
  return 0;
}

/// Each iteration waits for all the others to begin, so that every thread takes exactly one.
struct Meeting {
  std::atomic<int64_t> arrived{0};
  int64_t expected = 0;
};
int32_t meet(void* closure, int64_t begin, int64_t end) {
  auto& meeting = *static_cast<Meeting*>(closure);
  meeting.arrived.fetch_add(end - begin);
  while (meeting.arrived.load() < meeting.expected) {
  }
  return 0;
}

/// Iteration i works i units of time: a static split into halves would wait for the second one.
int32_t work_unevenly(void* unit_ns, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const auto until = Clock::now() + std::chrono::nanoseconds(i * *static_cast<int64_t*>(unit_ns));
    while (Clock::now() < until) {
    }
  }
  return 0;
}

void report(const char* what, std::vector<double>& samples) {
  fmt::print("{:34} median {:7.2f} us, p90 {:7.2f}, p99 {:8.2f}\n", what, percentile(samples, 0.5),
             percentile(samples, 0.9), percentile(samples, 0.99));
}

void measure_empty(ThreadPool& pool, const char* what, int loops, std::chrono::microseconds pause) {
  std::vector<std::atomic<int>> counters(16 * static_cast<size_t>(pool.threads()));
  std::vector<double> samples;
  for (int i = 0; i < loops; ++i) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const auto start = Clock::now();
    pool.parallel_for(touch, counters.data(), pool.threads());
    samples.push_back(microseconds(Clock::now() - start));
  }
  report(what, samples);
}

void measure_fork_join(ThreadPool& pool) {
  std::vector<double> samples;
  for (int i = 0; i < 20000; ++i) {
    Meeting meeting;
    meeting.expected = pool.threads();
    const auto start = Clock::now();
    pool.parallel_for(meet, &meeting, pool.threads());
    samples.push_back(microseconds(Clock::now() - start));
  }
  report("fork and join, every thread", samples);
}

void measure_balance(ThreadPool& pool) {
  constexpr int64_t kIterations = 64;
  int64_t unit_ns = 100;
  std::vector<double> samples;
  for (int i = 0; i < 200; ++i) {
    const auto start = Clock::now();
    pool.parallel_for(work_unevenly, &unit_ns, kIterations);
    samples.push_back(microseconds(Clock::now() - start));
  }
  const double ideal = 1e-3 * double(unit_ns) * kIterations * (kIterations - 1) / 2 / pool.threads();
  report("uneven iterations", samples);
  fmt::print("{:34} {:.2f} us\n", "  shared without loss they take", ideal);
}

int run(int threads, const std::vector<int>& cpus) {
  auto pool = ThreadPool::create(threads, cpus);
  if (!pool.ok() || (!cpus.empty() && !pin_this_thread(cpus[0]).ok())) {
    fmt::print(stderr, "fork_join: {}\n", pool.ok() ? "that CPU cannot be used" : pool.status().message());
    return 1;
  }
  fmt::print("{} threads{}\n", threads, cpus.empty() ? "" : ", pinned");
  measure_fork_join(**pool);
  measure_empty(**pool, "empty iterations, workers spin", 20000, {});
  measure_empty(**pool, "empty iterations, workers sleep", 500, std::chrono::microseconds(1000));
  measure_balance(**pool);
  return 0;
}

}  // namespace
}  // namespace gantry::runtime

int main(int argc, char** argv) {
  std::vector<int> cpus;
  for (int i = 2; i < argc; ++i) cpus.push_back(std::atoi(argv[i]));
  return gantry::runtime::run(argc > 1 ? std::atoi(argv[1]) : 2, cpus);
}
