#include "host/cli/measure_peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <span>

#include "host/cli/bench_report.h"
#include "host/cli/statistics/disturbance.h"
#include "host/cli/tensor_text.h"
#include "host/cli/text.h"
#include "host/codegen/find_target.h"
#include "host/driver/compile.h"
#include "host/machine/cpu_family.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/support/stopwatch.h"

namespace gantry::cli {
namespace {

// The product: its operands stay in caches, its weights are packed as a layer's are.
constexpr int64_t kThreadRows = 192, kFewestRows = 96, kDepth = 512, kUnits = 512;
// The array is written by one step, so that nothing large has to be sent to a board, and read by the next.
constexpr int64_t kArrayDepth = 4, kArrayColumns = 4096;
constexpr size_t kReadingStep = 1;
/// Of what the last caches of large CPUs have.
constexpr uint64_t kTimesCaches = 4;
/// Of the memory that a session may use, and that the machine has left.
constexpr uint64_t kMemoryShare = 4;
constexpr uint64_t kSmallestArray = uint64_t{16} << 20;

uint64_t array_bytes(const rpc::BoardInfo& machine) {
  const CpuFamily* family = find_family(machine.architecture);
  if (family == nullptr) family = cpu_families().back();  // compiling for it says what is wrong
  uint64_t bytes = kTimesCaches * static_cast<uint64_t>(family->last_cache_bytes);
  for (const uint64_t limit : {machine.session_memory_bytes, machine.memory_available_bytes}) {
    if (limit > 0) bytes = std::min(bytes, limit / kMemoryShare);
  }
  return bytes;
}

/// Normally distributed: on zeros some machines clock higher than on a network's data.
std::vector<float> some_values(int64_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> distribution;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = distribution(generator);
  return values;
}

ConstantPtr weight(int64_t rows, int64_t columns) {
  return make_constant({DType::kF32, {rows, columns}}, some_values(rows * columns).data());
}

/// Rows enough for every thread; fewer where the product would take long, judged by the best rate of the
/// kernels that ran.
int64_t product_rows(const rpc::BenchmarkResult& ran) {
  constexpr double kSeconds = 0.2, kRowFlops = 2.0 * kDepth * kUnits;
  double rate = 0;
  for (const rpc::KernelTiming& kernel : ran.kernels) {
    if (kernel.total_ms > 0) rate = std::max(rate, kernel.flops / kernel.total_ms * 1e3);
  }
  const double most = static_cast<double>(kThreadRows * std::max<int64_t>(ran.threads, 1));
  const auto rows = static_cast<int64_t>(std::min(most, rate * kSeconds / kRowFlops));
  return std::max(kFewestRows, rows / kFewestRows * kFewestRows);
}

Graph product_graph(int64_t rows) {
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({0}, {1}), f32]) -> Tensor[({0}, {2}), f32] {{\n"
      "  %product = nn.dense(%x, @w: Tensor[({1}, {2}), f32], units={2})\n  return %product\n}}\n",
      rows, kDepth, kUnits);
  return parse_graph(text, op_set(), {{"w", weight(kDepth, kUnits)}});
}

Graph array_graph(int64_t rows) {
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({0}, {1}), f32]) -> Tensor[({0}), f32] {{\n"
      "  %array = nn.dense(%x, @w: Tensor[({1}, {2}), f32], units={2})\n"
      "  %sums = sum(%array, axes=[1], keepdims=false)\n  return %sums\n}}\n",
      rows, kArrayDepth, kArrayColumns);
  return parse_graph(text, op_set(), {{"w", weight(kArrayDepth, kArrayColumns)}});
}

