// What the machine draws: joules that hardware counts, or power that is measured and added up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device_runtime/src/probe_file.h"

namespace gantry::runtime {

/// Energy since the first reading, and power.
struct EnergyReading {
  std::optional<double> joules;  ///< 0 in the first reading
  /// Now where power is measured; the mean since the reading before where energy is counted, so that the
  /// first reading has none.
  std::optional<double> watts;
};

/// The sum over what the machine shows, the first of these that it has: RAPL's packages (which users other
/// than root may not read on most systems), energy counters of hwmon, power sensors on the board's supply
/// lines (INA2xx and INA3221, as on NVIDIA's Jetson: the line of the whole board where one is named so, else
/// all lines). A GPU that takes part is added to that, so that energy and power are always of the same parts.
class EnergyProbe {
 public:
  explicit EnergyProbe(const std::string& root);
  /// What a GPU shows beside it; either may be absent.
  struct Gpu {
    std::optional<double> joules;  ///< since its driver started
    std::optional<double> watts;
  };
  /// `gpu`: null where none takes part. Times must rise.
  EnergyReading read(double now_ms, const Gpu* gpu);
  /// What the sums are of: "RAPL package-0"; "" for nothing. Known after the first reading.
  std::string source() const;

 private:
  /// Counts up, or runs around; in microjoules.
  struct Counter {
    ProbeFile file;
    std::optional<int64_t> range;  ///< the highest, behind which it starts again from 0
    std::optional<int64_t> last;   ///< none before the first reading
    double microjoules = 0;
    bool lost = false;  ///< could not be read, or went back: the sum is unknown from then on
  };
  struct Rail {
    std::string name;
    ProbeFile power;  ///< in units of `watts_per_unit`
    double watts_per_unit = 1e-6;
    ProbeFile volts, current;  ///< mV and mA, where power is not shown
  };
  /// Power of what counts energy: the mean over the time since the reading before.
  struct Difference {
    std::optional<double> joules;
    double ms = 0;
    std::optional<double> watts(double now_ms, std::optional<double> now_joules);
  };
  /// Energy of what shows power: the mean of both ends of each interval (trapezoid rule).
  struct Integral {
    double joules = 0;
    std::optional<double> watts;
    double ms = 0;
    double add(double now_ms, double now_watts);
  };
  enum class GpuSource { kUnknown, kNone, kCounter, kPower };

  bool find_rapl(const std::string& root);
  bool find_hwmon_counters(const std::string& root);
  void add_counter(ProbeFile file, std::optional<int64_t> range, const std::string& name);
  void find_rails(const std::string& root);
  void add_hwmon_rails(const std::string& folder, const std::string& chip);
  void add_old_jetson_rails(const std::string& folder);
  void add_rail(Rail rail, const std::string& chip);
  void keep_total_of_rails();
  static void count(Counter& counter);
  static std::optional<double> read_rail(const Rail& rail);
  EnergyReading read_counters(double now_ms);
  EnergyReading read_rails(double now_ms);
  EnergyReading read_gpu(double now_ms, const Gpu& gpu);

  std::vector<Counter> counters_;
  Difference counters_power_;
  std::vector<Rail> rails_;
  Integral rails_energy_;
  std::string source_;  ///< without the GPU
  GpuSource gpu_source_ = GpuSource::kUnknown;
  double gpu_start_joules_ = 0;
  Difference gpu_power_;
  Integral gpu_energy_;
};

}  // namespace gantry::runtime
