// Timing a session: every sample, per-kernel figures, and the machine while it ran.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device_runtime/src/cache_sweep.h"
#include "device_runtime/src/machine_watch.h"
#include "device_runtime/src/pulse_log.h"
#include "device_runtime/src/session.h"
#include "device_runtime/src/statistics.h"

namespace gantry::runtime {

struct BenchmarkOptions {
  int warmup = 3;            ///< runs before the clock starts
  int number = 1;            ///< runs in one sample
  int repeat = 10;           ///< samples
  double min_repeat_ms = 0;  ///< `number` grows until a sample takes at least this long
  double cooldown_ms = 0;    ///< pause before every sample
  /// Sweep the caches of every thread's core before every timed run (see CacheSweep), or those of the GPU;
  /// that time does not count.
  bool flush_cache = false;
  bool profile = false;    ///< also time every kernel, in runs of their own
  bool count_instructions = false;  ///< also count what every step executes, in a run of its own
  double deadline_ms = 0;  ///< no sample is begun that would, as the last one, end later than this; 0: none
  /// Called now and then with the share done, 0 to 1; false cancels.
  std::function<bool(double done)> progress;
  std::string probe_root = "/";  ///< where /sys, /proc and /dev of the machine are
  /// Called between a sweep of the caches and its run; for tests.
  std::function<void(const CacheSweep&)> swept;
};

/// Runs that are traced, of which one is shown. Odd: one is the median.
inline constexpr int kTracedRuns = 5;

struct KernelProfile {
  uint32_t step = 0;   ///< index in the plan
  std::string symbol;  ///< the kernel's name; "" for a copy
  std::string ops;     ///< of the kernel; "copy"
  std::string op;      ///< the one of them that the kernel is for; "" from older modules
  std::string origin;  ///< the user's nodes
  int calls = 0;       ///< measured
  double median_ns = 0;
  double min_ns = 0;
  double flops = 0;  ///< of one call
  double bytes = 0;  ///< compulsory memory traffic of one call
};

/// What was measured, and what the machine showed meanwhile.
struct BenchmarkResult : MachineRecord {
  std::vector<double> samples_ms;  ///< per run: a sample's time divided by `number`
  std::vector<double> started_ms;  ///< of each sample, since the first one's start
  /// Before the first sample, between samples and after the last one, since the first one's start; the time
  /// of none counts. None on GPUs, and where CorePulse shows nothing.
  std::vector<PulseReading> pulses;
  int number = 0;                      ///< runs in each sample, after growing
  bool complete = true;                ///< false: for some samples or kernels the deadline left no time
  Statistics statistics;               ///< of samples_ms
  std::vector<KernelProfile> kernels;  ///< one a step, in the plan's order
  /// With `profile`, of the run whose time is the median of kTracedRuns traced ones, or of as many as the
  /// deadline allowed; none: it allowed none, or there are more threads and steps than RunTrace takes.
  std::optional<RunTimeline> timeline;
  /// With `count_instructions`, of each step of the plan, on all threads; else, and where that cannot be,
  /// empty, and why.
  std::vector<uint64_t> step_instructions;
  std::string instructions_problem;
  SessionMemory memory;
  /// Of the process, from its start to the end of the runs, without what sweeps of the caches take where
  /// the session has run before them; 0: unknown.
  uint64_t peak_resident_bytes = 0;
  int threads = 0;
};

/// Measures a session whose inputs are set. INVALID_ARGUMENT for senseless options; the errors of run() and
/// CacheSweep::create; KERNEL_FAILED if the deadline passes while warming up or progress cancels.
Result<BenchmarkResult> run_benchmark(Session& session, const BenchmarkOptions& options);

}  // namespace gantry::runtime
