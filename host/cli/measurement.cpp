#include "host/cli/measurement.h"

namespace gantry::cli {

std::vector<double> Measurement::samples_ms() const {
  std::vector<double> all;
  for (const ProcessMeasurement& process : processes) {
    all.insert(all.end(), process.samples_ms.begin(), process.samples_ms.end());
  }
  return all;
}

double Measurement::speed_ms() const {
  if (interval) return interval->median_ms;
  std::vector<double> medians;
  for (const ProcessSamples& process : speed_of(processes)) medians.push_back(median_of(process.samples_ms));
  return median_of(medians);
}

std::vector<ProcessSamples> speed_of(std::span<const ProcessMeasurement> processes) {
  std::vector<ProcessSamples> result;
  for (const ProcessMeasurement& process : processes) {
    result.push_back({process.runs_per_second ? std::vector<double>{1000 / *process.runs_per_second}
                                              : process.samples_ms});
  }
  return result;
}

}  // namespace gantry::cli
