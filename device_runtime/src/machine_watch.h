// Watches the machine around a benchmark.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device_runtime/src/module_reader.h"
#include "device_runtime/src/probes.h"
#include "device_runtime/src/reading_log.h"

namespace gantry::runtime {

/// What was seen.
struct MachineRecord {
  /// Before the first run, between samples, and after the last run.
  std::vector<ProbeReading> readings;
  std::vector<int> reading_cpus;  ///< that the session's threads were on: those of the readings' clocks
  std::vector<std::string> probe_notes;  ///< see Probes::notes
  ReadingSummary reading_summary;
  CpuState before, during, after;  ///< by the first, the middle and the last reading
  GpuState gpu_before, gpu_after;  ///< of a module on a GPU
};

/// Reads on the thread that calls it. Of a single session that is the one that runs, between its runs and
/// never beside them: a thread of its own would need a core, which on a machine whose cores all work is one
/// of those that are measured, and the wakeups alone would show in the samples. Readings thus show the clock
/// as the work just done has left it.
class MachineWatch {
 public:
  /// Makes the first reading. `thread_cpus` says which CPUs the module's threads are on, now and whenever it
  /// is asked. `root` is where /sys, /proc and /dev are.
  MachineWatch(const Module& module, std::function<std::vector<int>()> thread_cpus, const std::string& root);

  /// To be called when the threads have found their places: begins anew where those are others than at first.
  void settle();
  /// Makes a reading if one is due. Not while a clock runs: it takes some ten microseconds to a few
  /// milliseconds.
  void look();
  /// Makes the last reading.
  MachineRecord finish();

 private:
  void begin(std::vector<int> cpus);
  void read(bool last);

  const Module& module_;
  std::function<std::vector<int>()> thread_cpus_;
  std::string root_;
  std::unique_ptr<Probes> probes_;
  std::unique_ptr<ReadingLog> log_;
  CpuState before_;
};

}  // namespace gantry::runtime
