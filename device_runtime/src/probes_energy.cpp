#include "device_runtime/src/probes_energy.h"

#include <algorithm>

#include "device_runtime/src/status.h"

namespace gantry::runtime {
namespace {

constexpr int64_t kMostMicrojoules = int64_t{1} << 60;
constexpr int64_t kMostReading = 1'000'000'000;  // of a power sensor, in any of its units

/// Adds what is known of both; nothing is known of a sum with an unknown part.
std::optional<double> sum(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(*a + *b) : std::nullopt;
}

/// Graphics cards measure their own chip or board, which may take no part.
bool is_graphics(const std::string& chip) {
  return chip == "amdgpu" || chip == "i915" || chip == "xe" || chip == "nouveau" || chip == "radeon";
}

bool is_power_sensor(const std::string& chip) {
  return chip.starts_with("ina2") || chip == "ina3221";
}

}  // namespace

EnergyProbe::EnergyProbe(const std::string& root) {
  if (!find_rapl(root) && !find_hwmon_counters(root)) find_rails(root);
}

void EnergyProbe::add_counter(ProbeFile file, std::optional<int64_t> range, const std::string& name) {
  Counter counter;
  counter.file = std::move(file);
  counter.range = range;
  counters_.push_back(std::move(counter));
  source_ += (source_.empty() ? "" : ", ") + name;
}

// Packages only: their cores, and on many machines their memory, are parts of them, and the same packages
// show up again as "intel-rapl-mmio".
bool EnergyProbe::find_rapl(const std::string& root) {
  const std::string folder = root + "/sys/class/powercap/";
  for (const std::string& domain : list_folder(folder, "intel-rapl:")) {
    if (std::count(domain.begin(), domain.end(), ':') != 1) continue;
    const std::string name = read_label(folder + domain + "/name");
    ProbeFile file(folder + domain + "/energy_uj");
    if (!name.starts_with("package") || !file.number(0, kMostMicrojoules)) continue;
    const auto range = ProbeFile(folder + domain + "/max_energy_range_uj").number(1, kMostMicrojoules);
    add_counter(std::move(file), range, counters_.empty() ? "RAPL " + name : name);
  }
  return !counters_.empty();
}

// A chip that counts sockets counts their cores beside them.
bool EnergyProbe::find_hwmon_counters(const std::string& root) {
  const std::string folder = root + "/sys/class/hwmon/";
  for (const std::string& name : list_folder(folder, "hwmon")) {
    const std::string chip = read_label(folder + name + "/name");
    if (is_graphics(chip)) continue;
    std::vector<std::pair<std::string, ProbeFile>> found;
    for (const std::string& entry : list_folder(folder + name, "energy")) {
      ProbeFile file(folder + name + "/" + entry);
      if (!entry.ends_with("_input") || !file.number(0, kMostMicrojoules)) continue;
      const std::string stem = entry.substr(0, entry.find('_'));
      const std::string label = read_label(folder + name + "/" + stem + "_label");
      found.emplace_back(label.empty() ? stem : label, std::move(file));
    }
    const auto is_socket = [](const auto& counter) { return counter.first.starts_with("Esocket"); };
    const bool sockets = std::any_of(found.begin(), found.end(), is_socket);
    for (auto& counter : found) {
      if (!sockets || is_socket(counter))
        add_counter(std::move(counter.second), std::nullopt, "hwmon " + chip + " " + counter.first);
    }
  }
  return !counters_.empty();
}

void EnergyProbe::find_rails(const std::string& root) {
  const std::string folder = root + "/sys/class/hwmon/";
  for (const std::string& name : list_folder(folder, "hwmon")) {
    const std::string chip = read_label(folder + name + "/name");
    if (is_power_sensor(chip)) add_hwmon_rails(folder + name, chip);
  }
  // The driver of NVIDIA's older kernels.
  const std::string devices = root + "/sys/bus/i2c/drivers/ina3221x/";
  for (const std::string& device : list_folder(devices, "")) {
    for (const std::string& iio : list_folder(devices + device, "iio:device"))
      add_old_jetson_rails(devices + device + "/" + iio);
  }
  keep_total_of_rails();
}

// An INA3221 has three lines; what it shows behind them are sums and shunts' voltages. Of an INA2xx, in0 is
// the shunt's voltage and in1 that of the line.
void EnergyProbe::add_hwmon_rails(const std::string& folder, const std::string& chip) {
  const int lines = chip == "ina3221" ? 3 : 1;
  for (int line = 1; line <= lines; ++line) {
    const std::string number = std::to_string(line);
    Rail rail;
    rail.name = read_label(folder + "/in" + number + "_label");
    if (rail.name.empty()) rail.name = read_label(folder + "/power" + number + "_label");
    if (rail.name.empty()) rail.name = read_label(folder + "/label");
    rail.power = ProbeFile(folder + "/power" + number + "_input");
    rail.volts = ProbeFile(folder + "/in" + number + "_input");
    rail.current = ProbeFile(folder + "/curr" + number + "_input");
    add_rail(std::move(rail), lines == 1 ? chip : chip + " line " + number);
  }
}

void EnergyProbe::add_old_jetson_rails(const std::string& folder) {
  for (const char* number : {"0", "1", "2"}) {
    Rail rail;
    rail.name = read_label(folder + "/rail_name_" + number);
    rail.power = ProbeFile(folder + "/in_power" + number + "_input");
    rail.watts_per_unit = 1e-3;
    rail.volts = ProbeFile(folder + "/in_voltage" + number + "_input");
    rail.current = ProbeFile(folder + "/in_current" + number + "_input");
    add_rail(std::move(rail), std::string("ina3221 line ") + number);
  }
}

/// A line that is switched off or not connected cannot be read, and is no part of the sum.
void EnergyProbe::add_rail(Rail rail, const std::string& chip) {
  if (!read_rail(rail)) return;
  rail.name = rail.name.empty() ? chip : chip.substr(0, chip.find(' ')) + " " + rail.name;
  rails_.push_back(std::move(rail));
}

// NVIDIA's boards name the line that feeds them; the others come off it.
void EnergyProbe::keep_total_of_rails() {
  const auto is_total = [](const Rail& rail) {
    return rail.name.ends_with(" VDD_IN") || rail.name.ends_with(" POM_5V_IN");
  };
  if (std::any_of(rails_.begin(), rails_.end(), is_total)) {
    rails_.erase(
        std::remove_if(rails_.begin(), rails_.end(), [&](const Rail& rail) { return !is_total(rail); }),
        rails_.end());
  }
  for (const Rail& rail : rails_) source_ += (source_.empty() ? "" : ", ") + rail.name;
}

void EnergyProbe::count(Counter& counter) {
  const auto now = counter.file.number(0, kMostMicrojoules);
  const int64_t last = counter.last.value_or(now.value_or(0));
  const bool went_around = now && *now < last;
  if (!now || (went_around && (!counter.range || last > *counter.range))) {
    counter.lost = true;
    return;
  }
  const int64_t difference = *now - last + (went_around ? *counter.range : 0);
  counter.microjoules += static_cast<double>(difference);
  counter.last = now;
}

std::optional<double> EnergyProbe::read_rail(const Rail& rail) {
  if (rail.power.is_open()) {
    const auto power = rail.power.number(0, kMostReading);
    return power ? std::optional(static_cast<double>(*power) * rail.watts_per_unit) : std::nullopt;
  }
  const auto millivolts = rail.volts.number(0, kMostReading);
  const auto milliamperes = rail.current.number(-kMostReading, kMostReading);
  if (!millivolts || !milliamperes) return std::nullopt;
  // A line at rest may show a little less than nothing.
  return std::max(0.0, static_cast<double>(*millivolts) * static_cast<double>(*milliamperes) * 1e-6);
}

std::optional<double> EnergyProbe::Difference::watts(double now_ms, std::optional<double> now_joules) {
  constexpr double kLeastMs = 1;  // RAPL moves once a millisecond
  std::optional<double> result;
  if (now_joules && joules && now_ms - ms >= kLeastMs) result = (*now_joules - *joules) / (now_ms - ms) * 1e3;
  joules = now_joules;
  ms = now_ms;
  return result;
}

double EnergyProbe::Integral::add(double now_ms, double now_watts) {
  if (watts) joules += 0.5 * (*watts + now_watts) * (now_ms - ms) * 1e-3;
  watts = now_watts;
  ms = now_ms;
  return joules;
}

EnergyReading EnergyProbe::read_counters(double now_ms) {
  double microjoules = 0;
  bool lost = false;
  for (Counter& counter : counters_) {
    if (!counter.lost) count(counter);
    lost = lost || counter.lost;
    microjoules += counter.microjoules;
  }
  if (lost) return {};
  const double joules = microjoules * 1e-6;
  return {joules, counters_power_.watts(now_ms, joules)};
}

EnergyReading EnergyProbe::read_rails(double now_ms) {
  double watts = 0;
  for (const Rail& rail : rails_) {
    const auto power = read_rail(rail);
    if (!power) return {};
    watts += *power;
  }
  return {rails_energy_.add(now_ms, watts), watts};
}

EnergyReading EnergyProbe::read_gpu(double now_ms, const Gpu& gpu) {
  if (gpu_source_ == GpuSource::kPower) {
    if (!gpu.watts) return {};
    return {gpu_energy_.add(now_ms, *gpu.watts), gpu.watts};
  }
  if (!gpu.joules || *gpu.joules < gpu_start_joules_) return {};
  const double joules = *gpu.joules - gpu_start_joules_;
  const auto mean = gpu_power_.watts(now_ms, joules);
  return {joules, gpu.watts ? gpu.watts : mean};
}

EnergyReading EnergyProbe::read(double now_ms, const Gpu* gpu) {
  if (gpu_source_ == GpuSource::kUnknown) {
    gpu_source_ = gpu == nullptr ? GpuSource::kNone
                  : gpu->joules  ? GpuSource::kCounter
                  : gpu->watts   ? GpuSource::kPower
                                 : GpuSource::kNone;
    if (gpu_source_ == GpuSource::kCounter) gpu_start_joules_ = *gpu->joules;
  }
  EnergyReading reading;
  if (!counters_.empty()) {
    reading = read_counters(now_ms);
  } else if (!rails_.empty()) {
    reading = read_rails(now_ms);
  }
  if (gpu_source_ == GpuSource::kNone) return reading;
  const EnergyReading of_gpu = gpu == nullptr ? EnergyReading{} : read_gpu(now_ms, *gpu);
  if (source_.empty()) return of_gpu;
  return {sum(reading.joules, of_gpu.joules), sum(reading.watts, of_gpu.watts)};
}

std::string EnergyProbe::source() const {
  if (gpu_source_ == GpuSource::kUnknown || gpu_source_ == GpuSource::kNone) return source_;
  return source_.empty() ? "GPU" : source_ + ", GPU";
}

}  // namespace gantry::runtime
