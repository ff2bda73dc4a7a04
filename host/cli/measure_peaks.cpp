#include "host/cli/measure_peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <span>

#include "host/cli/tensor_text.h"
#include "host/cli/text.h"
#include "host/driver/compile.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/support/stopwatch.h"

namespace gantry::cli {
namespace {

// Steps of the module, by the ops that they are for.
//   %product: products that stay in caches, with weights packed as a layer's are
//   %array: written, so that nothing large has to be sent to a board
//   %sums: reads it
constexpr int64_t kMostRows = 768, kFewestRows = 96, kDepth = 512, kUnits = 768;
constexpr int64_t kArrayDepth = 4, kArrayColumns = 4096;
constexpr size_t kProductStep = 0, kSumsStep = 2;
/// Several times what the last caches of these have.
constexpr uint64_t kServerArray = uint64_t{256} << 20, kBoardArray = uint64_t{64} << 20;
/// Of the memory that a session may use, and that the machine has left.
constexpr uint64_t kMemoryShare = 4;
constexpr uint64_t kSmallestArray = uint64_t{16} << 20;

uint64_t array_bytes(const rpc::BoardInfo& machine) {
  uint64_t bytes = machine.architecture == "x86_64" ? kServerArray : kBoardArray;
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

/// Rows of a product that takes a fraction of a second on a slow board, too, judged by the kernels that ran:
/// at the rate of the best of them.
int64_t product_rows(const std::vector<rpc::KernelTiming>& kernels) {
  constexpr double kSeconds = 0.2, kRowFlops = 2.0 * kDepth * kUnits;
  double rate = 0;
  for (const rpc::KernelTiming& kernel : kernels) {
    if (kernel.total_ms > 0) rate = std::max(rate, kernel.flops / kernel.total_ms * 1e3);
  }
  const double rows = std::min<double>(kMostRows, rate * kSeconds / kRowFlops);
  return std::max(kFewestRows, static_cast<int64_t>(rows) / kFewestRows * kFewestRows);
}

/// What is measured.
struct PeaksWork {
  int64_t product_rows = kMostRows;
  int64_t array_rows = 0;

  double product_flops() const { return 2.0 * static_cast<double>(product_rows * kDepth * kUnits); }
  double array_bytes() const { return 4.0 * static_cast<double>(array_rows * kArrayColumns); }
};

Graph peaks_graph(const PeaksWork& work) {
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({0}, {1}), f32], %a: Tensor[({3}, {4}), f32]) -> (Tensor[({0}, {2}), f32], "
      "Tensor[({3}), f32]) {{\n"
      "  %product = nn.dense(%x, @w: Tensor[({1}, {2}), f32], units={2})\n"
      "  %array = nn.dense(%a, @v: Tensor[({4}, {5}), f32], units={5})\n"
      "  %sums = sum(%array, axes=[1], keepdims=false)\n"
      "  return %product, %sums\n}}\n",
      work.product_rows, kDepth, kUnits, work.array_rows, kArrayDepth, kArrayColumns);
  return parse_graph(text, op_set(),
                     {{"w", weight(kDepth, kUnits)}, {"v", weight(kArrayDepth, kArrayColumns)}});
}

void set_input(Machine& machine, int index, int64_t rows, int64_t columns) {
  const std::vector<float> values = some_values(rows * columns);
  HostTensor tensor;
  tensor.shape = {rows, columns};
  const auto bytes = std::as_bytes(std::span(values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  machine.set_input(index, tensor);
}

/// The best of several measurements, each the median of a few runs; slow machines get fewer.
MachinePeaks best_of_rounds(Machine& machine, const PeaksWork& work) {
  constexpr int kRounds = 4;
  constexpr double kSeconds = 0.8;
  rpc::BenchmarkOptions options;
  options.profile = true;
  options.warmup = 1;
  options.repeat = 1;
  MachinePeaks peaks;
  const Stopwatch whole;
  for (int round = 0; round < kRounds && (round == 0 || whole.seconds() < kSeconds); ++round) {
    const rpc::BenchmarkResult result = machine.benchmark(options, {});
    if (result.kernels.size() <= kSumsStep) throw Error(ErrorKind::kBoard, "its kernels were not timed");
    const auto rate = [&](size_t step, double amount) {
      const double ms = result.kernels[step].total_ms;
      return ms > 0 ? amount / ms / 1e6 : 0;
    };
    peaks.gflop_per_s = std::max(peaks.gflop_per_s, rate(kProductStep, work.product_flops()));
    peaks.gb_per_s = std::max(peaks.gb_per_s, rate(kSumsStep, work.array_bytes()));
    peaks.threads = static_cast<int>(result.threads);
    options.warmup = 0;
  }
  return peaks;
}

std::string description(const MachinePeaks& peaks, const PeaksWork& work, const std::string& precision) {
  return fmt::format(
      "on {} by kernels compiled for this: a {} x {} x {} matrix product{}, and reading {} once; the best of "
      "a few",
      peaks.threads == 1 ? "a thread" : fmt::format("{} threads", peaks.threads), work.product_rows, kDepth,
      kUnits, precision.empty() ? "" : " in " + precision, bytes_text(work.array_bytes()));
}

MachinePeaks measured(Execution& execution, const ExecutionOptions& options,
                      const std::vector<rpc::KernelTiming>& kernels) {
  Machine& machine = *execution.machine;
  const uint64_t bytes = array_bytes(machine.info());
  if (bytes < kSmallestArray) {
    user_error("a session there may use {}, too little for an array that no cache holds",
               bytes_text(static_cast<double>(machine.info().session_memory_bytes)));
  }
  const PeaksWork work{product_rows(kernels), static_cast<int64_t>(bytes) / (4 * kArrayColumns)};
  CompileOptions compile;
  compile.targets = {find_target(execution.loaded.target)};
  if (!execution.loaded.precision.empty()) compile.precision = find_precision(execution.loaded.precision);
  compile.cache = open_cache(!options.no_cache);
  ModuleFile file = compile_graph(peaks_graph(work), compile);
  machine.load(module_bytes(file), load_options(options), {});
  set_input(machine, 0, work.product_rows, kDepth);
  set_input(machine, 1, work.array_rows, kArrayDepth);
  MachinePeaks peaks = best_of_rounds(machine, work);
  if (!(peaks.gflop_per_s > 0 && peaks.gb_per_s > 0)) user_error("the clock there is too coarse");
  peaks.how = description(peaks, work, execution.loaded.precision);
  return peaks;
}

}  // namespace

PeaksResult measure_peaks(Execution& execution, const ExecutionOptions& options,
                          const std::vector<rpc::KernelTiming>& kernels) {
  if (options.device.starts_with("cuda-emulated"))
    return {std::nullopt, "an emulated GPU has no roofs that say anything of a GPU"};
  if (options.device.starts_with("cuda")) return {std::nullopt, "not measured on GPUs"};
  try {
    return {measured(execution, options, kernels), ""};
  } catch (const std::exception& error) {
    return {std::nullopt, fmt::format("not measured: {}", error.what())};
  }
}

}  // namespace gantry::cli
