#include "host/cli/measurement.h"

#include <algorithm>

#include "host/cli/statistics/disturbance.h"

namespace gantry::cli {

namespace {

size_t count_of(const std::vector<bool>& flags) {
  return static_cast<size_t>(std::ranges::count(flags, true));
}

/// Whether what counts allows an interval, where all of `samples` would: several processes, or samples
/// enough of a single one.
bool enough_for_interval(const Measurement& measurement, size_t samples) {
  return measurement.undisturbed_processes > 1 ||
         measurement.samples_ms().size() >= std::min(samples, kFewestSamples);
}

}  // namespace

std::vector<double> ProcessMeasurement::used_samples_ms() const {
  if (left_out.empty()) return samples_ms;
  std::vector<double> used;
  for (size_t i = 0; i < samples_ms.size(); ++i) {
    if (!left_out[i]) used.push_back(samples_ms[i]);
  }
  return used;
}

std::vector<double> Measurement::samples_ms() const {
  std::vector<double> all;
  for (const ProcessMeasurement& process : processes) {
    const std::vector<double> used = process.used_samples_ms();
    all.insert(all.end(), used.begin(), used.end());
  }
  return all;
}

std::optional<double> Measurement::disturbed_share() const {
  double disturbed = 0, all = 0;
  for (const ProcessMeasurement& process : processes) {
    if (!process.disturbed) continue;
    disturbed += *process.disturbed * static_cast<double>(process.samples_ms.size());
    all += static_cast<double>(process.samples_ms.size());
  }
  return all > 0 ? std::optional(disturbed / all) : std::nullopt;
}

double Measurement::disturbed_speed() const {
  if (!undisturbed_pulse) return 1;
  double sum = 0, count = 0;
  for (const ProcessMeasurement& process : processes) {
    for (const rpc::CorePulse& pulse : process.pulses) {
      if (!is_disturbed(pulse, *undisturbed_pulse)) continue;
      sum += *undisturbed_pulse / pulse.value;
      ++count;
    }
  }
  return count > 0 ? sum / count : 1;
}

std::optional<double> level_of(std::span<const Measurement* const> measurements) {
  std::vector<double> values;
  for (const Measurement* measurement : measurements) {
    for (const ProcessMeasurement& process : measurement->processes) {
      for (const rpc::CorePulse& pulse : process.pulses) values.push_back(pulse.lowest);
    }
  }
  return level_of_pulses(values);
}

std::vector<bool> disturbed_samples(const ProcessMeasurement& process, const std::optional<double>& level) {
  const bool known = level && !process.pulses.empty() && !process.runs_per_second &&
                     process.started_ms.size() == process.samples_ms.size();
  return known ? disturbed_samples(process.started_ms, process.pulses, *level) : std::vector<bool>();
}

void leave_out_disturbed(Measurement& measurement, const std::optional<double>& level) {
  measurement.undisturbed_pulse = level;
  measurement.undisturbed_processes = 0;
  size_t samples = 0;
  for (ProcessMeasurement& process : measurement.processes) {
    process.left_out = disturbed_samples(process, level);
    process.disturbed.reset();
    samples += process.samples_ms.size();
    const size_t all = process.samples_ms.size(), disturbed = count_of(process.left_out);
    if (!process.left_out.empty())
      process.disturbed = static_cast<double>(disturbed) / static_cast<double>(all);
    if (enough_undisturbed(all - disturbed, all)) {
      ++measurement.undisturbed_processes;
    } else {
      process.left_out.assign(all, true);
    }
  }
  measurement.uses_disturbed =
      measurement.undisturbed_processes == 0 || !enough_for_interval(measurement, samples);
  if (!measurement.uses_disturbed) return;
  for (ProcessMeasurement& process : measurement.processes) process.left_out.clear();
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
    ProcessSamples speed{process.runs_per_second ? std::vector<double>{1000 / *process.runs_per_second}
                                                 : process.used_samples_ms()};
    if (!speed.samples_ms.empty()) result.push_back(std::move(speed));
  }
  return result;
}

void keep_last(Measurement& measurement, const rpc::BenchmarkResult& last, bool own_load) {
  measurement.last = last;
  if (!last.reading_cpus.empty()) measurement.reading_cpus = last.reading_cpus;
  std::vector<std::string>& notes = measurement.probe_notes;
  for (const std::string& note : last.probe_notes) {
    if (own_load && note.starts_with("load: ")) continue;
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
  }
}

void add_work(std::vector<rpc::OtherWork>& all, const std::vector<rpc::OtherWork>& more) {
  for (const rpc::OtherWork& work : more) {
    const auto same = std::ranges::find_if(all, [&](const rpc::OtherWork& known) {
      return known.key == work.key && known.address == work.address;
    });
    if (same == all.end()) {
      all.push_back(work);
      continue;
    }
    const auto add = [](rpc::OtherWork::Amount& sum, const rpc::OtherWork::Amount& amount) {
      sum.count += amount.count;
      sum.ms += amount.ms;
    };
    add(same->runs, work.runs);
    add(same->loads, work.loads);
    add(same->transfers, work.transfers);
  }
}

}  // namespace gantry::cli
