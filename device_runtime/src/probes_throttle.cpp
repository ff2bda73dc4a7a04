#include "device_runtime/src/probes_throttle.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "device_runtime/src/probes_cpu.h"
#include "device_runtime/src/status.h"

namespace gantry::runtime {
namespace {

constexpr int64_t kMostKilohertz = 100'000'000;
constexpr size_t kMostLimits = 64;

int system_ioctl(int fd, unsigned long request, void* argument) {
  return ioctl(fd, request, argument);
}

double megahertz(int64_t kilohertz) {
  return static_cast<double>(kilohertz) * 1e-3;
}

/// The highest clock in kHz of the CPUs of that folder of cpufreq, without boost where their driver lists its
/// steps: cpuinfo_max_freq may be a boost that limits (scaling_max_freq, bios_limit) never name. Absent where
/// neither can be read.
std::optional<int64_t> highest_without_boost(const std::string& folder) {
  const std::string steps = ProbeFile(folder + "/scaling_available_frequencies").text(4096).value_or("");
  int64_t highest = 0;
  char* end = nullptr;
  for (const char* at = steps.c_str();; at = end) {
    const int64_t step = strtoll(at, &end, 10);
    if (end == at) break;
    if (step <= kMostKilohertz) highest = std::max(highest, step);
  }
  if (highest > 0) return highest;
  return ProbeFile(folder + "/cpuinfo_max_freq").number(1, kMostKilohertz);
}

/// Cooling devices that slow CPUs down: caps of cpufreq (their names have changed over the years), ACPI's
/// processors, and forced idling.
bool slows_cpus(const std::string& type) {
  for (const char* prefix : {"thermal-cpufreq-", "cpufreq-", "cpu-cpufreq", "thermal-idle-", "Processor"}) {
    if (type.starts_with(prefix)) return true;
  }
  return type == "intel_powerclamp";
}

/// What the four flags of a Raspberry Pi mean.
void name_flags(uint32_t flags, std::vector<std::string>& reasons) {
  const char* const names[] = {"under-voltage", "frequency capped", "throttled", "soft temperature limit"};
  for (uint32_t bit = 0; bit < 4; ++bit) {
    if ((flags >> bit & 1) != 0) reasons.push_back(std::string("Raspberry Pi: ") + names[bit]);
  }
}

}  // namespace

RaspberryFirmware::RaspberryFirmware(const std::string& root, Ioctl ioctl)
    : file_(root + "/sys/devices/platform/soc/soc:firmware/get_throttled"),
      ioctl_(ioctl == nullptr ? system_ioctl : ioctl) {
  if (file_.is_open()) return;
  mailbox_ = open((root + "/dev/vcio").c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

RaspberryFirmware::~RaspberryFirmware() {
  if (mailbox_ >= 0) close(mailbox_);
}

std::optional<uint32_t> RaspberryFirmware::flags() const {
  if (!file_.is_open()) return mailbox_ < 0 ? std::nullopt : ask_mailbox();
  const auto text = file_.text(64);
  const auto value = text ? parse_number(*text, 16) : std::nullopt;
  if (!value || *value < 0 || *value > UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(*value);
}

// A message of the firmware's property interface: its size, a code that becomes the answer's, one tag (its
// name, the bytes of its value, the bytes used, the value), and the end. A value of 0 leaves the flags "since
// boot" as they are.
std::optional<uint32_t> RaspberryFirmware::ask_mailbox() const {
  constexpr uint32_t kGetThrottled = 0x0003'0046, kDone = 0x8000'0000;
  uint32_t message[] = {7 * sizeof(uint32_t), 0, kGetThrottled, sizeof(uint32_t), 0, 0, 0};
  const unsigned long request = _IOWR(100, 0, char*);
  if (ioctl_(mailbox_, request, message) < 0 || message[1] != kDone) return std::nullopt;
  // The tag's answer has the highest bit set and says how many bytes it has.
  if (message[4] != (kDone | sizeof(uint32_t))) return std::nullopt;
  return message[5];
}

ThrottleProbe::ThrottleProbe(const std::string& root, std::span<const int> cpus,
                             RaspberryFirmware::Ioctl ioctl)
    : raspberry_(root, ioctl) {
  add_counters(root, cpus);
  add_coolers(root);
  add_limits(root, cpus);
  add_voltage_alarms(root);
  flags_ = raspberry_.flags();
}

// Each CPU counts what befalls its core and its package: a core's siblings and a package's cores count the
// same events, which are read from one of them.
void ThrottleProbe::add_counters(const std::string& root, std::span<const int> cpus) {
  std::set<std::string> seen;
  for (const int cpu : cpus) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    const std::string package = read_label(folder + "/topology/physical_package_id");
    std::string core = read_label(folder + "/topology/core_id");
    if (core.empty()) core = "cpu " + std::to_string(cpu);
    const auto add = [&](const std::string& place, const char* name) {
      if (!seen.insert(place).second) return;
      ProbeFile file(folder + "/thermal_throttle/" + name);
      if (file.number(0, INT64_MAX)) counters_.push_back(std::move(file));
    };
    add(package + "/" + core, "core_throttle_count");
    add(package, "package_throttle_count");
  }
}

void ThrottleProbe::add_coolers(const std::string& root) {
  const std::string folder = root + "/sys/class/thermal/";
  for (const std::string& name : list_folder(folder, "cooling_device")) {
    Cooler cooler{read_label(folder + name + "/type"), ProbeFile(folder + name + "/cur_state")};
    if (slows_cpus(cooler.type) && cooler.state.number()) coolers_.push_back(std::move(cooler));
  }
}

void ThrottleProbe::add_limits(const std::string& root, std::span<const int> cpus) {
  const auto domains = find_clock_domains(root, cpus);
  if (!domains) return;
  // Caps befall all cores of a kind: those of a large server are not all watched, which would take a file
  // each.
  for (const std::string& folder : domains->folders) {
    if (limits_.size() == kMostLimits) break;
    Limit limit;
    limit.now = ProbeFile(folder + "/scaling_max_freq");
    limit.firmware = ProbeFile(folder + "/bios_limit");
    limit.at_start = limit.now.number(1, kMostKilohertz);
    limit.hardware = highest_without_boost(folder);
    if (limit.at_start && limit.hardware && *limit.at_start < *limit.hardware && notes_.empty()) {
      notes_.push_back(format_text("clock: limited to %.0f of %.0f MHz before the run (scaling_max_freq)",
                                   megahertz(*limit.at_start), megahertz(*limit.hardware)));
    }
    limits_.push_back(std::move(limit));
  }
}

void ThrottleProbe::add_voltage_alarms(const std::string& root) {
  const std::string folder = root + "/sys/class/hwmon/";
  for (const std::string& chip : list_folder(folder, "hwmon")) {
    if (read_label(folder + chip + "/name") != "rpi_volt") continue;
    ProbeFile alarm(folder + chip + "/in0_lcrit_alarm");
    if (alarm.number(0, 1)) voltage_alarms_.push_back(std::move(alarm));
  }
}

std::optional<int64_t> ThrottleProbe::read_counters(Findings& findings) {
  int64_t sum = 0;
  for (const ProbeFile& counter : counters_) {
    const auto value = counter.number(0, INT64_MAX);
    if (!value || __builtin_add_overflow(sum, *value, &sum)) return std::nullopt;
  }
  if (counters_.empty()) return std::nullopt;
  if (counted_) {
    findings.known = true;
    if (sum > *counted_) findings.reasons.push_back("thermal throttling counted by the CPU");
  }
  counted_ = sum;
  return sum;
}

void ThrottleProbe::read_coolers(Findings& findings) const {
  for (const Cooler& cooler : coolers_) {
    const auto state = cooler.state.number();
    if (!state) continue;
    findings.known = true;
    if (*state > 0) findings.reasons.push_back("frequency capped by " + cooler.type);
  }
}

void ThrottleProbe::read_limits(Findings& findings) const {
  for (const Limit& limit : limits_) {
    const auto now = limit.now.number(1, kMostKilohertz);
    if (now && limit.at_start && *now < *limit.at_start) {
      findings.reasons.push_back(
          format_text("frequency capped at %.0f MHz (scaling_max_freq)", megahertz(*now)));
    }
    const auto firmware = limit.firmware.number(1, kMostKilohertz);
    if (firmware && limit.hardware && *firmware < *limit.hardware) {
      findings.reasons.push_back(
          format_text("frequency capped at %.0f MHz by the firmware (bios_limit)", megahertz(*firmware)));
    }
  }
}

// What has happened "since boot" and had not at the reading before, has happened in between.
void ThrottleProbe::read_raspberry(Findings& findings) {
  for (const ProbeFile& alarm : voltage_alarms_) {
    const auto value = alarm.number(0, 1);
    if (!value) continue;
    findings.known = true;
    if (*value == 1) name_flags(1, findings.reasons);
  }
  const auto flags = raspberry_.flags();
  if (!flags) return;
  findings.known = true;
  const uint32_t since = flags_ ? (*flags & ~*flags_) >> 16 : 0;
  name_flags(*flags | since, findings.reasons);
  flags_ = flags;
}

ThrottleReading ThrottleProbe::read() {
  Findings findings;
  ThrottleReading reading;
  reading.events = read_counters(findings);
  read_coolers(findings);
  read_limits(findings);
  read_raspberry(findings);
  std::vector<std::string> reasons;
  for (std::string& reason : findings.reasons) {
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end())
      reasons.push_back(std::move(reason));
  }
  if (!reasons.empty()) {
    reading.throttled = true;
  } else if (findings.known) {
    reading.throttled = false;
  }
  reading.reason = join_words(reasons);
  return reading;
}

}  // namespace gantry::runtime
