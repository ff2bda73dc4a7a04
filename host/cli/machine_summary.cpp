#include <algorithm>
#include <functional>

#include "host/cli/bench_report.h"

namespace gantry::cli {
namespace {

/// Adds up what is shown; says nothing where nothing was.
class Mean {
 public:
  void add(const std::optional<double>& value) {
    if (!value) return;
    sum_ += *value;
    ++count_;
  }
  std::optional<double> value() const {
    return count_ == 0 ? std::nullopt : std::optional(sum_ / static_cast<double>(count_));
  }

 private:
  double sum_ = 0;
  size_t count_ = 0;
};

template <typename T, typename Better>
void take_better(std::optional<T>& best, const std::optional<T>& value, Better better) {
  if (value && (!best || better(*value, *best))) best = value;
}

void raise_flag(std::optional<bool>& flag, const std::optional<bool>& value) {
  if (value) flag = flag.value_or(false) || *value;
}

/// What a counter that runs on, of those readings that show it, has grown by.
template <typename T>
std::optional<T> growth(const std::vector<rpc::ProbeReading>& readings,
                        std::optional<T> rpc::ProbeReading::*counter) {
  std::optional<T> first, last;
  for (const rpc::ProbeReading& reading : readings) {
    if (!(reading.*counter)) continue;
    if (!first) first = reading.*counter;
    last = reading.*counter;
  }
  return first ? std::optional<T>(*last - *first) : std::nullopt;
}

template <typename T>
void add_to(std::optional<T>& sum, const std::optional<T>& value) {
  if (value) sum = sum.value_or(T{}) + *value;
}

}  // namespace

MachineSummary summarise_machine(const Measurement& measurement) {
  MachineSummary summary;
  Mean clock, power, others, steal, gpu_clock, gpu_power;
  for (const ProcessMeasurement& process : measurement.processes) {
    for (const rpc::ProbeReading& reading : process.readings) {
      for (double mhz : reading.clock_mhz) {
        clock.add(mhz);
        take_better(summary.clock_mhz_min, std::optional(mhz), std::less<>());
        take_better(summary.clock_mhz_max, std::optional(mhz), std::greater<>());
      }
      take_better(summary.temperature_celsius_max, reading.temperature_celsius, std::greater<>());
      take_better(summary.gpu_temperature_celsius_max, reading.gpu_temperature_celsius, std::greater<>());
      raise_flag(summary.throttled, reading.throttled);
      raise_flag(summary.gpu_throttled, reading.gpu_throttled);
      power.add(reading.power_watts);
      others.add(reading.others_share);
      steal.add(reading.steal_share);
      gpu_clock.add(reading.gpu_clock_mhz);
      gpu_power.add(reading.gpu_power_watts);
    }
    add_to(summary.throttle_events, growth(process.readings, &rpc::ProbeReading::throttle_events));
    add_to(summary.energy_joules, growth(process.readings, &rpc::ProbeReading::energy_joules));
  }
  summary.clock_mhz_mean = clock.value();
  summary.power_watts = power.value();
  summary.others_share = others.value();
  summary.steal_share = steal.value();
  summary.gpu_clock_mhz = gpu_clock.value();
  summary.gpu_power_watts = gpu_power.value();
  return summary;
}

}  // namespace gantry::cli
