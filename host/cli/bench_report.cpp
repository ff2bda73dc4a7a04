#include "host/cli/bench_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "host/cli/text.h"

namespace gantry::cli {
namespace {

double mean_frequency(const rpc::CpuState& state) {
  if (state.frequency_mhz.empty()) return 0;
  return std::accumulate(state.frequency_mhz.begin(), state.frequency_mhz.end(), 0.0) /
         static_cast<double>(state.frequency_mhz.size());
}

std::string cpu_state_text(const rpc::CpuState& state) {
  std::string text;
  if (!state.frequency_mhz.empty()) text += fmt::format("{:.0f} MHz", mean_frequency(state));
  if (state.temperature_celsius) {
    text += fmt::format("{}{:.1f} °C", text.empty() ? "" : ", ", *state.temperature_celsius);
  }
  if (state.throttle_events)
    text += fmt::format("{}{} throttle events", text.empty() ? "" : ", ", *state.throttle_events);
  return text;
}

std::string gpu_state_text(const rpc::GpuState& state) {
  std::vector<std::string> parts;
  if (state.clock_mhz) parts.push_back(fmt::format("{:.0f} MHz", *state.clock_mhz));
  if (state.temperature_celsius) parts.push_back(fmt::format("{:.0f} °C", *state.temperature_celsius));
  if (state.power_watts) parts.push_back(fmt::format("{:.0f} W", *state.power_watts));
  if (state.throttled && *state.throttled) parts.push_back("throttled");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string heading(const BenchReport& report) {
  const rpc::BenchmarkResult& r = report.result;
  const std::string where =
      report.address.empty() ? "this machine" : fmt::format("{} ({})", report.board, report.address);
  std::string text = fmt::format("{}\n", report.model);
  text += fmt::format("  on       {}: {}{}\n", where, r.board.cpu,
                      r.board.system.empty() ? "" : ", " + r.board.system);
  if (report.device.starts_with("cuda") && report.device != "cuda-emulated") {
    for (const rpc::GpuInfo& gpu : r.board.gpus) {
      text += fmt::format("  gpu      {} (sm_{}), {}, driver {}for CUDA {}.{}\n", gpu.name,
                          gpu.compute_capability, bytes_text(static_cast<double>(gpu.memory_bytes)),
                          gpu.driver.empty() ? "" : gpu.driver + " ", gpu.cuda_version / 1000,
                          gpu.cuda_version % 1000 / 10);
    }
  }
  text += fmt::format("  code     {} on {}, {} thread{}, module {}\n", r.target, report.device, r.threads,
                      r.threads == 1 ? "" : "s", report.module_digest.substr(0, 12));
  for (const BenchInput& input : report.inputs) {
    text += fmt::format("  input    {}: {} ({})\n", input.name, type_and_shape(input.type, input.shape),
                        input.source);
  }
  return text;
}

std::string timing_table(const BenchReport& report) {
  const rpc::BenchmarkResult& r = report.result;
  const rpc::BenchmarkStatistics& s = r.statistics;
  using Align = Table::Align;
  Table table({{"min", Align::kRight},
               {"median", Align::kRight},
               {"mean", Align::kRight},
               {"p90", Align::kRight},
               {"p99", Align::kRight},
               {"stddev", Align::kRight},
               {"samples", Align::kRight},
               {"runs/s", Align::kRight}});
  table.row({duration_text(s.min_ms), duration_text(s.median_ms), duration_text(s.mean_ms),
             duration_text(s.p90_ms), duration_text(s.p99_ms), duration_text(s.stddev_ms),
             r.number == 1 ? fmt::format("{}", r.samples_ms.size())
                           : fmt::format("{} of {} runs", r.samples_ms.size(), r.number),
             number_text(s.median_ms > 0 ? 1000 / s.median_ms : 0)});
  return table.str(2);
}

std::string machine_lines(const rpc::BenchmarkResult& r) {
  std::string text =
      fmt::format("  memory   workspace {}, weights {}, inputs and outputs {}", bytes_text(r.workspace_bytes),
                  bytes_text(r.weights_bytes), bytes_text(r.io_bytes));
  if (r.peak_resident_bytes > 0) text += fmt::format(", peak resident {}", bytes_text(r.peak_resident_bytes));
  text += "\n";
  const uint64_t on_gpu = r.device_workspace_bytes + r.device_weights_bytes + r.device_io_bytes;
  if (on_gpu > 0) {
    text += fmt::format("  on GPU   {}: workspace {}, weights {}, inputs and outputs {}\n",
                        bytes_text(on_gpu), bytes_text(r.device_workspace_bytes),
                        bytes_text(r.device_weights_bytes), bytes_text(r.device_io_bytes));
    const std::string gpu_before = gpu_state_text(r.gpu_before), gpu_after = gpu_state_text(r.gpu_after);
    if (!gpu_before.empty()) text += fmt::format("  gpu      before {}; after {}\n", gpu_before, gpu_after);
  }
  const std::string before = cpu_state_text(r.cpu_before), after = cpu_state_text(r.cpu_after);
  if (!before.empty() || !after.empty()) {
    text += fmt::format("  cpu      before {}; after {}{}\n", before, after,
                        r.cpu_before.governor.empty() ? "" : "; governor " + r.cpu_before.governor);
  }
  return text;
}

std::string kernel_table(const rpc::BenchmarkResult& r, size_t width) {
  std::vector<rpc::KernelTiming> kernels = r.kernels;
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const auto& a, const auto& b) { return a.total_ms > b.total_ms; });
  double total = 0;
  for (const auto& kernel : kernels) total += kernel.total_ms;
  using Align = Table::Align;
  Table table({{"time", Align::kRight},
               {"share", Align::kRight},
               {"GFLOP/s", Align::kRight},
               {"GB/s", Align::kRight},
               {"kernel", Align::kLeft},
               {"ONNX nodes", Align::kLeft}});
  constexpr size_t kNameWidth = 40;
  for (const auto& kernel : kernels) {
    const double seconds = kernel.total_ms / 1000;
    table.row({duration_text(kernel.total_ms),
               fmt::format("{:.1f} %", total > 0 ? 100 * kernel.total_ms / total : 0),
               seconds > 0 ? number_text(kernel.flops / seconds / 1e9) : "-",
               seconds > 0 ? number_text(kernel.bytes / seconds / 1e9) : "-",
               shorten(kernel.name, width == 0 ? 0 : kNameWidth), kernel.origin});
  }
  return fmt::format("\nKernels, worst first; one run of {} with a clock around every kernel:\n{}",
                     duration_text(total), table.str(2, width));
}

}  // namespace

