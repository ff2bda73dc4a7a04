#include "device_runtime/src/reading_log.h"

#include <algorithm>
#include <numeric>

namespace gantry::runtime {
namespace {

// Readings share a report of at most a megabyte with the samples and the kernels.
constexpr size_t kReportBytes = 96u << 10;
constexpr size_t kBytesOfReading = 128, kBytesOfClock = 8;
constexpr double kMostOfTheTime = 0.05;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The share of [begin, middle] and [middle, end] together, of their shares.
std::optional<double> joined(std::optional<double> first, double first_ms, std::optional<double> second,
                             double second_ms) {
  if (!first || !second) return second ? second : first;
  const double all = first_ms + second_ms;
  return all > 0 ? (*first * first_ms + *second * second_ms) / all : *second;
}

}  // namespace

ReadingLog::ReadingLog(size_t cpus)
    : capacity_(std::clamp<size_t>(kReportBytes / (kBytesOfReading + kBytesOfClock * cpus), 16, 512)) {}

void ReadingLog::Mean::add(double value, double at_ms) {
  if (!first) first = value;
  sum += value * (at_ms - last_ms);
  weight += at_ms - last_ms;
  last_ms = at_ms;
}

std::optional<double> ReadingLog::Mean::value() const {
  return weight > 0 ? std::optional(sum / weight) : first;
}

void ReadingLog::count(const ProbeReading& reading) {
  const double at = reading.at_ms;
  if (!reading.clock_mhz.empty()) clock_.add(mean_of(reading.clock_mhz), at);
  if (reading.others_share) others_.add(*reading.others_share, at);
  if (reading.steal_share) steal_.add(*reading.steal_share, at);
  if (reading.temperature_c) {
    summary_.highest_temperature_c =
        std::max(summary_.highest_temperature_c.value_or(*reading.temperature_c), *reading.temperature_c);
  }
  if (reading.throttle_count) {
    if (!first_count_) first_count_ = reading.throttle_count;
    summary_.throttle_events = *reading.throttle_count - *first_count_;
  }
  if (reading.throttled) summary_.throttled = summary_.throttled.value_or(false) || *reading.throttled;
  summary_.energy_j = reading.energy_j;
}

void ReadingLog::add(ProbeReading reading, double started_ms, double now_ms) {
  count(reading);
  readings_.push_back(std::move(reading));
  if (readings_.size() > capacity_) thin_out();
  next_ms_ = now_ms + std::max(interval_ms_, (now_ms - started_ms) / kMostOfTheTime);
}

// The first one stays, as what the others are compared with; the last one is not here yet.
void ReadingLog::thin_out() {
  std::vector<ProbeReading> kept;
  double before_ms = 0;
  for (size_t i = 0; i < readings_.size(); ++i) {
    if (i % 2 == 1 && i + 1 < readings_.size()) {
      const ProbeReading& left_out = readings_[i];
      ProbeReading& next = readings_[i + 1];
      const double first = left_out.at_ms - before_ms, second = next.at_ms - left_out.at_ms;
      next.others_share = joined(left_out.others_share, first, next.others_share, second);
      next.steal_share = joined(left_out.steal_share, first, next.steal_share, second);
      if (left_out.throttled == true) next.throttled = true;
      if (left_out.gpu.throttled == true) next.gpu.throttled = true;
      continue;
    }
    before_ms = readings_[i].at_ms;
    kept.push_back(std::move(readings_[i]));
  }
  readings_ = std::move(kept);
  interval_ms_ *= 2;
}

ReadingSummary ReadingLog::summary() const {
  ReadingSummary summary = summary_;
  summary.mean_clock_mhz = clock_.value();
  summary.others_share = others_.value();
  summary.steal_share = steal_.value();
  return summary;
}

}  // namespace gantry::runtime
