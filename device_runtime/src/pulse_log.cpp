#include "device_runtime/src/pulse_log.h"

#include <time.h>

#include <algorithm>

namespace gantry::runtime {
namespace {

constexpr double kLeastShare = 100;  ///< of the time: a pulse takes one in so many parts

double now_ms() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

}  // namespace

void PulseLog::begin() {
  readings_.clear();
  sparse_ = 1;
  beat();
}

void PulseLog::look() {
  if (!pulse_ || (!readings_.empty() && now_ms() - readings_.back().at_ms < kLeastShare * cost_ms_ * sparse_))
    return;
  beat();
}

void PulseLog::beat() {
  if (!pulse_) return;
  const double begun = now_ms();
  const std::optional<CorePulse::Value> value = pulse_->beat();
  const double ended = now_ms();
  if (!value) return;
  const double cost = ended - begun;
  cost_ms_ = cost_ms_ > 0 ? std::min(cost_ms_, cost) : cost;
  if (readings_.size() >= kMostPulses) {
    size_t kept = 0;
    for (size_t i = 0; i < readings_.size(); i += 2) readings_[kept++] = readings_[i];
    readings_.resize(kept);
    sparse_ *= 2;
  }
  readings_.push_back({ended, *value});
}

}  // namespace gantry::runtime
