// What CPUs show of themselves while they work: clock, temperature, and who used them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device_runtime/src/probe_file.h"

// `root` is where /sys, /proc and /dev are: "" on a real machine. Figures that a machine does not show are
// absent; so are those that cannot be true.
namespace gantry::runtime {

/// CPUs whose clock Linux sets together, as folders of cpufreq.
struct ClockDomains {
  std::vector<std::string> folders;
  std::vector<size_t> of_cpu;  ///< of each CPU asked for: its folder's index
};
/// Absent unless each of the CPUs has one.
std::optional<ClockDomains> find_clock_domains(const std::string& root, std::span<const int> cpus);

/// The clock of some CPUs.
///
/// From cpufreq (scaling_cur_freq). On x86 that is measured over the last milliseconds of work; on Arm it is
/// what the governor asked for, which firmware may undercut without a word: see ThrottleProbe. Without
/// cpufreq from /proc/cpuinfo, but only where the CPU has the counters to measure it ("aperfmperf"): a
/// virtual machine's "cpu MHz" is the rate of its time stamps, whatever the clock does, and is named in a
/// note instead.
class ClockProbe {
 public:
  ClockProbe(const std::string& root, std::span<const int> cpus);
  /// Of each CPU, in the order given; empty unless each shows it.
  std::vector<double> read_mhz() const;

  /// What the clock may reach now (scaling_max_freq), of the CPU that may reach most.
  std::optional<double> limit_mhz() const;
  /// Those of the CPUs, each once: "schedutil", "performance, powersave".
  std::optional<std::string> governor() const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void use_cpuinfo(const std::string& root);
  std::vector<double> read_cpuinfo() const;

  std::vector<int> cpus_;
  std::optional<ClockDomains> domains_;
  std::vector<ProbeFile> current_;  ///< one a domain
  ProbeFile cpuinfo_;
  std::vector<std::string> notes_;
};

/// The temperature of the CPU's hottest sensor: those of its own driver (hwmon), else the thermal zones that
/// are named after a CPU, its package or the chip that it is on. Not of disks, batteries and radios.
class TemperatureProbe {
 public:
  explicit TemperatureProbe(const std::string& root);
  std::optional<double> read_celsius() const;
  const std::string& source() const { return source_; }  ///< "hwmon coretemp"; "" for none

 private:
  void add_hwmon(const std::string& folder, const std::string& name);

  std::vector<ProbeFile> sensors_;
  std::string source_;
};

struct LoadReading {
  /// Of the CPU time of all CPUs in an interval.
  std::optional<double> others_share;  ///< what processes other than this one used
  std::optional<double> steal_share;   ///< what a hypervisor gave to other machines
};

/// Who else used the machine. Linux counts in ticks of some milliseconds: an interval has to have a hundred
/// of them, over all CPUs, before it says something.
class LoadProbe {
 public:
  /// `own_seconds`: CPU time that this process has used, all threads together.
  LoadProbe(const std::string& root, double (*own_seconds)());
  /// Of the interval since the last reading that was not empty; `last` takes one that is shorter.
  LoadReading read(bool last);
  /// Average number of runnable tasks in the minute before the probe began.
  std::optional<double> load_before() const { return load_before_; }

 private:
  struct Ticks {
    double busy = 0, stolen = 0, all = 0, own = 0;
  };
  std::optional<Ticks> read_ticks() const;

  ProbeFile stat_;
  double (*own_seconds_)();
  std::optional<Ticks> before_;
  std::optional<double> load_before_;
};

}  // namespace gantry::runtime
