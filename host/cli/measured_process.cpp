#include "host/cli/measured_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

/// Long beside a scheduler's tick and what a message to a board takes.
constexpr double kWindowMs = 50;
/// Slow programs get at least so many windows.
constexpr int kFewestWindows = 3;
/// A sample should be long beside the clock's cost of some 50 ns.
constexpr double kShortestSampleMs = 0.02;
/// What a segment's answer may carry.
constexpr double kMostSamples = 20000;
constexpr uint32_t kMostRuns = 1'000'000;
/// Kernels are timed in so many runs at most (the runtime takes no more than 30).
constexpr double kProfileMs = 1000;
constexpr uint32_t kMostProfiledRuns = 30;

double milliseconds(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

/// How many runs of `each` ms take `ms`.
uint32_t count_of(double ms, double each, double least, double most) {
  return static_cast<uint32_t>(std::clamp(std::ceil(ms / std::max(each, 1e-6)), least, most));
}

}  // namespace

MeasuredProcess::MeasuredProcess(Machine& machine, const rpc::LoadedModule& loaded,
                                 const MeasureOptions& options, double longest_warm_up_ms)
    : machine_(machine), options_(options), longest_warm_up_ms_(longest_warm_up_ms) {
  if (loaded.load_time) result_.load_ms = milliseconds(*loaded.load_time);
}

double MeasuredProcess::now_ms() const {
  return milliseconds(std::chrono::steady_clock::now() - start_);
}

void MeasuredProcess::begin() {
  const rpc::RunTime time = machine_.run();
  result_.first_inference_ms = milliseconds(time.preparing) + milliseconds(time.run);
  run_ms_ = milliseconds(time.run);
  warm_up_began_ms_ = now_ms();
}

rpc::BenchmarkOptions MeasuredProcess::segment_options(double ms, double settle_ms) const {
  rpc::BenchmarkOptions options;
  options.number = options_.number.value_or(count_of(kShortestSampleMs, run_ms_, 1, kMostRuns));
  options.min_repeat_ms = options_.min_repeat_ms;
  options.cooldown_ms = options_.cooldown_ms;
  options.flush_cache = options_.cold;
  options.warmup = settle_ms > 0 ? count_of(settle_ms, run_ms_, 1, kMostRuns) : 0;
  double sample_ms = std::max(run_ms_ * options.number, options.min_repeat_ms) + options.cooldown_ms;
  if (options.flush_cache) sample_ms += sweep_ms_.value_or(ms) * options.number;
  options.repeat = count_of(ms, sample_ms, kFewestRuns, kMostSamples);
  return options;
}

/// What lies between the beginnings of a segment's samples, but for its runs and pauses.
void MeasuredProcess::learn_sweep(const rpc::BenchmarkOptions& options) {
  const size_t count = last_.started_ms.size();
  if (!options.flush_cache || count < 2) return;
  double runs_ms = 0;
  for (size_t i = 0; i + 1 < count; ++i) runs_ms += last_.samples_ms[i] * last_.number;
  const double between = last_.started_ms.back() - last_.started_ms.front() - runs_ms;
  const double a_sample = between / static_cast<double>(count - 1) - options.cooldown_ms;
  sweep_ms_ = std::max(0.0, a_sample / last_.number);
}

void MeasuredProcess::warm_up_window() {
  if (options_.warmup) {
    warmed_by_number_ = true;
    if (*options_.warmup == 0) return;
    rpc::BenchmarkOptions options;
    options.warmup = *options_.warmup - 1;
    options.repeat = 1;
    last_ = machine_.benchmark(options, {});
    result_.warm_up.runs = *options_.warmup;
  } else {
    rpc::BenchmarkOptions options = segment_options(kWindowMs, 0);
    options.cooldown_ms = 0;
    options.flush_cache = false;
    const double began = now_ms();
    last_ = machine_.benchmark(options, {});
    result_.warm_up.runs += last_.samples_ms.size() * last_.number;
    steadiness_.add(now_ms() - began, last_.statistics.median_ms);
    ++windows_;
  }
  run_ms_ = last_.statistics.median_ms;
  result_.peak_resident_bytes = std::max(result_.peak_resident_bytes, last_.peak_resident_bytes);
  result_.warm_up.ms = now_ms() - warm_up_began_ms_;
  if (options_.warmup) return;
  result_.warm_up.steady = steadiness_.steady() || (out_of_time() && !steadiness_.trending());
}

