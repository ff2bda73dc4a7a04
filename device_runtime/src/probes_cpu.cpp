#include "device_runtime/src/probes_cpu.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "device_runtime/src/status.h"

namespace gantry::runtime {
namespace {

constexpr int64_t kMostKilohertz = 100'000'000;
constexpr int64_t kLeastMillicelsius = -60'000, kMostMillicelsius = 200'000;

/// Where a link leads, or the path itself.
std::string link_target(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), target, sizeof target);
  return length > 0 ? std::string(target, static_cast<size_t>(length)) : path;
}

std::optional<double> parse_decimal(const char* text) {
  char* end = nullptr;
  const double value = strtod(text, &end);
  return end != text && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

/// What stands behind "NAME : " in a line of /proc/cpuinfo; null where the line says something else.
const char* value_of(const char* line, const char* name) {
  const size_t length = strlen(name);
  if (strncmp(line, name, length) != 0) return nullptr;
  line += length + strspn(line + length, " \t");
  return *line == ':' ? line + 1 + strspn(line + 1, " \t") : nullptr;
}

/// Calls visit(line) for each line of a text, null-terminated.
template <typename Visit>
void for_each_line(std::string& text, const Visit& visit) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    text[end] = 0;
    visit(text.c_str() + at);
    at = end + 1;
  }
}

bool contains_any(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return text.find(word) != std::string::npos; });
}

/// Drivers whose sensors are in a CPU; cpu_thermal and the like are boards' thermal zones.
bool is_cpu_driver(const std::string& name) {
  for (const char* driver : {"coretemp", "k10temp", "zenpower", "via_cputemp"}) {
    if (name == driver) return true;
  }
  return name.starts_with("cpu") && name.ends_with("thermal");
}

bool is_cpu_zone(std::string type) {
  for (char& c : type) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (contains_any(type, {"gpu", "bat", "wifi", "modem", "charger"})) return false;
  return contains_any(type, {"cpu", "soc", "pkg", "package", "bigcore", "littlecore", "cluster"});
}

}  // namespace

std::optional<ClockDomains> find_clock_domains(const std::string& root, std::span<const int> cpus) {
  ClockDomains domains;
  std::vector<std::string> targets;
  for (const int cpu : cpus) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq";
    if (access(folder.c_str(), X_OK) != 0) return std::nullopt;
    const std::string target = link_target(folder);
    const auto known = std::find(targets.begin(), targets.end(), target);
    domains.of_cpu.push_back(static_cast<size_t>(known - targets.begin()));
    if (known != targets.end()) continue;
    targets.push_back(target);
    domains.folders.push_back(folder);
  }
  if (domains.folders.empty()) return std::nullopt;
  return domains;
}

ClockProbe::ClockProbe(const std::string& root, std::span<const int> cpus)
    : cpus_(cpus.begin(), cpus.end()), domains_(find_clock_domains(root, cpus)) {
  for (size_t i = 0; domains_ && i < domains_->folders.size(); ++i) {
    ProbeFile file(domains_->folders[i] + "/scaling_cur_freq");
    if (!file.number(1, kMostKilohertz)) break;
    current_.push_back(std::move(file));
  }
  if (domains_ && current_.size() == domains_->folders.size()) return;
  current_.clear();
  use_cpuinfo(root);
}

void ClockProbe::use_cpuinfo(const std::string& root) {
  ProbeFile file(root + "/proc/cpuinfo");
  std::string text = file.text(64u << 10).value_or("");
  bool measured = false;
  std::optional<double> nominal;
  for_each_line(text, [&](const char* line) {
    if (const char* flags = value_of(line, "flags")) measured = strstr(flags, " aperfmperf") != nullptr;
    if (const char* mhz = value_of(line, "cpu MHz"); mhz != nullptr && !nominal) nominal = parse_decimal(mhz);
  });
  if (measured) {
    cpuinfo_ = std::move(file);
  } else if (nominal && *nominal > 0 && *nominal < 1e5) {
    notes_.push_back(format_text("clock: not shown here; %.0f MHz by name", *nominal));
  }
}

std::vector<double> ClockProbe::read_mhz() const {
  if (current_.empty()) return cpuinfo_.is_open() ? read_cpuinfo() : std::vector<double>();
  std::vector<double> of_domain, mhz;
  for (const ProbeFile& file : current_) {
    const auto kilohertz = file.number(1, kMostKilohertz);
    if (!kilohertz) return {};
    of_domain.push_back(static_cast<double>(*kilohertz) * 1e-3);
  }
  for (const size_t domain : domains_->of_cpu) mhz.push_back(of_domain[domain]);
  return mhz;
}

std::vector<double> ClockProbe::read_cpuinfo() const {
  std::string text = cpuinfo_.text(4u << 20).value_or("");
  std::vector<double> mhz(cpus_.size(), 0);
  int cpu = -1;
  for_each_line(text, [&](const char* line) {
    if (const char* number = value_of(line, "processor")) cpu = atoi(number);
    const char* value = value_of(line, "cpu MHz");
    if (value == nullptr) return;
    const double clock = parse_decimal(value).value_or(0);
    for (size_t i = 0; i < cpus_.size(); ++i) {
      if (cpus_[i] == cpu) mhz[i] = clock;
    }
  });
  const bool all = std::all_of(mhz.begin(), mhz.end(), [](double clock) { return clock > 0 && clock < 1e5; });
  return all ? mhz : std::vector<double>();
}

