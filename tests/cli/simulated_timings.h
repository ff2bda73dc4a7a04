// Timings that are made up, and how often a rule may err in them.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "host/cli/statistics/comparison.h"

namespace gantry::cli {

/// What scatters in a simulated measurement; standard deviations, relative.
struct Scatter {
  double between = 0.01;    ///< of processes
  double within = 0.02;     ///< of the samples of one
  double correlation = 0;   ///< of neighbouring samples: AR(1)
  double slow_samples = 0;  ///< share of samples that take 10 to 100 % longer
  double loaded = 0;        ///< share of segments that another program slows by 30 to 100 %
};

class SimulatedTimings {
 public:
  explicit SimulatedTimings(uint64_t seed) : generator_(seed) {}

  double normal() { return normal_(generator_); }
  double uniform() { return uniform_(generator_); }

  /// Samples around 10 ms times exp(`effect`).
  ProcessSamples process(const Scatter& scatter, int samples, double effect = 0) {
    ProcessSamples result;
    const double middle = effect + scatter.between * normal();
    double noise = normal();
    for (int i = 0; i < samples; ++i) {
      if (i > 0) noise = next(noise, scatter.correlation);
      double log = middle + scatter.within * noise;
      if (uniform() < scatter.slow_samples) log += 0.1 + 0.6 * uniform() * uniform();
      result.samples_ms.push_back(10 * std::exp(log));
    }
    return result;
  }

  std::vector<ProcessSamples> processes(const Scatter& scatter, int count, int samples, double effect = 0) {
    std::vector<ProcessSamples> result;
    for (int i = 0; i < count; ++i) result.push_back(process(scatter, samples, effect));
    return result;
  }

  Round round(const Scatter& scatter, int pairs, double effect = 0) {
    Round result;
    const double base = scatter.between * normal(), other = effect + scatter.between * normal();
    for (int i = 0; i < pairs; ++i) result.pairs.push_back({segment(scatter, base), segment(scatter, other)});
    return result;
  }

  std::vector<Round> rounds(const Scatter& scatter, int count, int pairs, double effect = 0) {
    std::vector<Round> result;
    for (int i = 0; i < count; ++i) result.push_back(round(scatter, pairs, effect));
    return result;
  }

 private:
  double next(double noise, double correlation) {
    return correlation * noise + std::sqrt(1 - correlation * correlation) * normal();
  }
  double segment(const Scatter& scatter, double middle) {
    const double slow = uniform() < scatter.loaded ? std::log(1.3 + 0.7 * uniform()) : 0;
    return 10 * std::exp(middle + scatter.within * normal() + slow);
  }

  std::mt19937_64 generator_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
};

inline bool claims_difference(const Comparison& c) {
  return c.verdict == Verdict::kFaster || c.verdict == Verdict::kSlower;
}

/// Most of `trials` that a rule which errs in the share `rate` may err in: three standard deviations more
/// than it does on average (the seeds are fixed, so that a test that passes keeps passing).
inline int most_of(int trials, double rate) {
  return static_cast<int>(trials * rate + 3 * std::sqrt(trials * rate * (1 - rate)));
}

}  // namespace gantry::cli