/// Loads the graph where and as the execution's module ran, with an input of that shape.
void load_graph(Execution& execution, const ExecutionOptions& options, const Graph& graph, int64_t rows,
                int64_t columns) {
  CompileOptions compile;
  compile.targets = {find_target(execution.loaded.target)};
  if (!execution.loaded.precision.empty()) compile.precision = find_precision(execution.loaded.precision);
  compile.cache = open_cache(!options.no_cache);
  ModuleFile file = compile_graph(graph, compile);
  execution.machine->load(module_bytes(file), load_options(options), {});
  const std::vector<float> values = some_values(rows * columns);
  HostTensor tensor;
  tensor.shape = {rows, columns};
  const auto bytes = std::as_bytes(std::span(values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  execution.machine->set_input(0, tensor);
}

/// What else used the machine while its roofs were measured.
class Meanwhile {
 public:
  void hear(const rpc::BenchmarkResult& result) {
    process_.readings.insert(process_.readings.end(), result.readings.begin(), result.readings.end());
    process_.pulses.insert(process_.pulses.end(), result.pulses.begin(), result.pulses.end());
  }
  /// `level`: of undisturbed pulses; none: not known.
  void tell(MachinePeaks& peaks, const std::optional<double>& level) const {
    Measurement all;
    all.processes.push_back(process_);
    const MachineSummary summary = summarise_machine(all);
    peaks.others_share = summary.others_share;
    peaks.steal_share = summary.steal_share;
    if (!level || process_.pulses.empty()) return;
    const auto disturbed = std::ranges::count_if(
        process_.pulses, [&](const rpc::CorePulse& pulse) { return is_disturbed(pulse, *level); });
    peaks.disturbed_share = static_cast<double>(disturbed) / static_cast<double>(process_.pulses.size());
  }

 private:
  ProcessMeasurement process_;
};

/// Of a round that lasts long enough for the machine to say what others took of it: 20 of the kernel's ticks
/// of 10 ms on all CPUs together (device_runtime/src/probes_cpu.cpp), and some more.
double round_ms(const rpc::BoardInfo& machine) {
  constexpr double kLeastMs = 50, kCpuMs = 250;
  return std::max(kLeastMs, kCpuMs / std::max(1.0, static_cast<double>(machine.logical_cpus)));
}

/// Milliseconds of the fastest run: what else uses the machine only slows some of them, unless it is much.
double fastest_run_ms(Machine& machine, Meanwhile& meanwhile) {
  constexpr double kSeconds = 0.3, kMostRuns = 2000;
  rpc::BenchmarkOptions options;
  options.warmup = 1;
  options.repeat = 2;
  double least = 0;
  const Stopwatch whole;
  do {
    const rpc::BenchmarkResult result = machine.benchmark(options, {});
    meanwhile.hear(result);
    const double ms = result.statistics.min_ms;
    least = least > 0 ? std::min(least, ms) : ms;
    if (!(least > 0)) user_error("the clock there is too coarse");
    options.warmup = 0;
    options.repeat = static_cast<uint32_t>(std::clamp(round_ms(machine.info()) / least, 1.0, kMostRuns));
  } while (whole.seconds() < kSeconds);
  return least;
}

/// Of the array's reading, the fastest of a few medians.
double fastest_reading_ms(Machine& machine, Meanwhile& meanwhile) {
  constexpr double kSeconds = 0.6;
  rpc::BenchmarkOptions options;
  options.profile = true;
  options.warmup = 1;
  options.repeat = 1;
  double least = 0;
  const Stopwatch whole;
  do {
    const rpc::BenchmarkResult result = machine.benchmark(options, {});
    meanwhile.hear(result);
    if (result.kernels.size() <= kReadingStep) throw Error(ErrorKind::kBoard, "kernels were not timed");
    const double ms = result.kernels[kReadingStep].total_ms;
    least = least > 0 ? std::min(least, ms) : ms;
    if (!(least > 0)) user_error("the clock there is too coarse");
    options.warmup = 0;
  } while (whole.seconds() < kSeconds);
  return least;
}

MachinePeaks measured(Execution& execution, const ExecutionOptions& options, const Measurement& measurement) {
  const rpc::BenchmarkResult& ran = measurement.last;
  Machine& machine = *execution.machine;
  const uint64_t limit = array_bytes(machine.info());
  if (limit < kSmallestArray) {
    user_error("a session there may use {}, too little for an array that no cache holds",
               bytes_text(static_cast<double>(machine.info().session_memory_bytes)));
  }
  MachinePeaks peaks;
  Meanwhile meanwhile;
  peaks.threads = static_cast<int>(std::max<int64_t>(ran.threads, 1));
  const int64_t rows = product_rows(ran);
  load_graph(execution, options, product_graph(rows), rows, kDepth);
  peaks.gflop_per_s =
      2.0 * static_cast<double>(rows * kDepth * kUnits) / fastest_run_ms(machine, meanwhile) / 1e6;
  const int64_t array_rows = static_cast<int64_t>(limit) / (4 * kArrayColumns);
  load_graph(execution, options, array_graph(array_rows), array_rows, kArrayDepth);
  const double bytes = 4.0 * static_cast<double>(array_rows * kArrayColumns);
  peaks.gb_per_s = bytes / fastest_reading_ms(machine, meanwhile) / 1e6;
  meanwhile.tell(peaks, measurement.undisturbed_pulse);
  const std::string& precision = execution.loaded.precision;
  peaks.how = fmt::format(
      "on {} by kernels compiled for this: the fastest {} x {} x {} matrix product{}, and the fastest "
      "reading of {}",
      peaks.threads == 1 ? "one thread" : fmt::format("{} threads", peaks.threads), rows, kDepth, kUnits,
      precision.empty() ? "" : " in " + precision, bytes_text(bytes));
  return peaks;
}

}  // namespace

PeaksResult measure_peaks(Execution& execution, const ExecutionOptions& options, const Measurement& ran) {
  if (options.device.starts_with("cuda-emulated"))
    return {std::nullopt, "an emulated GPU has no roofs that say anything of a GPU"};
  if (options.device.starts_with("cuda")) return {std::nullopt, "not measured on GPUs"};
  try {
    return {measured(execution, options, ran), ""};
  } catch (const std::exception& error) {
    return {std::nullopt, fmt::format("not measured: {}", error.what())};
  }
}

}  // namespace gantry::cli
