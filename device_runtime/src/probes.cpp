#include "device_runtime/src/probes.h"

#include <time.h>

#include <algorithm>
#include <numeric>

#include "device_runtime/src/status.h"

namespace gantry::runtime {
namespace {

constexpr size_t kMostReasons = 20;  // they hold figures, which may change at every reading

double process_cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// "/" and "" are the same root; the files' paths start with a slash.
std::string without_slash(std::string root) {
  while (root.ends_with('/')) root.pop_back();
  return root;
}

}  // namespace

Probes::Probes(const ProbeOptions& options)
    : cpus_(options.cpus),
      gpu_bus_id_(options.gpu_bus_id),
      read_gpu_(options.read_gpu == nullptr ? read_gpu_state : options.read_gpu),
      clock_(without_slash(options.root), cpus_),
      temperature_(without_slash(options.root)),
      throttle_(without_slash(options.root), cpus_, options.ioctl),
      energy_(without_slash(options.root)),
      load_(without_slash(options.root),
            options.own_cpu_seconds == nullptr ? process_cpu_seconds : options.own_cpu_seconds) {}

ProbeReading Probes::read(double now_ms, bool last) {
  ProbeReading reading;
  if (!start_ms_) start_ms_ = now_ms;
  reading.at_ms = now_ms - *start_ms_;
  // First, before the work of reading shows in it.
  reading.clock_mhz = clock_.read_mhz();
  reading.temperature_c = temperature_.read_celsius();
  ThrottleReading throttle = throttle_.read();
  reading.throttle_count = throttle.events;
  reading.throttled = throttle.throttled;
  const bool is_new = std::find(reasons_.begin(), reasons_.end(), throttle.reason) == reasons_.end();
  if (throttle.throttled == true && is_new && reasons_.size() < kMostReasons)
    reasons_.push_back(std::move(throttle.reason));
  std::optional<EnergyProbe::Gpu> gpu_energy;
  if (!gpu_bus_id_.empty()) {
    reading.gpu = read_gpu_(gpu_bus_id_);
    gpu_energy = EnergyProbe::Gpu{reading.gpu.energy_j, reading.gpu.power_watts};
  }
  const EnergyReading energy = energy_.read(reading.at_ms, gpu_energy ? &*gpu_energy : nullptr);
  reading.energy_j = energy.joules;
  reading.power_w = energy.watts;
  const LoadReading load = load_.read(last);
  reading.others_share = load.others_share;
  reading.steal_share = load.steal_share;
  return reading;
}

std::vector<std::string> Probes::notes() const {
  std::vector<std::string> notes = clock_.notes();
  if (!temperature_.source().empty()) notes.push_back("temperature: " + temperature_.source());
  if (const std::string source = energy_.source(); !source.empty()) notes.push_back("energy: " + source);
  if (const auto load = load_.load_before())
    notes.push_back(format_text("load: %.2f tasks in the minute before the run", *load));
  notes.insert(notes.end(), throttle_.notes().begin(), throttle_.notes().end());
  for (const std::string& reason : reasons_) notes.push_back("throttled: " + reason);
  return notes;
}

CpuState Probes::cpu_state(const ProbeReading& reading) const {
  CpuState state;
  const std::vector<double>& clocks = reading.clock_mhz;
  if (!clocks.empty()) {
    state.frequency_mhz =
        std::accumulate(clocks.begin(), clocks.end(), 0.0) / static_cast<double>(clocks.size());
  }
  state.max_frequency_mhz = clock_.limit_mhz();
  state.temperature_c = reading.temperature_c;
  state.throttle_count = reading.throttle_count;
  state.governor = clock_.governor().value_or("");
  return state;
}

}  // namespace gantry::runtime
