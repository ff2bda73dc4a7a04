#include "host/cli/compare_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "host/cli/measured_process.h"
#include "host/cli/statistics/disturbance.h"
#include "host/cli/statistics/rounds.h"
#include "host/support/random.h"
#include "host/support/stopwatch.h"

namespace gantry::cli {
namespace {

/// Of the whole time, a warm-up of one side at most.
constexpr double kWarmUpShare = 0.125;

/// Samples of one process, [begin, end) of all that it has.
struct Segment {
  size_t begin = 0, end = 0;
};
/// Of the two processes of a round, each pair one of each side.
struct PlayedPair {
  Segment sides[2];
};

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
        for (Contestant& side : sides_) waited_s_ += side.restart(side.execution);
      }
      play_round();
      more = wants_another();
    }
    LiveComparison result;
    result.comparison = compare_rounds(choice_.rounds, options_.statistics);
    result.rounds = played_rounds();
    remember_levels();
    result.first = std::move(measured_[0]);
    result.second = std::move(measured_[1]);
    result.stopped = stopped_;
    result.elapsed_s = elapsed_s();
    return result;
  }

 private:
  /// Which side goes first.
  size_t draw() { return random_.uniform() < 0.5 ? 0 : 1; }

  double elapsed_s() const { return whole_.seconds() - waited_s_; }

  void tell(const char* what) const {
    const double by_time = elapsed_s() / options_.duration_s;
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
    const double run_ms = std::max(processes[0].run_ms(), processes[1].run_ms());
    const size_t pairs =
        kComparedRound.pairs_of(std::max(kComparedRound.segment_ms, MeasuredProcess::kFewestRuns * run_ms));
    std::vector<PlayedPair> played;
    for (bool more = true; more;) {
      played.push_back(play_pair(processes));
      tell("timing");
      const JudgedRound judged = judge(played, processes[0].result(), processes[1].result());
      const bool late = !options_.rounds && elapsed_s() >= options_.duration_s;
      const size_t most = late ? kComparedRound.fewest_pairs : kMostExtra * pairs;
      more = undisturbed_pairs(judged) < pairs && played.size() < most;
    }
    rounds_.push_back(std::move(played));
    for (size_t i : {0, 1}) collect(i, processes[i]);
    choose();
  }

  PlayedPair play_pair(MeasuredProcess (&processes)[2]) {
    PlayedPair pair;
    const size_t next = draw();
    for (size_t i : {next, 1 - next}) {
      pair.sides[i].begin = processes[i].result().samples_ms.size();
      processes[i].sample(kComparedRound.segment_ms, kComparedRound.settle_ms);
      pair.sides[i].end = processes[i].result().samples_ms.size();
    }
    return pair;
  }

  JudgedRound judge(const std::vector<PlayedPair>& played, const ProcessMeasurement& first,
                    const ProcessMeasurement& second) const {
    const ProcessMeasurement* const processes[] = {&first, &second};
    const std::vector<bool> disturbed[] = {disturbed_samples(first, levels_[0]),
                                           disturbed_samples(second, levels_[1])};
    const auto segment = [&](size_t side, const Segment& part) {
      const std::span<const double> samples(processes[side]->samples_ms);
      return judge_segment(samples.subspan(part.begin, part.end - part.begin), disturbed[side], part.begin);
    };
    JudgedRound round;
    for (const PlayedPair& pair : played)
      round.push_back({segment(0, pair.sides[0]), segment(1, pair.sides[1])});
    return round;
  }

  /// Finds out anew which rounds count: every further one may show a better level.
  void choose() {
    find_levels();
    std::vector<JudgedRound> judged;
    for (size_t i = 0; i < rounds_.size(); ++i) judged.push_back(judged_round(i));
    choice_ = choose_rounds(judged);
    for (size_t side : {0, 1}) {
      Measurement& measurement = measured_[side];
      leave_out_disturbed(measurement, levels_[side]);
      measurement.uses_disturbed = choice_.uses_all;
      for (size_t i = 0; i < rounds_.size(); ++i)
        leave_out_round(measurement.processes[i], levels_[side], choice_.counts[i]);
    }
  }

  /// Of one machine, with as many threads on the same CPUs: what disturbs the one side disturbs the other.
  bool are_alike() const {
    return sides_[0].former.machine_of(measured_[0]) == sides_[1].former.machine_of(measured_[1]);
  }

  void find_levels() {
    if (are_alike()) {
      levels_[0] = levels_[1] = sides_[0].former.level(both());
      return;
    }
    for (size_t side : {0, 1}) levels_[side] = sides_[side].former.level(only(side));
  }

  void remember_levels() {
    if (are_alike()) return sides_[0].former.remember(both());
    for (size_t side : {0, 1}) sides_[side].former.remember(only(side));
  }

  /// So that a process counts where its round does.
  void leave_out_round(ProcessMeasurement& process, const std::optional<double>& level, bool counts) const {
    process.left_out = choice_.uses_all ? std::vector<bool>() : disturbed_samples(process, level);
    if (!counts) process.left_out.assign(process.samples_ms.size(), true);
  }

  JudgedRound judged_round(size_t i) const {
    return judge(rounds_[i], measured_[0].processes[i], measured_[1].processes[i]);
  }

  /// Of all that was taken in it, whatever counts.
  Round whole_round(size_t i) const {
    Round round;
    for (const JudgedPair& pair : judged_round(i))
      round.pairs.push_back({pair.base.median_ms, pair.other.median_ms});
    return round;
  }

  std::vector<PlayedRound> played_rounds() const {
    auto first = measured_[0].processes[0].sampled_at;
    for (const Measurement& measurement : measured_)
      first = std::min(first, measurement.processes[0].sampled_at);
    std::vector<PlayedRound> played;
    size_t counted = 0;
    for (size_t i = 0; i < rounds_.size(); ++i) {
      PlayedRound& round = played.emplace_back();
      round.counts = choice_.counts[i];
      round.ratio = round_ratio(round.counts ? choice_.rounds[counted++] : whole_round(i));
      for (size_t side : {0, 1}) {
        const std::chrono::duration<double, std::milli> since =
            measured_[side].processes[i].sampled_at - first;
        round.began_ms[side] = since.count();
      }
    }
    return played;
  }

  std::array<const Measurement*, 2> both() const { return {&measured_[0], &measured_[1]}; }
  std::array<const Measurement*, 1> only(size_t side) const { return {&measured_[side]}; }

  MeasuredProcess process_of(size_t side) {
    Execution& execution = sides_[side].execution;
    const double share_ms = options_.duration_s * 1e3 * kWarmUpShare;
    return MeasuredProcess(*execution.machine, execution.loaded, options_.measure,
                           std::min(rounds_.empty() ? kFirstRoundWarmUpMs : kLaterRoundWarmUpMs, share_ms));
  }

  void collect(size_t side, MeasuredProcess& process) {
    Measurement& measurement = measured_[side];
    if (measurement.processes.empty()) measurement.board = sides_[side].execution.machine->info();
    keep_last(measurement, process.last(), /*own_load=*/true);
    measurement.processes.push_back(process.take());
  }

  bool wants_another() {
    if (options_.rounds) return rounds_.size() < *options_.rounds;
    if (rounds_.size() < kFewestRounds) return true;
    const Comparison comparison = compare_rounds(choice_.rounds, options_.statistics);
    const double elapsed = elapsed_s();
    // What all rounds say where too few are undisturbed is never precise enough.
    const double half_width = choice_.uses_all ? INFINITY : comparison.relative_half_width();
    // Not a round that could only be finished after the end.
    const double each = elapsed / static_cast<double>(rounds_.size());
    const auto reason = rule_.after(choice_.rounds.size(), half_width, elapsed + each / 2);
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
  double waited_s_ = 0;
  std::vector<std::vector<PlayedPair>> rounds_;
  Measurement measured_[2];
  std::optional<double> levels_[2];  ///< of undisturbed pulses, of each side
  RoundChoice choice_;
};

}  // namespace

LiveComparison compare_live(Contestant first, Contestant second, const CompareMeasureOptions& options,
                            const MeasureProgress& progress) {
  return Match(std::move(first), std::move(second), options, progress).run();
}

}  // namespace gantry::cli
