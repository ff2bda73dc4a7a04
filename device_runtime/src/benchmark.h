// Timing a session: every sample, per-kernel figures, and the state of the machine around it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device_runtime/src/cpu_info.h"
#include "device_runtime/src/gpu_info.h"
#include "device_runtime/src/session.h"
#include "device_runtime/src/statistics.h"

namespace gantry::runtime {

struct BenchmarkOptions {
  int warmup = 3;            ///< runs before the clock starts
  int number = 1;            ///< runs in one sample
  int repeat = 10;           ///< samples
  double min_repeat_ms = 0;  ///< `number` grows until a sample takes at least this long
  double cooldown_ms = 0;    ///< pause before every sample
  bool flush_cache = false;  ///< overwrite the caches before every run; that time does not count
  bool profile = false;      ///< also time every kernel, in runs of their own
  double deadline_ms = 0;    ///< stop after this long; 0: never
  /// Called now and then with the share done, 0 to 1; false cancels.
  std::function<bool(double done)> progress;
};

struct KernelProfile {
  std::string kernel;  ///< ops
  std::string symbol;
  std::string origin;  ///< the user's nodes
  int calls = 0;       ///< measured
  double median_ns = 0;
  double min_ns = 0;
  double flops = 0;  ///< of one call
  double bytes = 0;  ///< compulsory memory traffic of one call
};

struct BenchmarkResult {
  std::vector<double> samples_ms;      ///< per run: a sample's time divided by `number`
  std::vector<double> started_ms;      ///< of each sample, since the first one's start
  int number = 0;                      ///< runs in each sample, after growing
  bool complete = true;                ///< false: the deadline came first
  Statistics statistics;               ///< of samples_ms
  std::vector<KernelProfile> kernels;  ///< one a step, in the plan's order
  SessionMemory memory;
  uint64_t peak_resident_bytes = 0;  ///< of the process, from its start to the end of the runs; 0: unknown
  int threads = 0;
  CpuState before, after;
  GpuState gpu_before, gpu_after;  ///< of a session on a GPU
};

/// Measures a session whose inputs are set. INVALID_ARGUMENT for senseless options; the errors of run();
/// KERNEL_FAILED if the deadline passes before the first sample or progress cancels.
Result<BenchmarkResult> run_benchmark(Session& session, const BenchmarkOptions& options);

}  // namespace gantry::runtime
