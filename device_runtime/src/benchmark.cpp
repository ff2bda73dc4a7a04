#include "device_runtime/src/benchmark.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

namespace gantry::runtime {
namespace {

constexpr int kMaxNumber = 1'000'000;
/// Of the time until the deadline, the samples' part where kernels are timed after them.
constexpr double kSamplesShare = 0.7;

double now_ms() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

void sleep_ms(double ms) {
  timespec time;
  time.tv_sec = static_cast<time_t>(ms / 1e3);
  time.tv_nsec = static_cast<long>((ms - static_cast<double>(time.tv_sec) * 1e3) * 1e6);
  nanosleep(&time, nullptr);
}

Status check_options(const BenchmarkOptions& options) {
  const bool counts = options.warmup >= 0 && options.warmup <= kMaxNumber && options.number >= 1 &&
                      options.number <= kMaxNumber && options.repeat >= 1 && options.repeat <= kMaxNumber;
  if (!counts) {
    return failure(GANTRY_INVALID_ARGUMENT, "benchmark: warmup must be 0 to %d, number and repeat 1 to %d",
                   kMaxNumber, kMaxNumber);
  }
  for (double ms : {options.min_repeat_ms, options.cooldown_ms, options.deadline_ms}) {
    if (!(ms >= 0 && ms <= 1e8))
      return failure(GANTRY_INVALID_ARGUMENT, "benchmark: times must be 0 to 1e8 ms");
  }
  return Status();
}

/// All times of a result, which are the clock's till then.
void count_from_first_sample(BenchmarkResult& result) {
  const double first = result.started_ms.front();
  for (double& started : result.started_ms) started -= first;
  for (PulseReading& pulse : result.pulses) pulse.at_ms -= first;
}

class Runner {
 public:
  Runner(Session& session, const BenchmarkOptions& options, MachineWatch& watch)
      : session_(session), options_(options), watch_(watch), start_ms_(now_ms()), number_(options.number) {}

  Status prepare();
  Status measure(BenchmarkResult& result);
  Status profile(BenchmarkResult& result);
  Status trace(BenchmarkResult& result);
  Status count(BenchmarkResult& result);
  uint64_t peak_bytes() const { return peak_bytes_.value_or(peak_resident_memory_bytes()); }

 private:
  /// What is due between runs. Fails where the caller cancels.
  Status look(double done) {
    watch_.look();
    if (options_.progress && !options_.progress(std::min(done, 1.0)))
      return failure(GANTRY_KERNEL_FAILED, "the benchmark was cancelled");
    return Status();
  }
  /// Whether what takes `next_ms` would end behind this share of the time until the deadline.
  bool too_late(double next_ms, double share = 1) const {
    return options_.deadline_ms > 0 && now_ms() - start_ms_ + next_ms > share * options_.deadline_ms;
  }
  Status flush();
  /// Time of `number_` runs, without that of flushing.
  Status time_sample(double& elapsed_ms);

