#include "host/cli/compare_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/cli/measured_process.h"
#include "host/support/random.h"
#include "host/support/stopwatch.h"

namespace gantry::cli {
namespace {

/// Short, so that both programs see the same machine; long beside what changing over costs.
constexpr double kSegmentMs = 50;
/// A segment starts with caches that hold the other program's data, on threads that slept.
constexpr double kSettleMs = 5;
/// A round's samples should take about as long as its start and warm-up.
constexpr double kRoundMs = 800;
/// Of each side. The other side is as warm, so that a trend that is left touches both; more rounds tell more.
constexpr double kFirstWarmUpMs = 2500, kLaterWarmUpMs = 500;
constexpr double kFewestPairs = 3, kMostPairs = 8;

class Match {
 public:
  Match(Contestant first, Contestant second, const CompareMeasureOptions& options,
        const MeasureProgress& progress)
      : sides_{first, second}, options_(options), progress_(progress), random_(options.seed, "order") {
    rule_.goal = options.statistics.smallest_effect;
    rule_.time_limit_s = options.duration_s;
  }

  LiveComparison run() {
    for (bool more = true; more;) {
      if (!rounds_.empty()) {
        for (Contestant& side : sides_) side.restart(side.execution);
      }
      play_round();
      more = wants_another();
    }
    LiveComparison result;
    result.comparison = compare_rounds(rounds_, options_.statistics);
    result.first = std::move(measured_[0]);
    result.second = std::move(measured_[1]);
    result.stopped = stopped_;
    result.elapsed_s = whole_.seconds();
    return result;
  }

 private:
  /// Which side goes first.
  size_t draw() { return random_.uniform() < 0.5 ? 0 : 1; }

  void tell(const char* what) const {
    const double by_time = whole_.seconds() / options_.duration_s;
    const double by_count = options_.rounds ? static_cast<double>(rounds_.size()) / *options_.rounds : 0;
    progress_(fmt::format("{}, round {}", what, rounds_.size() + 1),
              std::min(1.0, std::max(by_time, by_count)));
  }

  void play_round() {
    MeasuredProcess processes[] = {process_of(0), process_of(1)};
    const size_t starter = draw();
    for (size_t i : {starter, 1 - starter}) processes[i].begin();
    tell("warming up");
    while (!processes[0].warm() || !processes[1].warm()) {
      const size_t next = draw();
      for (size_t i : {next, 1 - next}) {
        if (!processes[i].warm()) processes[i].warm_up_window();
      }
      tell("warming up");
    }
    Round round;
    const double run_ms = std::max(processes[0].run_ms(), processes[1].run_ms());
    const double segment_ms = std::max(kSegmentMs, MeasuredProcess::kFewestRuns * run_ms);
    const auto pairs = static_cast<size_t>(std::clamp(kRoundMs / (2 * segment_ms), kFewestPairs, kMostPairs));
    for (size_t pair = 0; pair < pairs; ++pair) {
      double medians[2];
      const size_t next = draw();
      for (size_t i : {next, 1 - next}) medians[i] = processes[i].sample(kSegmentMs, kSettleMs);
      round.pairs.push_back({medians[0], medians[1]});
      tell("timing");
    }
    rounds_.push_back(std::move(round));
    for (size_t i : {0, 1}) collect(i, processes[i]);
  }

  MeasuredProcess process_of(size_t side) {
    Execution& execution = sides_[side].execution;
    return MeasuredProcess(*execution.machine, execution.loaded, options_.measure,
                           rounds_.empty() ? kFirstWarmUpMs : kLaterWarmUpMs);
  }

  void collect(size_t side, MeasuredProcess& process) {
    Measurement& measurement = measured_[side];
    if (measurement.processes.empty()) measurement.board = sides_[side].execution.machine->info();
    measurement.last = process.last();
    if (!measurement.last.reading_cpus.empty()) measurement.reading_cpus = measurement.last.reading_cpus;
    measurement.processes.push_back(process.take());
  }

  bool wants_another() {
    if (options_.rounds) return rounds_.size() < *options_.rounds;
    if (rounds_.size() < kFewestRounds) return true;
    const Comparison comparison = compare_rounds(rounds_, options_.statistics);
    const double half_width = comparison.relative_half_width();
    const double elapsed = whole_.seconds();
    // Not a round that could only be finished after the end.
    const double each = elapsed / static_cast<double>(rounds_.size());
    const auto reason = rule_.after(rounds_.size(), half_width, elapsed + each / 2);
    if (reason) stopped_ = *reason;
    return !reason;
  }

  Contestant sides_[2];
  const CompareMeasureOptions& options_;
  const MeasureProgress& progress_;
  Random random_;
  StopRule rule_;
  StopReason stopped_ = StopReason::kTimeLimit;
  Stopwatch whole_;
  std::vector<Round> rounds_;
  Measurement measured_[2];
};

}  // namespace

LiveComparison compare_live(Contestant first, Contestant second, const CompareMeasureOptions& options,
                            const MeasureProgress& progress) {
  return Match(std::move(first), std::move(second), options, progress).run();
}

}  // namespace gantry::cli