std::vector<std::string> noise_warnings(const rpc::BenchmarkResult& r) {
  std::vector<std::string> warnings;
  const rpc::BenchmarkStatistics& s = r.statistics;
  if (s.median_ms > 0 && s.stddev_ms > 0.1 * s.median_ms) {
    warnings.push_back(
        fmt::format("the samples scatter by {:.0f} % of their median; something else may use the machine",
                    100 * s.stddev_ms / s.median_ms));
  } else if (s.median_ms > 0 && s.p90_ms > 1.15 * s.median_ms) {
    warnings.push_back(fmt::format("one sample in ten takes {:.0f} % longer than the median or more",
                                   100 * (s.p90_ms / s.median_ms - 1)));
  }
  if (s.median_ms > 0 && s.median_ms * r.number < 0.01) {
    warnings.push_back("a sample is shorter than 10 us, near what the clock costs; use --min-repeat-ms");
  }
  const double before = mean_frequency(r.cpu_before), after = mean_frequency(r.cpu_after);
  if (before > 0 && after > 0 && std::fabs(after / before - 1) > 0.1) {
    warnings.push_back(fmt::format("the clock went from {:.0f} to {:.0f} MHz meanwhile", before, after));
  }
  if (r.cpu_before.throttle_events && r.cpu_after.throttle_events &&
      *r.cpu_after.throttle_events > *r.cpu_before.throttle_events) {
    warnings.push_back("the board throttled its CPU; cool it, or use --cooldown-ms");
  }
  const std::string& governor = r.cpu_before.governor;
  if (!governor.empty() && governor != "performance") {
    warnings.push_back(
        fmt::format("the CPU frequency governor is '{}'; 'performance' times more evenly", governor));
  }
  if (r.gpu_after.throttled && *r.gpu_after.throttled)
    warnings.push_back("the GPU slows itself down because of heat or power; use --cooldown-ms");
  if (r.samples_ms.size() < 10) {
    warnings.push_back(
        fmt::format("only {} samples; percentiles and comparisons want more: --repeat", r.samples_ms.size()));
  }
  if (r.board.logical_cpus > 0 && r.threads > static_cast<int64_t>(r.board.logical_cpus)) {
    warnings.push_back(fmt::format("{} threads on {} CPUs", r.threads, r.board.logical_cpus));
  }
  return warnings;
}

std::string report_text(const BenchReport& report, size_t width) {
  std::string text = heading(report) + "\n" + timing_table(report) + "\n" + machine_lines(report.result);
  if (!report.result.kernels.empty()) text += kernel_table(report.result, width);
  return text;
}

}  // namespace gantry::cli