  Session& session_;
  const BenchmarkOptions& options_;
  MachineWatch& watch_;
  double start_ms_;
  int number_;
  double run_ms_ = 0;                  ///< that the last run took, with what was done around it
  std::unique_ptr<CacheSweep> sweep_;  ///< where runs on the CPU are to be cold
  PulseLog pulses_;
  std::optional<uint64_t> peak_bytes_;  ///< before that took its memory
};

Status Runner::prepare() {
  for (int i = 0; i < options_.warmup; ++i) {
    GANTRY_TRY(session_.run());
    // Warm-up counts as a tenth of the work in reports of progress.
    GANTRY_TRY(look(0.1 * (i + 1) / options_.warmup));
    if (too_late(0)) {
      return failure(GANTRY_KERNEL_FAILED,
                     "the benchmark's deadline passed after %d of %d warm-up runs, before its first sample",
                     i + 1, options_.warmup);
    }
  }
  watch_.settle();
  if (session_.module().gpu() == nullptr) pulses_ = PulseLog(CorePulse::create(session_.pool()));
  if (options_.flush_cache && session_.module().gpu() == nullptr) {
    if (session_.has_run()) peak_bytes_ = peak_resident_memory_bytes();
    // After the warm-up: by then, threads that nobody pinned are where they will run.
    Result<std::unique_ptr<CacheSweep>> sweep = CacheSweep::create(session_.pool());
    if (!sweep.ok()) return sweep.status();
    sweep_ = std::move(*sweep);
  }
  return Status();
}

Status Runner::flush() {
  if (!options_.flush_cache) return Status();
  if (sweep_ == nullptr) return session_.flush_device_caches();
  GANTRY_TRY(sweep_->sweep());
  if (options_.swept) options_.swept(*sweep_);
  return Status();
}

Status Runner::time_sample(double& elapsed_ms) {
  if (!options_.flush_cache) return session_.run_repeatedly(number_, elapsed_ms);
  elapsed_ms = 0;
  for (int i = 0; i < number_; ++i) {
    GANTRY_TRY(flush());
    double once = 0;
    GANTRY_TRY(session_.run_repeatedly(1, once));
    elapsed_ms += once;
  }
  return Status();
}

Status Runner::measure(BenchmarkResult& result) {
  const double time_share = options_.profile ? kSamplesShare : 1;
  pulses_.begin();
  while (static_cast<int>(result.samples_ms.size()) < options_.repeat) {
    const double begun = now_ms();
    if (options_.cooldown_ms > 0) sleep_ms(options_.cooldown_ms);
    double elapsed = 0;
    const double started = now_ms();
    GANTRY_TRY(time_sample(elapsed));
    const double took = now_ms() - begun;
    double factor = 1;
    if (elapsed < options_.min_repeat_ms && number_ < kMaxNumber)
      factor = std::max(1.1 * options_.min_repeat_ms / std::max(elapsed, 1e-3), 1.5);
    const bool late = too_late(took * factor, time_share);
    if (factor > 1 && !late) {
      // Too short: all samples are taken again with more runs each.
      number_ = static_cast<int>(std::min<double>(kMaxNumber, std::ceil(number_ * factor)));
      result.samples_ms.clear();
      result.started_ms.clear();
      pulses_.begin();
    } else {
      result.samples_ms.push_back(elapsed / number_);
      result.started_ms.push_back(started);
      run_ms_ = took / number_;
    }
    const double share = static_cast<double>(result.samples_ms.size()) / options_.repeat;
    const bool last = late || share >= 1;
    if (!last) pulses_.look();
    GANTRY_TRY(look(0.1 + share * (options_.profile ? 0.6 : 0.9)));
    if (late) {
      result.complete = factor <= 1 && static_cast<int>(result.samples_ms.size()) == options_.repeat;
      break;
    }
  }
  pulses_.finish();
  result.pulses = pulses_.take();
  count_from_first_sample(result);
  result.number = number_;
  return Status();
}

Status Runner::profile(BenchmarkResult& result) {
  const Executor& executor = session_.executor();
  const size_t steps = executor.step_count();
  const int runs = std::clamp(options_.repeat, 3, 30);
  std::vector<std::vector<double>> times(steps);
  std::vector<int64_t> nanoseconds;
  for (int run = 0; run < runs; ++run) {
    if (too_late(run_ms_)) {
      result.complete = false;
      break;
    }
    const double begun = now_ms();
    GANTRY_TRY(flush());
    GANTRY_TRY(session_.run_timed(nanoseconds));
    run_ms_ = now_ms() - begun;
    for (size_t i = 0; i < steps; ++i) times[i].push_back(static_cast<double>(nanoseconds[i]));
    GANTRY_TRY(look(0.7 + 0.2 * (run + 1) / runs));
  }
  for (size_t i = 0; i < steps && !times[i].empty(); ++i) {
    const StepLabel& label = executor.label(i);
    const Statistics statistics = summarize(times[i]);
    result.kernels.push_back({static_cast<uint32_t>(i), label.symbol, label.ops, label.op, label.origin,
                              static_cast<int>(times[i].size()), statistics.median, statistics.min,
                              executor.flops(i), executor.bytes(i)});
  }
  return Status();
}

Status Runner::trace(BenchmarkResult& result) {
  std::vector<RunTimeline> timelines;
  while (timelines.size() < kTracedRuns && !too_late(run_ms_)) {
    GANTRY_TRY(flush());
    RunTimeline timeline;
    const Status status = session_.run_traced(timeline);
    // A plan and pool too large for it: all else has been measured.
    if (status.code() == GANTRY_INVALID_ARGUMENT) break;
    GANTRY_TRY(status);
    timelines.push_back(std::move(timeline));
    GANTRY_TRY(look(0.9 + 0.1 * static_cast<double>(timelines.size()) / kTracedRuns));
  }
  if (timelines.empty()) return look(1);
  const auto middle = timelines.begin() + static_cast<std::ptrdiff_t>((timelines.size() - 1) / 2);
  std::nth_element(timelines.begin(), middle, timelines.end(),
                   [](const RunTimeline& a, const RunTimeline& b) { return a.run_ns < b.run_ns; });
  result.timeline = std::move(*middle);
  return Status();
}

Status Runner::count(BenchmarkResult& result) {
  if (too_late(run_ms_)) {
    result.complete = false;
    result.instructions_problem = "the deadline left no time to count";
    return Status();
  }
  const Status status = session_.run_counted(result.step_instructions);
  // All else has been measured.
  if (status.code() == GANTRY_INCOMPATIBLE) {
    result.instructions_problem = status.message();
  } else {
    GANTRY_TRY(status);
  }
  return look(1);
}

}  // namespace

Result<BenchmarkResult> run_benchmark(Session& session, const BenchmarkOptions& options) {
  GANTRY_TRY(check_options(options));
  BenchmarkResult result;
  MachineWatch watch(
      session.module(), [&session] { return session.pool().thread_cpus(); }, options.probe_root);
  Runner runner(session, options, watch);
  GANTRY_TRY(runner.prepare());
  GANTRY_TRY(runner.measure(result));
  if (options.profile) {
    GANTRY_TRY(runner.profile(result));
    GANTRY_TRY(runner.trace(result));
  }
  if (options.count_instructions) GANTRY_TRY(runner.count(result));
  static_cast<MachineRecord&>(result) = watch.finish();
  result.statistics = summarize(result.samples_ms);
  result.memory = session.memory();
  result.peak_resident_bytes = runner.peak_bytes();
  result.threads = session.threads();
  return result;
}

}  // namespace gantry::runtime
