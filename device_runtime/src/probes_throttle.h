// Whether something holds the CPU's clock back: heat, power, or a cap that was put on it while it ran.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device_runtime/src/probe_file.h"

namespace gantry::runtime {

/// What a Raspberry Pi's firmware says of its supply and its temperature ("get_throttled"). Bits 0 to 3 stand
/// for now, bits 16 to 19 for the same since the board started: under-voltage, frequency capped, throttled,
/// soft temperature limit. From the kernel's file where it has one, else by asking the firmware's mailbox
/// (/dev/vcio), which takes a user of the group "video".
class RaspberryFirmware {
 public:
  using Ioctl = int (*)(int fd, unsigned long request, void* argument);
  explicit RaspberryFirmware(const std::string& root, Ioctl ioctl = nullptr);
  ~RaspberryFirmware();
  RaspberryFirmware(const RaspberryFirmware&) = delete;

  std::optional<uint32_t> flags() const;

 private:
  std::optional<uint32_t> ask_mailbox() const;

  ProbeFile file_;
  int mailbox_ = -1;
  Ioctl ioctl_;
};

struct ThrottleReading {
  /// Thermal throttling that the given CPUs and their packages have counted since boot (Intel).
  std::optional<int64_t> events;
  /// Now, or at some time since the reading before. Absent where the machine cannot tell: CPUs of AMD show a
  /// cap when there is one, and never that there is none.
  std::optional<bool> throttled;
  std::string reason;  ///< of true: "frequency capped by thermal-cpufreq-0"; several are separated by ", "
};

/// From what the machine has of: Intel's counters; cooling devices that cap the clock; cpufreq's limit, where
/// it falls below what it was at the start, and the firmware's below what the CPU can do (without boost,
/// where the steps are listed); a Raspberry Pi's flags and its alarm of low voltage. A limit that was there
/// before is somebody's choice: it is a note, not throttling.
class ThrottleProbe {
 public:
  ThrottleProbe(const std::string& root, std::span<const int> cpus, RaspberryFirmware::Ioctl ioctl = nullptr);
  ThrottleReading read();
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Cooler {
    std::string type;
    ProbeFile state;
  };
  struct Limit {  ///< of CPUs whose clock Linux sets together, in kHz
    ProbeFile now, firmware;
    std::optional<int64_t> at_start, hardware;  ///< hardware's: without boost, where the steps are listed
  };
  struct Findings {
    bool known = false;
    std::vector<std::string> reasons;
  };
  void add_counters(const std::string& root, std::span<const int> cpus);
  void add_coolers(const std::string& root);
  void add_limits(const std::string& root, std::span<const int> cpus);
  void add_voltage_alarms(const std::string& root);
  std::optional<int64_t> read_counters(Findings& findings);
  void read_coolers(Findings& findings) const;
  void read_limits(Findings& findings) const;
  void read_raspberry(Findings& findings);

  std::vector<ProbeFile> counters_;
  std::optional<int64_t> counted_;  ///< by the reading before
  std::vector<Cooler> coolers_;
  std::vector<Limit> limits_;
  std::vector<ProbeFile> voltage_alarms_;
  RaspberryFirmware raspberry_;
  std::optional<uint32_t> flags_;  ///< of the reading before
  std::vector<std::string> notes_;
};

}  // namespace gantry::runtime
