// Readings of the machine while a benchmark runs on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device_runtime/src/cpu_info.h"
#include "device_runtime/src/gpu_info.h"
#include "device_runtime/src/probes_cpu.h"
#include "device_runtime/src/probes_energy.h"
#include "device_runtime/src/probes_throttle.h"

namespace gantry::runtime {

/// The machine at one moment. What it does not show is absent, never 0.
struct ProbeReading {
  double at_ms = 0;                     ///< since the first reading
  std::vector<double> clock_mhz;        ///< of each CPU asked for, in that order; empty unless all show it
  std::optional<double> temperature_c;  ///< of the CPU's hottest sensor
  std::optional<int64_t>
      throttle_count;              ///< thermal throttling counted since boot by those CPUs, see ThrottleProbe
  std::optional<bool> throttled;   ///< since the reading before: the clock was held back
  std::optional<double> energy_j;  ///< since the first reading; of what a note names
  std::optional<double> power_w;   ///< of the same; see EnergyReading
  /// Since the last reading that has them; see LoadReading.
  std::optional<double> others_share, steal_share;
  GpuState gpu;  ///< of the GPU asked for
};

struct ProbeOptions {
  std::string root = "/";  ///< where /sys, /proc and /dev are
  std::vector<int> cpus;   ///< whose clock and throttling is read
  std::string gpu_bus_id;  ///< of a GPU that takes part; "" for none
  // What is not in files; for tests.
  double (*own_cpu_seconds)() = nullptr;
  GpuState (*read_gpu)(const std::string& bus_id) = nullptr;
  RaspberryFirmware::Ioctl ioctl = nullptr;
};

/// Chooses at its start from what the machine has, and keeps those files open. A reading takes some ten
/// microseconds and a few for each CPU; more where firmware or a bus is asked. Belongs to one thread at a
/// time.
class Probes {
 public:
  explicit Probes(const ProbeOptions& options);
  /// `now_ms`: any monotonic clock. `last`: also of intervals that are a little short for it.
  ProbeReading read(double now_ms, bool last = false);

  const std::vector<int>& cpus() const { return cpus_; }
  /// Where figures come from, what stood in their way, and what held the clock back up to now: a line each.
  std::vector<std::string> notes() const;
  /// A reading in the terms of CpuState.
  CpuState cpu_state(const ProbeReading& reading) const;

 private:
  std::vector<int> cpus_;
  std::string gpu_bus_id_;
  GpuState (*read_gpu_)(const std::string& bus_id);
  ClockProbe clock_;
  TemperatureProbe temperature_;
  ThrottleProbe throttle_;
  EnergyProbe energy_;
  LoadProbe load_;
  std::optional<double> start_ms_;
  std::vector<std::string> reasons_;  ///< of throttling, each once
};

}  // namespace gantry::runtime
