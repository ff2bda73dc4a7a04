#include "host/cli/bench_run.h"

#include <algorithm>

#include "host/cli/measured_process.h"
#include "host/cli/statistics/comparison.h"
#include "host/support/stopwatch.h"

namespace gantry::cli {
namespace {

/// Processes before the interval of their medians may say that it is narrow.
constexpr size_t kFewestProcesses = 5;
/// A process is sampled for half a second, or less where all of them must fit into the time.
constexpr double kLongestSliceMs = 500;
constexpr double kShortestSliceMs = 100;
/// A slice that is disturbed goes on for so many at most, until this part of one is not; other processes
/// still want the most of the time.
constexpr double kMostSlices = 3, kUndisturbedShare = 0.5, kLongestShare = 0.1;
/// Of one process's time, what is left for its samples beside loading and warming up.
constexpr double kSamplingShare = 0.5;
/// The machine (its clock, its second core) warms up in the first process, for a few seconds; what is left to
/// the others is to touch their own memory.
constexpr double kFirstWarmUpMs = 5000, kLaterWarmUpMs = 1000;
/// Of the whole time, the first process's warm-up at most.
constexpr double kWarmUpShare = 0.25;
/// Streams start together and end raggedly; a longer slice makes that small.
constexpr double kShortestStreamsMs = 500;

double slice_ms(const MeasureOptions& options) {
  const double share =
      options.duration_s * 1e3 / static_cast<double>(options.processes.value_or(kFewestProcesses));
  return std::clamp(share * kSamplingShare, kShortestSliceMs,
                    options.processes == 1u ? options.duration_s * 1e3 : kLongestSliceMs);
}

/// Share of the samples so far that are undisturbed; 1 where it is not known.
double undisturbed_share(const ProcessMeasurement& process, const std::optional<double>& level) {
  const std::vector<bool> disturbed = disturbed_samples(process, level);
  if (disturbed.empty()) return 1;
  return static_cast<double>(std::ranges::count(disturbed, false)) / static_cast<double>(disturbed.size());
}

/// Samples of one process: for a slice, or for some slices until half of one is undisturbed.
void sample(MeasuredProcess& process, const MeasureOptions& options, const std::optional<double>& level,
            const std::function<double()>& elapsed) {
  if (options.streams > 0)
    return process.sample_streams(options.streams, std::max(slice_ms(options), kShortestStreamsMs));
  if (options.repeat) return process.sample_exactly(*options.repeat);
  constexpr double kPieceMs = 250;
  const Stopwatch taken;
  const double slice = slice_ms(options);
  const double longest = std::min(kMostSlices * slice, kLongestShare * options.duration_s * 1e3);
  const auto enough = [&] {
    const double ms = taken.seconds() * 1e3;
    return ms >= slice &&
           (ms >= longest || ms * undisturbed_share(process.result(), level) >= kUndisturbedShare * slice);
  };
  do {
    process.sample(std::min(kPieceMs, slice));
  } while (!enough() && elapsed() < options.duration_s);
}

/// The interval of what has been measured; none while a single process has too few samples for one. Where
/// only one of several counts, the others are taken to differ from it as processes usually do.
std::optional<MedianInterval> interval_of(std::span<const ProcessMeasurement> processes) {
  const std::vector<ProcessSamples> speed = speed_of(processes);
  if (speed.size() == 1 && speed.front().samples_ms.size() < kFewestSamples) return std::nullopt;
  return median_interval(speed, processes.size() > 1 ? kAssumedProcessSpread : 0);
}

class Loop {
 public:
  Loop(const MeasureOptions& options, const MeasureProgress& progress, FormerPulses& former)
      : options_(options), progress_(progress), former_(former) {}

  /// Time that was not its own.
  void waited(double seconds) { waited_s_ += seconds; }

  /// Measures the execution's process. True: another is wanted.
  bool add(Execution& execution) {
    MeasuredProcess process(*execution.machine, execution.loaded, options_,
                            result_.processes.empty()
                                ? std::min(kFirstWarmUpMs, options_.duration_s * 1e3 * kWarmUpShare)
                                : kLaterWarmUpMs);
    tell("warming up");
    const TimedSpan whole(execution.spans.get(), "bench",
                          "process " + std::to_string(result_.processes.size() + 1));
    warm_up(execution, process);
    tell("timing");
    const TimedSpan span(execution.spans.get(), "bench", "samples");
    sample(process, options_, result_.undisturbed_pulse, [this] { return elapsed_s(); });
    collect(execution, process);
    return wants_another();
  }

  /// The last process times its kernels when it is known to be the last.
  Measurement finish(Execution& execution) {
    if (options_.profile) {
      MeasuredProcess process(*execution.machine, execution.loaded, options_, 0);
      process.adopt_run_time(result_.last.statistics.median_ms);
      const TimedSpan span(execution.spans.get(), "bench", "time the kernels");
      process.profile();
      result_.profiled_at = std::chrono::steady_clock::now();
      result_.last.kernels = process.last().kernels;
      result_.last.timeline = process.last().timeline;
      result_.last.reached_deadline = result_.last.reached_deadline || process.last().reached_deadline;
    }
    const Measurement* const all[] = {&result_};
    former_.remember(all);
    result_.elapsed_s = elapsed_s();
    return std::move(result_);
  }

 private:
  void warm_up(Execution& execution, MeasuredProcess& process) const {
    const TimedSpan span(execution.spans.get(), "bench", "first inference and warm-up");
    process.begin();
    do {
      process.warm_up_window();
      tell("warming up");
    } while (!process.warm());
  }

  double elapsed_s() const { return whole_.seconds() - waited_s_; }

  void tell(const std::string& what) const {
    const size_t done = result_.processes.size();
    const double by_time = elapsed_s() / options_.duration_s;
    const double by_count = options_.processes ? static_cast<double>(done) / *options_.processes : 0;
    progress_(fmt::format("{}, process {}", what, done + 1),
              std::clamp(std::max(by_time, by_count), 0.0, 1.0));
  }

  void collect(Execution& execution, MeasuredProcess& process) {
    keep_last(result_, process.last(), /*own_load=*/!result_.processes.empty());
    if (result_.processes.empty()) result_.board = execution.machine->info();
    result_.processes.push_back(process.take());
    const Measurement* const all[] = {&result_};
    leave_out_disturbed(result_, former_.level(all));
    result_.interval = interval_of(result_.processes);
    result_.reached_goal =
        result_.interval && result_.interval->relative_half_width() <= options_.precision_goal;
  }

  bool wants_another() const {
    const size_t done = result_.processes.size();
    if (options_.processes) return done < *options_.processes;
    // A machine that changes is watched for as long as there is time: what comes next may be nearer to its
    // usual.
    const bool settled = result_.reached_goal && !result_.uses_disturbed &&
                         !drift_between_processes(speed_of(result_.processes));
    if (result_.undisturbed_processes >= kFewestProcesses && settled) return false;
    // Not one that could only be finished after the end.
    const double each = elapsed_s() / static_cast<double>(done);
    return elapsed_s() + kSamplingShare * each < options_.duration_s;
  }

  const MeasureOptions& options_;
  const MeasureProgress& progress_;
  FormerPulses& former_;
  Stopwatch whole_;
  double waited_s_ = 0;
  Measurement result_;
};

}  // namespace

Measurement measure(Execution& execution, const MeasureOptions& options,
                    const std::function<double(Execution&)>& restart, const MeasureProgress& progress,
                    FormerPulses& former) {
  Loop loop(options, progress, former);
  while (loop.add(execution)) loop.waited(restart(execution));
  return loop.finish(execution);
}

}  // namespace gantry::cli
