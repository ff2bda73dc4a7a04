// What was measured of a module: processes, each with its own warm-up and samples.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/cli/statistics/median_interval.h"
#include "host/cli/turns/turn_options.h"
#include "rpc/client/types.h"

namespace gantry::cli {

/// How to measure.
struct MeasureOptions {
  double duration_s = 60;  ///< new processes are started until then at most; a quiet machine reaches the goal
                           ///< in a sixth of it
  double precision_goal =
      0.01;  ///< half the width of the median's 95 % interval over the median: then it is enough
  std::optional<uint32_t> processes;  ///< exactly so many; none: as many as the goal takes
  std::optional<uint32_t> warmup;     ///< exactly so many runs; none: until steady
  std::optional<uint32_t> repeat;     ///< exactly so many samples a process; none: by time
  std::optional<uint32_t> number;     ///< runs a sample; none: 1, or more where the clock would be too coarse
  double min_repeat_ms = 0;           ///< more runs a sample until it takes so long
  double cooldown_ms = 0;             ///< pause before every sample
  bool cold = false;                  ///< caches are emptied before every run
  bool profile = false;               ///< time every kernel too, in the last process
  TurnOptions turns;                  ///< with others who measure on the machine
  uint32_t streams = 0;               ///< sessions that run at once, for throughput; 0: one run after another
};

/// The runs before the first sample.
struct WarmUp {
  uint64_t runs = 0;
  double ms = 0;  ///< that they took, pauses between them included
  std::optional<bool>
      steady;  ///< whether the times had stopped to fall; none: a number of runs was asked for
};

/// One process that loaded the module, warmed up and ran it.
struct ProcessMeasurement {
  std::optional<double> load_ms;  ///< to map the module and start threads; none: the board does not say
  double first_inference_ms = 0;  ///< the first run, with finding its memory
  WarmUp warm_up;
  std::vector<double> samples_ms;  ///< of one run each; of streams: every run's, of very many a part
  uint64_t not_kept = 0;           ///< samples beside those
  std::vector<double>
      started_ms;       ///< of each sample, since the process's first; empty: the board does not say
  uint32_t number = 1;  ///< runs a sample
  bool reached_deadline = false;            ///< the board's for one request: some samples are missing
  uint64_t peak_resident_bytes = 0;         ///< 0: not known
  std::optional<double> runs_per_second;    ///< of streams, together
  std::vector<rpc::ProbeReading> readings;  ///< at_ms since the process's first sample
  std::vector<rpc::CorePulse> pulses;       ///< likewise; none: the board shows none
  std::optional<double> disturbed;          ///< share of its samples; none: not known
  std::vector<rpc::OtherWork> beside;       ///< what others did on the board meanwhile, one of each of them
  std::vector<bool> left_out;               ///< whether a sample does not count, of each; empty: all count

  /// Those that count; none where the process does not.
  std::vector<double> used_samples_ms() const;
  /// Samples, kept or not.
  uint64_t taken() const { return samples_ms.size() + not_kept; }
  std::chrono::steady_clock::time_point sampled_at;  ///< when that was asked for, by this program's clock
};

struct Measurement {
  std::vector<ProcessMeasurement> processes;
  /// Of the time of a run; of streams, of the time between two results. None: too few samples for one.
  std::optional<MedianInterval> interval;
  bool reached_goal = false;
  double elapsed_s = 0;
  /// Of the last process: memory, threads, target, kernels; its samples are those of its last segment.
  rpc::BenchmarkResult last;
  rpc::BoardInfo board;
  std::vector<int32_t> reading_cpus;
  std::vector<std::string> probe_notes;
  std::optional<double> undisturbed_pulse;  ///< level of the pulses of cores that nobody else uses
  size_t undisturbed_processes = 0;         ///< that have enough undisturbed samples; all where not known
  bool uses_disturbed = false;              ///< too few are undisturbed: all samples count
  std::optional<TurnRecord> turns;          ///< that it took; none: the machine has none
  std::chrono::steady_clock::time_point profiled_at;  ///< when the kernels had been timed

  /// The time of a run; of streams, between two results. Known where the interval is not.
  double speed_ms() const;
  /// All processes' samples that count, in the order taken.
  std::vector<double> samples_ms() const;
  /// Of all samples, those that were disturbed; none: not known.
  std::optional<double> disturbed_share() const;
  /// Of their speed, what the cores gave meanwhile; 1 where nothing was disturbed or it is not known.
  double disturbed_speed() const;
};

/// Keeps what the last segment of a process tells of the program and the machine. `own_load`: the machine's
/// load before it was the measurement's own.
void keep_last(Measurement& measurement, const rpc::BenchmarkResult& last, bool own_load);

/// Adds what others did to what they have done before.
void add_work(std::vector<rpc::OtherWork>& all, const std::vector<rpc::OtherWork>& more);

/// The level of undisturbed pulses that measurements of one command on one machine show; see level_of_pulses.
std::optional<double> level_of(std::span<const Measurement* const> measurements);
/// Says which samples are disturbed, and leaves those out: the samples of processes that have enough others,
/// and processes that have not. Where none has, or a single one with too few for an interval, all samples
/// count. `level`: none: all count, too. See statistics/disturbance.h.
void leave_out_disturbed(Measurement& measurement, const std::optional<double>& level);
/// Of each sample; empty where it is not known when samples began, or how the cores did.
std::vector<bool> disturbed_samples(const ProcessMeasurement& process, const std::optional<double>& level);

/// What a process says of the program's speed: its samples, or of streams the mean time between two results.
/// Of processes that count.
std::vector<ProcessSamples> speed_of(std::span<const ProcessMeasurement> processes);

}  // namespace gantry::cli
