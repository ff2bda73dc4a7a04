#include "host/targets/cuda/gpu_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "host/support/error.h"
#include "host/support/suggest.h"
#include "host/targets/cuda/family.h"

namespace gantry::cuda {
namespace {

struct GpuArchitecture {
  std::string_view name;
  std::string_view boards;
  /// CPU beside it unless named: modules of the Jetson line sit on one chip with Arm cores.
  std::string_view host;
  /// The oldest version of PTX that knows the architecture and its matrix instructions, in tenths: the older
  /// the version, the more drivers read it.
  int ptx;
  GpuModel model;
};

constexpr const char* kDesktopHost = "x86-64-v2";
constexpr const char* kCuda = "cuda";
constexpr const char* kEmulated = "cuda-emulated";
constexpr const char* kDefaultArchitecture = "sm_80";
constexpr const char* kEmulatingCpu = "native";
constexpr const char* kChecks = "+checks";
constexpr int kGpuRank = 1000;  // above every CPU's

/// sm_90 and sm_90a are the same GPUs.
constexpr GpuModel kHopper = {.compute_capability = 90,
                              .multiprocessors = 132,
                              .clock_ghz = 1.83,
                              .fp32_per_cycle = 128,
                              .tf32_per_cycle = 1024,
                              .half_per_cycle = 2048,
                              .memory_gb_per_second = 3350,
                              .l2_gb_per_second = 5600,
                              .l2_bytes = 50 << 20,
                              .shared_bytes = 228 << 10,
                              .max_threads = 2048,
                              .max_blocks = 32};

// The figures stand for one common card of each architecture. Multiprocessors, boost clock, rates and memory
// are from NVIDIA's data sheets and architecture white papers, limits of a multiprocessor from the table of
// compute capabilities in the CUDA programming guide. NVIDIA publishes no second-level cache bandwidth: those
// are what read benchmarks reach, rounded. Volta's tensor cores have no instruction of the shapes that gantry
// uses, so they count as absent.
constexpr std::array kArchitectures = {
    GpuArchitecture{"sm_70",
                    "NVIDIA Volta: Tesla V100, Titan V",
                    kDesktopHost,
                    63,
                    {.compute_capability = 70,
                     .multiprocessors = 80,
                     .clock_ghz = 1.53,
                     .fp32_per_cycle = 64,
                     .tf32_per_cycle = 0,
                     .half_per_cycle = 0,
                     .memory_gb_per_second = 900,
                     .l2_gb_per_second = 2100,
                     .l2_bytes = 6 << 20,
                     .shared_bytes = 96 << 10,
                     .max_threads = 2048,
                     .max_blocks = 32}},
    GpuArchitecture{"sm_72",
                    "NVIDIA Volta: Jetson Xavier",
                    "aarch64",
                    63,
                    {.compute_capability = 72,
                     .multiprocessors = 8,
                     .clock_ghz = 1.377,
                     .fp32_per_cycle = 64,
                     .tf32_per_cycle = 0,
                     .half_per_cycle = 0,
                     .memory_gb_per_second = 136.5,
                     .l2_gb_per_second = 300,
                     .l2_bytes = 512 << 10,
                     .shared_bytes = 96 << 10,
                     .max_threads = 2048,
                     .max_blocks = 32,
                     .launch_seconds = 6e-6}},
    GpuArchitecture{"sm_75",
                    "NVIDIA Turing: T4, RTX 20 series, GTX 16 series, Quadro RTX",
                    kDesktopHost,
                    65,
                    {.compute_capability = 75,
                     .multiprocessors = 40,
                     .clock_ghz = 1.59,
                     .fp32_per_cycle = 64,
                     .tf32_per_cycle = 0,
                     .half_per_cycle = 512,
                     .memory_gb_per_second = 320,
                     .l2_gb_per_second = 1250,
                     .l2_bytes = 4 << 20,
                     .shared_bytes = 64 << 10,
                     .max_threads = 1024,
                     .max_blocks = 16}},
    GpuArchitecture{"sm_80",
                    "NVIDIA Ampere: A100, A30",
                    kDesktopHost,
                    70,
                    {.compute_capability = 80,
                     .multiprocessors = 108,
                     .clock_ghz = 1.41,
                     .fp32_per_cycle = 64,
                     .tf32_per_cycle = 512,
                     .half_per_cycle = 1024,
                     .memory_gb_per_second = 1555,
                     .l2_gb_per_second = 4000,
                     .l2_bytes = 40 << 20,
                     .shared_bytes = 164 << 10,
                     .max_threads = 2048,
                     .max_blocks = 32}},
    GpuArchitecture{"sm_86",
                    "NVIDIA Ampere: A10, A40, RTX 30 series, RTX A6000",
                    kDesktopHost,
                    71,
                    {.compute_capability = 86,
                     .multiprocessors = 72,
                     .clock_ghz = 1.695,
                     .fp32_per_cycle = 128,
                     .tf32_per_cycle = 256,
                     .half_per_cycle = 512,
                     .memory_gb_per_second = 600,
                     .l2_gb_per_second = 2300,
                     .l2_bytes = 6 << 20,
                     .shared_bytes = 100 << 10,
                     .max_threads = 1536,
                     .max_blocks = 16}},
    GpuArchitecture{"sm_87",
                    "NVIDIA Ampere: Jetson AGX Orin, Orin NX, Orin Nano",
                    "cortex-a78",
                    74,
                    {.compute_capability = 87,
                     .multiprocessors = 16,
                     .clock_ghz = 1.3,
                     .fp32_per_cycle = 128,
                     .tf32_per_cycle = 512,
                     .half_per_cycle = 1024,
                     .memory_gb_per_second = 204.8,
                     .l2_gb_per_second = 600,
                     .l2_bytes = 4 << 20,
                     .shared_bytes = 164 << 10,
                     .max_threads = 1536,
                     .max_blocks = 16,
                     .launch_seconds = 6e-6}},
    GpuArchitecture{"sm_89",
                    "NVIDIA Ada: L4, L40, RTX 40 series, RTX 6000 Ada",
                    kDesktopHost,
                    78,
                    {.compute_capability = 89,
                     .multiprocessors = 58,
                     .clock_ghz = 2.04,
                     .fp32_per_cycle = 128,
                     .tf32_per_cycle = 256,
                     .half_per_cycle = 512,
                     .memory_gb_per_second = 300,
                     .l2_gb_per_second = 2500,
                     .l2_bytes = 48 << 20,
                     .shared_bytes = 100 << 10,
                     .max_threads = 1536,
                     .max_blocks = 24}},
    GpuArchitecture{"sm_90", "NVIDIA Hopper: H100, H200", kDesktopHost, 78, kHopper},
    GpuArchitecture{"sm_90a", "NVIDIA Hopper: H100, H200 and no newer GPU", kDesktopHost, 80, kHopper},
};

[[noreturn]] void unknown_gpu_target(std::string_view name) {
  std::vector<std::string> candidates;
  for (const GpuArchitecture& a : kArchitectures) {
    candidates.push_back(fmt::format("{}:{}", kCuda, a.name));
    candidates.push_back(fmt::format("{}:{}", kEmulated, a.name));
  }
  candidates.insert(candidates.end(), {kCuda, kEmulated, std::string(kEmulated) + kChecks});
  const std::string hint = did_you_mean(name, candidates);
  user_error(
      "unknown target '{}'{} GPU targets, for --target, are cuda[:sm_NN][/CPU] and "
      "cuda-emulated[:sm_NN][/CPU][+checks]; "
      "`gantry targets` lists them",
      name.substr(0, 64), hint.empty() ? ";" : hint);
}

/// Of an architecture's name, which may be unknown.
const GpuArchitecture* find_architecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &GpuArchitecture::name);
  return found == kArchitectures.end() ? nullptr : &*found;
}

