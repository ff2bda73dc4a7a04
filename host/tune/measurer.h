// How a tuner measures: an interface, so that a search can be tried without machines.
//
// A candidate is timed as a kernel in its network: the network is built with the candidates of several tasks
// in it, and the steps of each task are timed there, in turns with the same steps of the network as it is so
// far, by processes that run at the same time. What caches hold, what memory is near, which threads wait for
// which: all is as it will be. One build and one run measure a candidate of every task.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "host/records/record.h"
#include "host/tune/task.h"

namespace gantry::tune {

/// Of the time (or of what else is measured: host/tune/metric.h) with the trial to that with the base: below
/// 1 it is better. Amounts are in the metric's unit.
struct Ratio {
  double value = 1;
  /// 95 % interval, unless another confidence was asked for; of Effort::kQuick by what processes of one
  /// program are assumed to differ.
  double low = 0, high = std::numeric_limits<double>::infinity();
  double amount = 0, base_amount = 0;  ///< medians, of a run
  /// Medians of each process, in the order in which they ran.
  std::vector<double> process_amounts, base_process_amounts;

  bool is_gain() const { return high < 1; }
};

/// Of the intervals that decide, two-sided: half of what is left is the chance to take what is no faster.
inline constexpr double kConfidence = 0.95;

enum class Effort : uint8_t {
  kQuick,  ///< one process of each: to choose what is worth more
  kSure,   ///< several processes, for intervals that decide
};

/// Why there are no ratios; never Outcome::kMeasured.
struct Failure {
  records::Outcome outcome = records::Outcome::kCrashed;
  std::string why;
};

struct Batch {
  std::optional<Failure> failure;  ///< of at least one of the trials, nobody knows of which
  std::vector<Ratio> ratios;       ///< parallel to the trials
  Ratio whole;                     ///< of the whole network
};

/// What the network takes, in one process.
struct Profile {
  double whole = 0;
  std::vector<double> tasks;  ///< parallel to the tasks
};

/// Belongs to one thread. Errors: board errors where the machine is gone and does not come back; user errors
/// for what no trial has caused.
class Measurer {
 public:
  virtual ~Measurer() = default;
  virtual Profile profile(const Choices& choices) = 0;
  /// Why there is no program by these choices; none: there is one, and what is measured of it next finds it
  /// built. Errors: user errors for what is not the choices' fault.
  virtual std::optional<Failure> build_failure(const Choices& choices) = 0;
  /// The base with all trials of a batch, at most one a task, against the base; each batch by itself. `base`
  /// is a program that runs.
  virtual std::vector<Batch> measure(const Choices& base, const std::vector<std::vector<Trial>>& batches,
                                     Effort effort) = 0;
  /// Each of the others against the base: `whole` alone.
  virtual std::vector<Batch> measure_whole(const Choices& base, const std::vector<Choices>& others,
                                           Effort effort) = 0;
  /// Batches that are best handed over together: some are built, or measured elsewhere, while others are
  /// measured.
  virtual size_t batches_at_once() const { return 1; }
  /// Seconds in which it has waited for others who measure on the same machine, so far.
  virtual double waited_s() const { return 0; }
  /// The whole network, as `gantry compare` does: new rounds begin until `seconds` have passed. `confidence`:
  /// of the interval, two-sided, in (0, 1); of what is counted and not timed nothing depends on it. Failures
  /// as measure().
  virtual Batch compare(const Choices& base, const Choices& other, double seconds, double confidence) = 0;
};

/// What is found out of decisions on the host.
struct Look {
  std::optional<std::string> misfit;  ///< it fits no kernel
  std::vector<float> features;        ///< as Prospect::features
  std::optional<double> predicted;
};
class Screen {
 public:
  virtual ~Screen() = default;
  /// Of each decision for the task.
  virtual std::vector<Look> look_at(size_t task, const std::vector<Decision>& decisions) = 0;
};

/// Seconds since some moment.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double seconds() const = 0;
};

}  // namespace gantry::tune