bool MeasuredProcess::out_of_time() const {
  return result_.warm_up.ms >= longest_warm_up_ms_ && windows_ >= kFewestWindows;
}

bool MeasuredProcess::warm() const {
  if (options_.warmup) return warmed_by_number_;
  return result_.warm_up.steady.value_or(false) || out_of_time();
}

/// Runs a segment and adds what it gave to the process's.
void MeasuredProcess::take_segment(const rpc::BenchmarkOptions& options) {
  const double began = now_ms();
  if (!sampling_began_ms_) {
    sampling_began_ms_ = began;
    result_.sampled_at = std::chrono::steady_clock::now();
  }
  last_ = machine_.benchmark(options, {});
  const double offset = began - *sampling_began_ms_;
  add_work(result_.beside, last_.others);
  run_ms_ = last_.statistics.median_ms;
  learn_sweep(options);
  result_.number = last_.number;
  result_.reached_deadline = result_.reached_deadline || last_.reached_deadline;
  // From the first sweep on, the peak is that of the memory which sweeps.
  if (!options.flush_cache || result_.peak_resident_bytes == 0)
    result_.peak_resident_bytes = std::max(result_.peak_resident_bytes, last_.peak_resident_bytes);
  if (last_.samples_taken > last_.samples_ms.size())
    result_.not_kept += last_.samples_taken - last_.samples_ms.size();
  std::vector<double>& samples = result_.samples_ms;
  samples.insert(samples.end(), last_.samples_ms.begin(), last_.samples_ms.end());
  for (double started : last_.started_ms) result_.started_ms.push_back(offset + started);
  if (result_.started_ms.size() != samples.size()) result_.started_ms.clear();
  for (const rpc::CorePulse& pulse : last_.pulses)
    result_.pulses.push_back({offset + pulse.at_ms, pulse.value, pulse.lowest});
  const double energy = result_.readings.empty() ? 0 : result_.readings.back().energy_joules.value_or(0);
  for (rpc::ProbeReading reading : last_.readings) {
    reading.at_ms += offset;
    if (reading.energy_joules) *reading.energy_joules += energy;
    result_.readings.push_back(std::move(reading));
  }
}

double MeasuredProcess::sample(double ms, double settle_ms) {
  take_segment(segment_options(ms, settle_ms));
  return run_ms_;
}

void MeasuredProcess::sample_exactly(uint32_t repeat) {
  rpc::BenchmarkOptions options = segment_options(0, 0);
  if (!options_.number) options.number = 1;
  options.repeat = repeat;
  take_segment(options);
}

void MeasuredProcess::sample_streams(uint32_t streams, double ms) {
  rpc::BenchmarkOptions options;
  options.streams = streams;
  options.duration_ms = ms;
  take_segment(options);
  if (!(last_.runs_per_second > 0)) {
    throw Error(ErrorKind::kBoard,
                fmt::format("{}: its gantry-device does not know --streams; put the one there "
                            "that came with this gantry",
                            machine_.label()));
  }
  result_.runs_per_second = last_.runs_per_second;
}

void MeasuredProcess::profile() {
  rpc::BenchmarkOptions options = segment_options(0, 0);
  options.profile = true;
  options.repeat = std::clamp<uint32_t>(static_cast<uint32_t>(kProfileMs / std::max(run_ms_, 1e-3)),
                                        kFewestRuns, kMostProfiledRuns);
  last_ = machine_.benchmark(options, {});
}

}  // namespace gantry::cli