const GpuArchitecture& architecture_of(const GpuTargetName& name) {
  const GpuArchitecture* known = find_architecture(name.architecture);
  internal_check(known != nullptr, "there is no GPU architecture {}", name.architecture);
  return *known;
}

GpuTargetName take_apart(std::string_view name) {
  GpuTargetName parts;
  std::string_view rest = name;
  if (rest.ends_with(kChecks)) {
    parts.checks = true;
    rest.remove_suffix(std::string_view(kChecks).size());
  }
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos) {
    parts.cpu = rest.substr(slash + 1);
    if (parts.cpu.empty()) user_error("target {}: no CPU stands behind the '/'", name.substr(0, 64));
    if (names_gpu_target(parts.cpu)) {
      user_error("target {}: {} behind the '/' is no CPU", name.substr(0, 64), parts.cpu.substr(0, 64));
    }
    rest = rest.substr(0, slash);
  }
  const size_t colon = rest.find(':');
  if (colon != std::string_view::npos) {
    parts.architecture = rest.substr(colon + 1);
    if (parts.architecture.empty()) unknown_gpu_target(name);
    rest = rest.substr(0, colon);
  }
  if (rest != kCuda && rest != kEmulated) unknown_gpu_target(name);
  parts.emulated = rest == kEmulated;
  if (parts.checks && !parts.emulated) {
    user_error("target {}: accesses are checked on the emulated device only; use {}{}", name.substr(0, 64),
               kEmulated, name.substr(std::string_view(kCuda).size(), 64));
  }
  return parts;
}

