// One process with a module, measured piece by piece.
#pragma once

#include <chrono>
#include <optional>

#include "host/cli/machine.h"
#include "host/cli/measurement.h"
#include "host/cli/statistics/steadiness.h"

namespace gantry::cli {

/// The caller decides how long each step goes on, so that two processes can be measured in turns. Throws what
/// Machine::run and Machine::benchmark throw.
class MeasuredProcess {
 public:
  /// `machine`: a process of its own with the module loaded and its inputs set; it must live longer than
  /// this. Warming up ends after `longest_warm_up_ms` at the latest.
  MeasuredProcess(Machine& machine, const rpc::LoadedModule& loaded, const MeasureOptions& options,
                  double longest_warm_up_ms);

  /// The first inference.
  void begin();
  /// Runs for some 50 ms, or the whole warm-up where a number of runs was asked for.
  void warm_up_window();
  /// Whether warming up is over: steady, the runs asked for are done, or its time is up.
  bool warm() const;
  /// Samples for `ms`, at least kFewestRuns of them, after as many runs as take `settle_ms`. Returns their
  /// median.
  double sample(double ms, double settle_ms = 0);
  /// Exactly so many samples.
  void sample_exactly(uint32_t repeat);
  /// Throughput of streams for `ms`.
  void sample_streams(uint32_t streams, double ms);
  /// Median of the last segment, ms.
  double run_ms() const { return run_ms_; }
  /// What a run takes, where another object has measured this process.
  void adopt_run_time(double ms) { run_ms_ = ms; }
  /// Times every kernel; last() has them.
  void profile();

  const ProcessMeasurement& result() const { return result_; }
  ProcessMeasurement take() { return std::move(result_); }
  /// Of the last segment.
  const rpc::BenchmarkResult& last() const { return last_; }

  static constexpr uint32_t kFewestRuns = 3;

 private:
  rpc::BenchmarkOptions segment_options(double ms, double settle_ms) const;
  void take_segment(const rpc::BenchmarkOptions& options);
  void learn_sweep(const rpc::BenchmarkOptions& options);
  double now_ms() const;
  bool out_of_time() const;

  Machine& machine_;
  const MeasureOptions& options_;
  double longest_warm_up_ms_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  ProcessMeasurement result_;
  rpc::BenchmarkResult last_;
  SteadinessDetector steadiness_;
  double run_ms_ = 0;  ///< of the last segment's median run
  /// What emptying the caches before a run takes; none before a segment has shown it.
  std::optional<double> sweep_ms_;
  double warm_up_began_ms_ = 0;
  std::optional<double> sampling_began_ms_;
  bool warmed_by_number_ = false;
  int windows_ = 0;
};

}  // namespace gantry::cli
