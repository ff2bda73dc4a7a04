// What the first GPU can do at most, measured: bandwidth of its memory, multiply-adds in fp32, products of
// its tensor cores by the instructions that gantry's kernels use. One line of JSON on stdout.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/gpu/peak_kernels.h"
#include "device_runtime/src/cuda_device.h"
#include "device_runtime/src/gpu_info.h"

namespace gantry::gpu_bundle {
namespace {

using namespace runtime::cuda;
using runtime::failure;
using runtime::Result;
using runtime::Status;
using Json = nlohmann::ordered_json;

constexpr unsigned kThreads = 256;
constexpr int kRuns = 5;
/// A run that is timed takes about so long.
constexpr double kRunMs = 20;
/// Sums stay exact in f32.
constexpr double kLargestSum = 1 << 24;

/// A kernel of PTX text, loaded.
class Kernel {
 public:
  Kernel(const Device& device, const std::string& ptx, const char* name) : device_(device) {
    std::string log(8192, '\0');
    int options[] = {kJitErrorLog, kJitErrorLogBytes};
    void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
    const ResultCode code = device.driver().load_module(&module_, ptx.c_str(), 2, options, values);
    status_ = device.check(code, fmt::format("loading {}: {}", name, log.c_str()));
    if (status_.ok())
      status_ = device.check(device.driver().get_function(&function_, module_, name),
                             std::string("finding the kernel ") + name);
  }
  Kernel(const Kernel&) = delete;
  ~Kernel() {
    if (module_ != nullptr) device_.driver().unload_module(module_);
  }
  const Status& status() const { return status_; }
  ResultCode launch(unsigned blocks, std::vector<uint64_t> arguments) const {
    std::vector<void*> pointers;
    for (uint64_t& argument : arguments) pointers.push_back(&argument);
    return device_.driver().launch(function_, blocks, 1, 1, kThreads, 1, 1, 0, nullptr, pointers.data(),
                                   nullptr);
  }

