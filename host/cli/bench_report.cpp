#include "host/cli/bench_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "host/cli/statistics/estimate.h"
#include "host/cli/text.h"
#include "host/support/words.h"

namespace gantry::cli {
namespace {

constexpr double kMuchScatter = 0.1;  ///< of the samples, standard deviation over median
constexpr double kMuchClockChange = 0.1;
/// Processes that count, of which a warning says how few they are.
constexpr size_t kFewCounting = 3;
constexpr double kMuchDisturbed = 0.03;  ///< of the samples

std::string gpu_line(const rpc::GpuInfo& gpu) {
  return fmt::format("  gpu      {} (sm_{}), {}, driver {}for CUDA {}.{}\n", gpu.name, gpu.compute_capability,
                     bytes_text(static_cast<double>(gpu.memory_bytes)),
                     gpu.driver.empty() ? "" : gpu.driver + " ", gpu.cuda_version / 1000,
                     gpu.cuda_version % 1000 / 10);
}

std::string heading(const BenchReport& report) {
  const rpc::BenchmarkResult& r = report.measurement.last;
  const rpc::BoardInfo& board = report.measurement.board;
  const std::string where =
      report.address.empty() ? "this machine" : fmt::format("{} ({})", report.board, report.address);
  std::string text = fmt::format("{}\n", report.model);
  text +=
      fmt::format("  on       {}: {}{}\n", where, board.cpu, board.system.empty() ? "" : ", " + board.system);
  if (report.device.starts_with("cuda") && report.device != "cuda-emulated") {
    for (const rpc::GpuInfo& gpu : board.gpus) text += gpu_line(gpu);
  }
  text += fmt::format("  code     {} on {}, {}, {}module {}\n", r.target, report.device,
                      counted(r.threads, "thread"), report.precision.empty() ? "" : report.precision + ", ",
                      report.module_digest.substr(0, 12));
  if (const std::string program = program_text(report.program_choice); !program.empty())
    text += fmt::format("  program  {}; the module has {} for some sizes alone\n", visible_line(program),
                        report.program_choice.specialized);
  for (const BenchInput& input : report.inputs) {
    text += fmt::format("  input    {}: {} ({})\n", input.name, type_and_shape(input.type, input.shape),
                        input.source);
  }
  return text;
}

std::string samples_text(const Measurement& m) {
  const size_t samples = m.samples_ms().size();
  const uint32_t number = m.processes.front().number;
  const size_t used = speed_of(m.processes).size(), left_out = m.processes.size() - used;
  return fmt::format("{} in {}{}{}", counted(samples, "sample"), counted(used, "process", "processes"),
                     left_out == 0 ? "" : fmt::format(" ({} more disturbed)", left_out),
                     number == 1 ? "" : fmt::format(", each the mean of {} runs", number));
}

/// How well an amount is known; wider than it is itself, an interval says nothing, and its figures would only
/// puzzle.
std::string precision_text(double half_width) {
  return half_width > 1 ? "no better than ±100 %" : fmt::format("±{} %", rough_text(100 * half_width));
}

/// The headline: what the program takes, and how well that is known.
std::string median_line(const Measurement& m) {
  const auto& interval = m.interval;
  const bool vague = interval && interval->relative_half_width() > 1;
  if (m.processes.front().runs_per_second) {
    const double rate = 1000 / m.speed_ms();
    if (vague)
      return fmt::format("  {} runs/s, 95 % confidence {}\n", number_text(rate),
                         precision_text(interval->relative_half_width()));
    if (!interval) return fmt::format("  {} runs/s\n", number_text(rate));
    return fmt::format("  {} runs/s, 95 % confidence {} to {} ({})\n", number_text(rate),
                       number_text(1000 / interval->high_ms), number_text(1000 / interval->low_ms),
                       precision_text(interval->relative_half_width()));
  }
  if (!interval) return fmt::format("  median {}\n", duration_text(m.speed_ms()));
  if (vague)
    return fmt::format("  median {}, 95 % confidence {}\n", duration_text(interval->median_ms),
                       precision_text(interval->relative_half_width()));
  return fmt::format("  median {}, 95 % confidence {} to {} ({})\n", duration_text(interval->median_ms),
                     duration_text(interval->low_ms), duration_text(interval->high_ms),
                     precision_text(interval->relative_half_width()));
}

std::string spread_table(const Measurement& m) {
  const std::vector<double> samples = m.samples_ms();
  const Spread s = spread_of(samples);
  const auto shown = [](const std::optional<double>& ms) {
    return ms ? duration_text(*ms) : std::string("-");
  };
  using Align = Table::Align;
  Table table({{m.processes.front().runs_per_second ? "latency: min" : "samples: min", Align::kRight},
               {"median", Align::kRight},
               {"mean", Align::kRight},
               {"p90", Align::kRight},
               {"p99", Align::kRight},
               {"stddev", Align::kRight},
               {"runs/s", Align::kRight}});
  const double rate = 1000 / m.speed_ms();
  table.row({duration_text(s.min), duration_text(median_of(samples)), duration_text(s.mean),
             shown(percentile(samples, 0.9)), shown(percentile(samples, 0.99)),
             samples.size() > 1 ? duration_text(s.stddev) : "-", number_text(rate)});
  return table.str(2);
}

std::string start_line(const Measurement& m) {
  std::vector<double> loads, firsts, warm_ups, runs;
  for (const ProcessMeasurement& process : m.processes) {
    if (process.load_ms) loads.push_back(*process.load_ms);
    firsts.push_back(process.first_inference_ms);
    warm_ups.push_back(process.warm_up.ms);
    runs.push_back(static_cast<double>(process.warm_up.runs));
  }
  return fmt::format("  start    {}first inference {}, warm-up {} ({})\n",
                     loads.empty() ? "" : "load " + duration_text(median_of(loads)) + ", ",
                     duration_text(median_of(firsts)), duration_text(median_of(warm_ups)),
                     counted(std::lround(median_of(runs)), "run"));
}

std::string memory_lines(const Measurement& m) {
  const rpc::BenchmarkResult& r = m.last;
  std::string text = fmt::format("  memory   workspace {}, weights {}, inputs and outputs {}",
                                 bytes_text(static_cast<double>(r.workspace_bytes)),
                                 bytes_text(static_cast<double>(r.weights_bytes)),
                                 bytes_text(static_cast<double>(r.io_bytes)));
  uint64_t peak = 0;
  for (const ProcessMeasurement& process : m.processes) peak = std::max(peak, process.peak_resident_bytes);
  if (peak > 0) text += fmt::format(", peak {}", bytes_text(static_cast<double>(peak)));
  text += "\n";
  const uint64_t on_gpu = r.device_workspace_bytes + r.device_weights_bytes + r.device_io_bytes;
  if (on_gpu > 0) {
    text += fmt::format("  on GPU   {}: workspace {}, weights {}, inputs and outputs {}\n",
                        bytes_text(static_cast<double>(on_gpu)),
                        bytes_text(static_cast<double>(r.device_workspace_bytes)),
                        bytes_text(static_cast<double>(r.device_weights_bytes)),
                        bytes_text(static_cast<double>(r.device_io_bytes)));
  }
  return text;
}

/// What the machine showed of itself; nothing where it showed nothing.
std::string machine_lines(const MachineSummary& s, size_t runs) {
  std::vector<std::string> cpu, gpu;
  if (s.clock_mhz_mean) {
    const bool steady = *s.clock_mhz_max - *s.clock_mhz_min < 1;
    cpu.push_back(steady ? fmt::format("{:.0f} MHz", *s.clock_mhz_mean)
                         : fmt::format("{:.0f} MHz ({:.0f} to {:.0f})", *s.clock_mhz_mean, *s.clock_mhz_min,
                                       *s.clock_mhz_max));
  }
  if (s.temperature_celsius_max) cpu.push_back(fmt::format("at most {:.1f} °C", *s.temperature_celsius_max));
  if (s.power_watts) cpu.push_back(fmt::format("{:.3g} W", *s.power_watts));
  if (s.energy_joules && runs > 0) {
    cpu.push_back(fmt::format("{:.3g} J a run", *s.energy_joules / static_cast<double>(runs)));
  }
  if (s.throttled.value_or(false)) cpu.push_back("throttled");
  if (s.others_share) cpu.push_back(fmt::format("other processes {:.1f} %", 100 * *s.others_share));
  if (s.gpu_clock_mhz) gpu.push_back(fmt::format("{:.0f} MHz", *s.gpu_clock_mhz));
  if (s.gpu_temperature_celsius_max)
    gpu.push_back(fmt::format("at most {:.0f} °C", *s.gpu_temperature_celsius_max));
  if (s.gpu_power_watts) gpu.push_back(fmt::format("{:.0f} W", *s.gpu_power_watts));
  if (s.gpu_throttled.value_or(false)) gpu.push_back("throttled");
  std::string text;
  if (!cpu.empty()) text += fmt::format("  cpu      {}\n", fmt::join(cpu, ", "));
  if (!gpu.empty()) text += fmt::format("  gpu      {}\n", fmt::join(gpu, ", "));
  return text;
}

/// That the cores were used by others, and what was done about it; nothing where they were not.
std::string cores_line(const Measurement& m) {
  const std::string text = disturbance_text(m);
  if (text.empty()) return "";
  if (m.uses_disturbed) return fmt::format("  cores    {}\n", text.substr(std::strlen("the cores ")));
  return fmt::format("  cores    {}; what was measured then does not count\n",
                     text.substr(std::strlen("the cores ")));
}

uint64_t runs_of(const Measurement& m) {
  uint64_t runs = 0;
  for (const ProcessMeasurement& process : m.processes) runs += process.taken() * process.number;
  return runs;
}

void add_time_warnings(std::vector<std::string>& warnings, const Measurement& m,
                       const MeasureOptions& options) {
  const auto restless = std::ranges::count_if(
      m.processes, [](const ProcessMeasurement& process) { return process.warm_up.steady == false; });
  if (restless > 0) {
    warnings.push_back(fmt::format("{} of {} never became steady; --duration or --warmup may help", restless,
                                   counted(m.processes.size(), "process", "processes")));
  }
  if (m.processes.size() == 1) {
    warnings.push_back("one process only: others may differ by 1 to 2 %, which its interval does not show");
  }
  const size_t counting = m.undisturbed_processes;
  if (counting > 0 && !m.uses_disturbed && counting < std::min(m.processes.size(), kFewCounting)) {
    warnings.push_back(fmt::format("{} of {} processes {}: others used the cores while the rest was measured",
                                   counting, m.processes.size(),
                                   counting == 1 ? "counts alone" : "count alone"));
  }
  if (m.interval && !m.reached_goal && !options.repeat && !options.processes) {
    const std::string known = precision_text(m.interval->relative_half_width()),
                      goal = precision_text(options.precision_goal);
    // What is missed by less than is shown would read "known to ±1 %, not to ±1 %".
    if (known != goal) {
      warnings.push_back(fmt::format(
          "after {:.0f} s the {} is known to {}, not to {}; --duration allows more time", m.elapsed_s,
          m.processes.front().runs_per_second ? "throughput" : "median", known, goal));
    }
  }
  const std::optional<double> drift = drift_between_processes(speed_of(m.processes));
  if (drift && std::abs(*drift) >= options.precision_goal) {
    warnings.push_back(fmt::format(
        "the machine became {} while it was measured: later processes took {:.1f} % {} than earlier ones, "
        "which the interval does not show; measure again, or longer with --duration",
        *drift > 0 ? "slower" : "faster", 100 * std::abs(*drift), *drift > 0 ? "longer" : "less"));
  }
  const std::vector<double> samples = m.samples_ms();
  const Spread s = spread_of(samples);
  if (const double median = median_of(samples); s.stddev > kMuchScatter * median) {
    warnings.push_back(
        fmt::format("the samples scatter by {:.0f} % of their median; something else may use the machine",
                    100 * s.stddev / median));
  }
  if (samples.size() < 10) {
    warnings.push_back(
        fmt::format("only {}; percentiles and comparisons want more", counted(samples.size(), "sample")));
  }
}

/// A line for each of those who used the board meanwhile for longer than a blink.
std::vector<std::string> others_text(const Measurement& m) {
  constexpr double kBlinkMs = 1;
  std::vector<rpc::OtherWork> all;
  for (const ProcessMeasurement& process : m.processes) add_work(all, process.beside);
  std::vector<std::string> lines;
  for (const rpc::OtherWork& work : all) {
    const double ms = work.runs.ms + work.loads.ms + work.transfers.ms;
    if (ms < kBlinkMs) continue;
    lines.push_back(fmt::format(
        "{} used the board meanwhile: {} for {}, {} for {}, data for {}",
        work.key.empty() ? work.address : fmt::format("{} ({})", work.key, work.address),
        counted(work.runs.count, "run"), duration_text(work.runs.ms), counted(work.loads.count, "load"),
        duration_text(work.loads.ms), duration_text(work.transfers.ms)));
  }
  return lines;
}

}  // namespace

std::string disturbance_text(const Measurement& m) {
  const double share = m.disturbed_share().value_or(0);
  if (share < kMuchDisturbed) return "";
  return fmt::format("the cores gave {:.2f} of their speed for {:.0f} % of the time", m.disturbed_speed(),
                     100 * share);
}

std::vector<std::string> machine_warnings(const Measurement& m) {
  std::vector<std::string> warnings;
  const MachineSummary s = summarise_machine(m);
  const bool is_shared = s.others_share.value_or(0) > kMuchOtherLoad;
  if (const std::string text = disturbance_text(m); m.uses_disturbed && !text.empty()) {
    warnings.push_back(
        fmt::format("{}: {}something outside of this machine's sight used them, such as another virtual "
                    "machine on the same cores; too little was undisturbed to count alone, so that the times "
                    "are too long; measure at another time, longer with --duration, or on a machine whose "
                    "cores are its own",
                    text, is_shared ? "other processes of this machine, or " : ""));
  }
  if (is_shared) {
    warnings.push_back(fmt::format("other processes took {:.0f} % of the machine's CPU time meanwhile",
                                   100 * *s.others_share));
  }
  for (const std::string& other : others_text(m)) warnings.push_back(other);
  if (m.turns && !m.turns->beside.empty())
    warnings.push_back(m.turns->beside +
                       " measured on this machine at the same time: no turn was waited for");
  if (s.steal_share.value_or(0) > kMuchOtherLoad) {
    warnings.push_back(fmt::format("the hypervisor took {:.0f} % of the CPU time for others meanwhile",
                                   100 * *s.steal_share));
  }
  if (s.clock_mhz_min && *s.clock_mhz_max > *s.clock_mhz_min * (1 + kMuchClockChange)) {
    warnings.push_back(fmt::format("the clock moved between {:.0f} and {:.0f} MHz meanwhile",
                                   *s.clock_mhz_min, *s.clock_mhz_max));
  }
  if (s.throttled.value_or(false) || s.throttle_events.value_or(0) > 0) {
    warnings.push_back("the CPU was throttled; cool it, or use --cooldown-ms");
  }
  if (s.gpu_throttled.value_or(false)) {
    warnings.push_back("the GPU slowed itself down because of heat or power; use --cooldown-ms");
  }
  const auto cut_off = std::ranges::count_if(
      m.processes, [](const ProcessMeasurement& process) { return process.reached_deadline; });
  if (cut_off > 0 || m.last.reached_deadline) {
    warnings.push_back(fmt::format(
        "{} cut off by gantry-device's --deadline of {:.4g} s for one request: {}",
        cut_off > 0 ? fmt::format("{} of {} {}", cut_off, counted(m.processes.size(), "process", "processes"),
                                  cut_off == 1 ? "was" : "were")
                    : "timing kernels was",
        m.board.deadline_ms / 1e3, cut_off > 0 ? "some samples are missing" : "few runs or none were timed"));
  }
  if (m.board.logical_cpus > 0 && m.last.threads > static_cast<int64_t>(m.board.logical_cpus)) {
    warnings.push_back(fmt::format("{} threads on {} CPUs", m.last.threads, m.board.logical_cpus));
  }
  return warnings;
}

std::vector<std::string> measurement_warnings(const Measurement& measurement, const MeasureOptions& options) {
  std::vector<std::string> warnings;
  add_time_warnings(warnings, measurement, options);
  for (std::string& warning : machine_warnings(measurement)) warnings.push_back(std::move(warning));
  return warnings;
}

std::string report_text(const BenchReport& report, KernelTableOptions profile) {
  const Measurement& m = report.measurement;
  std::string text = heading(report) + "\n" + median_line(m) + spread_table(m);
  text += fmt::format("\n  from     {}, {:.1f} s\n", samples_text(m), m.elapsed_s);
  text += start_line(m) + memory_lines(m) + machine_lines(summarise_machine(m), runs_of(m)) + cores_line(m);
  if (m.last.kernels.empty()) return text;
  // Streams share the machine: their runs are not what the kernels' times are a part of.
  if (report.options.streams == 0) profile.run_ms = m.speed_ms();
  profile.peaks = report.peaks;
  return text + kernel_table(m.last.kernels, profile);
}

}  // namespace gantry::cli
