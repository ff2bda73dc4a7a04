// Throughput: several sessions of one module that run at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device_runtime/src/machine_watch.h"
#include "device_runtime/src/session.h"

namespace gantry::runtime {

struct StreamsOptions {
  int streams = 1;  ///< sessions that run at once, 1 to 1024
  int threads = 0;  ///< of each; 0: the cores of this process shared evenly, at least one
  std::vector<int>
      cpus;  ///< stream i is pinned to the i-th run of `threads` of these; empty: see run_streams
  uint64_t memory_limit = 0;  ///< of each session; 0: what the machine has
  double warmup_ms = 200;     ///< every stream runs at least this long, and once, before the clock starts
  double duration_ms = 1000;  ///< a run that has begun by then is finished and counts
  /// From the call on: no run is begun that would, as its stream's last one, end later than this; 0: none.
  double deadline_ms = 0;
  /// Called now and then with the share done, 0 to 1; false cancels.
  std::function<bool(double done)> progress;
  std::string probe_root = "/";  ///< where /sys, /proc and /dev of the machine are
};

constexpr size_t kMostKeptRuns = 200'000;

/// What was measured, and what the machine showed meanwhile: since the common start, read by a thread beside
/// those of the streams.
struct StreamsResult : MachineRecord {
  /// Every run's time, stream by stream; of more than kMostKeptRuns, every second, fourth, … of each stream.
  std::vector<double> samples_ms;
  std::vector<double> started_ms;  ///< of each, since the common start
  uint64_t runs = 0;               ///< of all streams
  bool complete = true;            ///< false: the deadline came before the end of `duration_ms`
  double elapsed_ms = 0;           ///< from the common start to the end of the last run
  double runs_per_second = 0;      ///< the sum over streams of their runs over their time
  int threads = 0;                 ///< of each stream
  SessionMemory memory;            ///< of all streams; weights, which they share, once
};

/// Each stream is a session on a thread of its own, with `set_inputs` called for it there. Where the streams'
/// threads fit on the cores that this process may use, each stream is pinned to cores of its own; else Linux
/// places them. INVALID_ARGUMENT for senseless options; the errors of Session::create, of set_inputs and of
/// run(); KERNEL_FAILED if progress cancels or the deadline leaves a stream no time for a run.
Result<StreamsResult> run_streams(const std::shared_ptr<const Module>& module,
                                  const std::function<Status(Session&)>& set_inputs,
                                  const StreamsOptions& options);

}  // namespace gantry::runtime
