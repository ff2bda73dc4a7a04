// A made-up machine whose cores others use from time to time.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "rpc/client/types.h"
#include "tests/cli/simulated_timings.h"

namespace gantry::cli {

struct Disturbances {
  double share = 0.3;      ///< of the time
  double stretch_s = 1;    ///< how long one lasts, on average
  double slowdown = 1.45;  ///< of programs; pulses take 1.15 to 1.75 times as long
};

/// What a process of `samples` has gathered.
struct SimulatedProcess {
  std::vector<double> samples_ms, started_ms;
  std::vector<rpc::CorePulse> pulses;
};

/// Time passes while it is measured.
class DisturbedMachine {
 public:
  static constexpr double kLevel = 1.223;

  DisturbedMachine(SimulatedTimings& random, const Disturbances& disturbances)
      : random_(random), what_(disturbances), disturbed_(random.uniform() < disturbances.share) {
    draw_change();
  }

  double now_ms() const { return now_ms_; }

  void pass(double ms) {
    for (double end = now_ms_ + ms; now_ms_ < end;) {
      const double step = std::min(end, change_ms_) - now_ms_;
      now_ms_ += step;
      if (now_ms_ >= change_ms_) change();
    }
  }
  /// A segment as the runtime measures one: pulses around samples of `run_ms` each, 20 ms apart.
  void measure(SimulatedProcess& process, double ms, double run_ms) {
    pulse(process);
    double last_pulse = now_ms_;
    for (const double end = now_ms_ + ms; now_ms_ < end;) {
      process.started_ms.push_back(now_ms_);
      process.samples_ms.push_back(run(run_ms * std::exp(0.01 * random_.normal())));
      if (now_ms_ - last_pulse < 20) continue;
      pulse(process);
      last_pulse = now_ms_;
    }
    if (last_pulse < now_ms_) pulse(process);
  }

 private:
  /// The time that takes what an undisturbed machine does in `ms`.
  double run(double ms) {
    const double begin = now_ms_;
    while (ms > 0) {
      const double rate = disturbed_ ? 1 / what_.slowdown : 1;
      const double step = std::min(ms / rate, change_ms_ - now_ms_);
      now_ms_ += step;
      ms -= step * rate;
      if (now_ms_ >= change_ms_) change();
      if (ms < 1e-9) break;
    }
    return now_ms_ - begin;
  }
  void pulse(SimulatedProcess& process) {
    const double factor = disturbed_ ? 1.15 + 0.6 * random_.uniform() : 1;
    pass(0.2);
    const double value = kLevel * factor * (1 + 0.0005 * random_.normal());
    process.pulses.push_back({now_ms_ - 0.1, value, value});
  }
  void change() {
    disturbed_ = !disturbed_;
    draw_change();
  }
  void draw_change() {
    const double mean_s =
        disturbed_ ? what_.stretch_s : what_.stretch_s * (1 - what_.share) / std::max(what_.share, 1e-6);
    change_ms_ = now_ms_ - 1e3 * mean_s * std::log(1 - random_.uniform()) + 1e-6;
  }

  SimulatedTimings& random_;
  Disturbances what_;
  bool disturbed_;
  double now_ms_ = 0, change_ms_ = 0;
};

}  // namespace gantry::cli