Target make_cuda(const GpuArchitecture& arch, Target host) {
  Target t;
  t.device = DeviceKind::kGpu;
  t.cpu = arch.name;
  t.features = host.features;
  t.rank = kGpuRank + 2 * arch.model.compute_capability + (arch.name.ends_with('a') ? 1 : 0);
  t.machine = host.machine;
  t.host = std::make_shared<const Target>(std::move(host));
  return t;
}

/// Runs wherever its CPU does, but is never a board's first choice.
Target make_emulated(Target host, bool checks) {
  Target t = std::move(host);
  t.device = DeviceKind::kEmulatedGpu;
  t.gpu_checks = checks;
  t.rank = checks ? 0 : 1;
  return t;
}

}  // namespace

bool names_gpu_target(std::string_view name) {
  return name.starts_with(kCuda);
}

GpuTargetName parse_name(std::string_view name) {
  GpuTargetName parts = take_apart(name);
  if (parts.architecture.empty()) parts.architecture = kDefaultArchitecture;
  if (find_architecture(parts.architecture) == nullptr) unknown_gpu_target(name);
  return parts;
}

std::string written_name(const GpuTargetName& name) {
  std::string text = name.emulated ? kEmulated : kCuda;
  if (!name.architecture.empty()) text += fmt::format(":{}", name.architecture);
  if (!name.cpu.empty()) text += fmt::format("/{}", name.cpu);
  if (name.checks) text += kChecks;
  return text;
}

std::string architecture_name(int compute_capability) {
  const GpuArchitecture* newest = nullptr;
  for (const GpuArchitecture& arch : kArchitectures) {
    // PTX runs on every newer GPU; that of a name that ends in a letter on that GPU alone.
    if (!arch.name.ends_with('a') && arch.model.compute_capability <= compute_capability) newest = &arch;
  }
  if (newest == nullptr) {
    user_error("the GPU has compute capability {}.{}, which is too old: code for GPUs needs {} or newer",
               compute_capability / 10, compute_capability % 10, kArchitectures.front().name);
  }
  return std::string(newest->name);
}

std::string_view usual_cpu(const GpuTargetName& name) {
  return name.emulated ? kEmulatingCpu : architecture_of(name).host;
}

Target gpu_target(const GpuTargetName& name, Target cpu) {
  const GpuArchitecture& arch = architecture_of(name);
  const std::string named_cpu = name.cpu.empty() ? "" : cpu.name;
  GpuTargetName full = name;
  full.cpu = named_cpu == usual_cpu(name) ? std::string_view() : named_cpu;

  std::string description = std::string(arch.boards);
  if (name.emulated) {
    description = fmt::format("{} kernels run on the CPU{}", arch.name,
                              name.checks ? ", which looks for races and accesses out of bounds" : "");
  }
  if (!named_cpu.empty()) description += fmt::format(", with {} as CPU", named_cpu);
  Target t = name.emulated ? make_emulated(std::move(cpu), name.checks) : make_cuda(arch, std::move(cpu));
  t.name = written_name(full);
  t.description = std::move(description);
  t.gpu_family = &family();
  t.gpu = arch.model;
  t.gpu_arch = arch.name;
  return t;
}

std::vector<std::string> gpu_target_names() {
  std::vector<std::string> names;
  for (const GpuArchitecture& arch : kArchitectures)
    names.push_back(written_name({.architecture = arch.name}));
  for (bool checks : {false, true}) {
    names.push_back(written_name({.emulated = true, .checks = checks, .architecture = kDefaultArchitecture}));
  }
  return names;
}

int ptx_version(const Target& target) {
  return architecture_of({.architecture = target.gpu_arch}).ptx;
}

}  // namespace gantry::cuda