 private:
  const Device& device_;
  ModuleHandle module_ = nullptr;
  Function function_ = nullptr;
  Status status_;
};

/// Milliseconds of the fastest of some launches, by events.
template <typename Launch>
Result<double> fastest_ms(const Device& device, int runs, Launch launch) {
  const Driver& driver = device.driver();
  Event start = nullptr, end = nullptr;
  GANTRY_TRY(device.check(driver.create_event(&start, kEventDefault), "making an event"));
  GANTRY_TRY(device.check(driver.create_event(&end, kEventDefault), "making an event"));
  double best = 0;
  for (int i = 0; i < runs; ++i) {
    float ms = 0;
    GANTRY_TRY(device.check(driver.record_event(start, nullptr), "recording an event"));
    GANTRY_TRY(device.check(launch(), "launching"));
    GANTRY_TRY(device.check(driver.record_event(end, nullptr), "recording an event"));
    GANTRY_TRY(device.check(driver.synchronize_stream(nullptr), "running the kernel"));
    GANTRY_TRY(device.check(driver.elapsed_ms(&ms, start, end), "reading the clock"));
    if (i == 0 || ms < best) best = ms;
  }
  driver.destroy_event(start);
  driver.destroy_event(end);
  return best;
}

/// GB/s of copying, both directions together, much more than the second-level cache holds.
Result<double> bandwidth(const std::shared_ptr<Device>& device, int multiprocessors) {
  const uint64_t free = device->free_bytes();
  const uint64_t bytes =
      std::min<uint64_t>(std::max<uint64_t>(16 * device->l2_bytes(), 256 << 20), free / 4) / 4096 * 4096;
  Memory from, to;
  GANTRY_TRY(from.reserve(device, bytes, "what is copied"));
  GANTRY_TRY(to.reserve(device, bytes, "what is copied"));
  const Driver& driver = device->driver();
  GANTRY_TRY(device->check(driver.fill(from.device_address(), 0x5a, bytes, nullptr), "filling memory"));
  const Kernel kernel(*device, copy_ptx(), "copy");
  if (!kernel.status().ok()) return kernel.status();
  const unsigned blocks = static_cast<unsigned>(multiprocessors) * 8;
  const Result<double> ms = fastest_ms(*device, kRuns + 1, [&] {
    return kernel.launch(
        blocks, {from.device_address(), to.device_address(), bytes / 16, uint64_t{blocks} * kThreads});
  });
  if (!ms.ok()) return ms;
  std::vector<unsigned char> last(4096);
  GANTRY_TRY(device->check(
      driver.copy_to_host(last.data(), to.device_address() + bytes - last.size(), last.size(), nullptr),
      "reading"));
  GANTRY_TRY(device->check(driver.synchronize_stream(nullptr), "reading"));
  if (std::any_of(last.begin(), last.end(), [](unsigned char byte) { return byte != 0x5a; }))
    return failure(GANTRY_KERNEL_FAILED, "the copy is not what was copied");
  return 2 * static_cast<double>(bytes) / ms.value() / 1e6;
}

/// GFLOP/s of a chain.
Result<double> chain_rate(const std::shared_ptr<Device>& device, int multiprocessors, const Chain& chain) {
  const Kernel kernel(*device, chain_ptx(chain), chain.name);
  if (!kernel.status().ok()) return kernel.status();
  const unsigned blocks = static_cast<unsigned>(multiprocessors) * 4;
  const uint64_t threads = uint64_t{blocks} * kThreads;
  Memory out;
  GANTRY_TRY(out.reserve(device, threads * sizeof(float), "sums"));
  const auto time = [&](uint64_t iterations, int runs) {
    return fastest_ms(*device, runs, [&] {
      return kernel.launch(blocks, {out.device_address(), iterations, chain.one});
    });
  };
  const double most = std::floor(kLargestSum / chain.step / 2);
  Result<double> ms = time(64, 2);
  if (!ms.ok()) return ms;
  const double iterations = std::clamp(std::ceil(64 * kRunMs / std::max(ms.value(), 1e-3)), 64.0, most);
  ms = time(static_cast<uint64_t>(iterations), kRuns);
  if (!ms.ok()) return ms;
  std::vector<float> sums(threads);
  const Driver& driver = device->driver();
  GANTRY_TRY(device->check(
      driver.copy_to_host(sums.data(), out.device_address(), threads * sizeof(float), nullptr), "reading"));
  GANTRY_TRY(device->check(driver.synchronize_stream(nullptr), "reading"));
  for (float sum : sums) {
    if (sum != static_cast<float>(iterations * chain.step))
      return failure(GANTRY_KERNEL_FAILED, "a sum is %g instead of %g", static_cast<double>(sum),
                     iterations * chain.step);
  }
  return chain.flops * iterations * static_cast<double>(threads) / ms.value() / 1e6;
}

/// What a GPU of that many multiprocessors and clock cannot exceed in fp32: 128 multiply-adds a cycle each.
double most_fp32_gflops(const runtime::GpuInfo& gpu) {
  return gpu.multiprocessors * gpu.clock_mhz * 1e-3 * 128 * 2;
}

int run() {
  const runtime::GpuList list = runtime::describe_gpus();
  if (list.gpus.empty()) {
    std::fprintf(stderr, "gpu_peaks: %s\n", list.problem.c_str());
    return 1;
  }
  const runtime::GpuInfo& gpu = list.gpus[0];
  auto device = Device::open(0);
  const Status status = device.ok() ? (*device)->enter() : device.status();
  if (!status.ok()) {
    std::fprintf(stderr, "gpu_peaks: %s\n", status.message().c_str());
    return 1;
  }
  Json peaks = Json::object(), problems = Json::object();
  std::string text = gpu.name;
  const auto add = [&](const std::string& field, const std::string& what, const Result<double>& rate,
                       double scale, const char* unit) {
    if (rate.ok()) {
      peaks[field] = rate.value();
      text += fmt::format(", {} {:.4g} {}", what, rate.value() * scale, unit);
    } else {
      problems[field] = rate.status().message();
      text += fmt::format(", {}: {}", what, rate.status().message());
    }
  };
  add("bandwidth_gb_per_s", "memory", bandwidth(*device, gpu.multiprocessors), 1, "GB/s");
  for (const Chain& chain : chains()) {
    if ((*device)->compute_capability() < chain.needs) {
      text += fmt::format(", no {} (needs sm_{})", chain.peak, chain.needs);
      continue;
    }
    add(fmt::format("{}_gflop_per_s", chain.peak), chain.peak,
        chain_rate(*device, gpu.multiprocessors, chain), 1e-3, "TFLOP/s");
  }
  const double fp32 = peaks.value("fp32_gflop_per_s", 0.0), most = most_fp32_gflops(gpu);
  if (fp32 > 1.1 * most)
    text +=
        fmt::format("; implausible: {} multiprocessors at {} MHz cannot do more than {:.4g} TFLOP/s in fp32",
                    gpu.multiprocessors, gpu.clock_mhz, most * 1e-3);
  std::printf("%s\n", Json{{"gpu", gpu.name}, {"peaks", peaks}, {"problems", problems}, {"text", text}}
                          .dump(-1, ' ', false, Json::error_handler_t::replace)
                          .c_str());
  return problems.empty() ? 0 : 1;
}

}  // namespace
}  // namespace gantry::gpu_bundle

int main(int argc, char** argv) {
  if (argc > 1) {
    const bool asked = std::string(argv[1]) == "--help";
    std::fputs("usage: gpu_peaks\nMeasures what the first GPU can do at most; prints a line of JSON.\n",
               asked ? stdout : stderr);
    return asked ? 0 : 1;
  }
  return gantry::gpu_bundle::run();
}