std::optional<double> ClockProbe::limit_mhz() const {
  std::optional<double> limit;
  for (size_t i = 0; domains_ && i < domains_->folders.size(); ++i) {
    const auto kilohertz = ProbeFile(domains_->folders[i] + "/scaling_max_freq").number(1, kMostKilohertz);
    if (kilohertz) limit = std::max(limit.value_or(0), static_cast<double>(*kilohertz) * 1e-3);
  }
  return limit;
}

std::optional<std::string> ClockProbe::governor() const {
  std::vector<std::string> names;
  for (size_t i = 0; domains_ && i < domains_->folders.size(); ++i) {
    const std::string name = read_label(domains_->folders[i] + "/scaling_governor");
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names.empty() ? std::nullopt : std::optional(join_words(names));
}

TemperatureProbe::TemperatureProbe(const std::string& root) {
  const std::string chips = root + "/sys/class/hwmon/";
  for (const std::string& chip : list_folder(chips, "hwmon")) {
    const std::string name = read_label(chips + chip + "/name");
    if (is_cpu_driver(name)) add_hwmon(chips + chip, name);
  }
  if (!sensors_.empty()) return;
  const std::string zones = root + "/sys/class/thermal/";
  std::vector<std::string> names;
  for (const std::string& zone : list_folder(zones, "thermal_zone")) {
    const std::string type = read_label(zones + zone + "/type");
    ProbeFile file(zones + zone + "/temp");
    // A zone that is switched off cannot be read, or shows what cannot be.
    if (!is_cpu_zone(type) || !file.number(kLeastMillicelsius, kMostMillicelsius)) continue;
    sensors_.push_back(std::move(file));
    names.push_back(type);
  }
  if (!names.empty()) source_ = "thermal zones " + join_words(names);
}

// A core's sensor is asked by interrupting that core: where the package shows its hottest, that is enough.
// AMD's Tctl is what fans are told, which on some CPUs is 10 or more above what it stands for.
void TemperatureProbe::add_hwmon(const std::string& folder, const std::string& name) {
  std::vector<std::pair<std::string, ProbeFile>> found;
  for (const std::string& entry : list_folder(folder, "temp")) {
    if (!entry.ends_with("_input")) continue;
    ProbeFile file(folder + "/" + entry);
    if (!file.number(kLeastMillicelsius, kMostMillicelsius)) continue;
    const std::string stem = entry.substr(0, entry.size() - strlen("_input"));
    found.emplace_back(read_label(folder + "/" + stem + "_label"), std::move(file));
  }
  const auto any = [&](const auto& matches) {
    return std::any_of(found.begin(), found.end(), [&](const auto& sensor) { return matches(sensor.first); });
  };
  const auto is_package = [](const std::string& label) { return label.starts_with("Package"); };
  const auto is_control = [](const std::string& label) { return label == "Tctl"; };
  const auto is_die = [](const std::string& label) { return label == "Tdie"; };
  const bool package = any(is_package), die = any(is_die);
  for (auto& [label, file] : found) {
    if ((package && !is_package(label)) || (die && is_control(label))) continue;
    sensors_.push_back(std::move(file));
    if (source_.empty()) source_ = "hwmon " + name;
  }
}

std::optional<double> TemperatureProbe::read_celsius() const {
  std::optional<double> hottest;
  for (const ProbeFile& file : sensors_) {
    const auto value = file.number(kLeastMillicelsius, kMostMillicelsius);
    if (!value) continue;
    const double celsius = static_cast<double>(*value) * 1e-3;
    if (!hottest || celsius > *hottest) hottest = celsius;
  }
  return hottest;
}

LoadProbe::LoadProbe(const std::string& root, double (*own_seconds)())
    : stat_(root + "/proc/stat"), own_seconds_(own_seconds), before_(read_ticks()) {
  const std::string average = ProbeFile(root + "/proc/loadavg").text(64).value_or("");
  const auto value = parse_decimal(average.c_str());
  if (value && *value >= 0 && *value < 1e6) load_before_ = value;
}

// The line of all CPUs: user, nice, system, idle, iowait, irq, softirq, steal; guests count as user already.
std::optional<LoadProbe::Ticks> LoadProbe::read_ticks() const {
  constexpr size_t kIdle = 3, kWaiting = 4, kStolen = 7;
  const std::string text = stat_.text(512).value_or("");
  if (!text.starts_with("cpu ")) return std::nullopt;
  const char* at = text.c_str() + 4;
  Ticks ticks;
  for (size_t i = 0; i <= kStolen; ++i) {
    char* end = nullptr;
    const auto value = static_cast<double>(strtoull(at, &end, 10));
    if (end == at) return std::nullopt;
    at = end;
    ticks.all += value;
    if (i == kStolen) {
      ticks.stolen = value;
    } else if (i != kIdle && i != kWaiting) {
      ticks.busy += value;
    }
  }
  ticks.own = own_seconds_() * static_cast<double>(sysconf(_SC_CLK_TCK));
  return ticks;
}

LoadReading LoadProbe::read(bool last) {
  constexpr double kLeastTicks = 100, kLeastOfLast = 20;
  const auto now = read_ticks();
  if (!now || !before_) return {};
  const double all = now->all - before_->all;
  if (all < (last ? kLeastOfLast : kLeastTicks)) return {};
  const auto share = [&](double ticks) { return std::clamp(ticks / all, 0.0, 1.0); };
  LoadReading reading;
  reading.others_share = share((now->busy - before_->busy) - (now->own - before_->own));
  reading.steal_share = share(now->stolen - before_->stolen);
  before_ = now;
  return reading;
}

}  // namespace gantry::runtime
