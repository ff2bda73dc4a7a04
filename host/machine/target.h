// Targets: the machines that code is for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host/machine/gpu_model.h"
#include "host/machine/machine_model.h"
#include "host/machine/precision.h"

namespace gantry {

struct CpuFamily;  // host/machine/cpu_family.h
struct GpuFamily;  // host/machine/gpu_family.h

/// What runs the kernels. An emulated GPU runs what was scheduled for a GPU on a CPU, thread by thread.
enum class DeviceKind : uint8_t { kCpu, kGpu, kEmulatedGpu };

struct Target {
  std::string name;         ///< normalised, as it stands in module files: "x86-64-v3", "aarch64+dotprod", …
  std::string description;  ///< one line for `gantry targets`
  /// Of the CPU that the code is for; null: it is a GPU's.
  const CpuFamily* family = nullptr;
  std::string cpu;  ///< LLVM's name, tunes the instruction scheduling
  std::vector<std::string>
      features;  ///< LLVM's names of all CPU features that the code may use; a board must have them
  int rank = 0;  ///< the higher, the better, among those that a board supports
  MachineModel machine;

  DeviceKind device = DeviceKind::kCpu;
  /// Not kCpu: the GPU that kernels are scheduled for.
  const GpuFamily* gpu_family = nullptr;
  GpuModel gpu;
  std::string gpu_arch;  ///< "sm_80", "sm_90a"; empty for kCpu
  /// kEmulatedGpu: kernels report every access, to find races and accesses out of bounds.
  bool gpu_checks = false;
  /// kGpu: the CPU that runs what cannot run on the GPU. (kEmulatedGpu is code for a CPU throughout:
  /// family, features and machine describe it.)
  std::shared_ptr<const Target> host;
  Precision precision = Precision::kFp32;

  bool for_gpu() const { return device != DeviceKind::kCpu; }
};

/// The CPU that runs what a GPU target cannot run on its GPU; a CPU target itself.
Target host_target(const Target& target);

/// The target computing in that precision (kAuto becomes what it stands for); a user error if its processor
/// cannot. CPUs: bf16 and the splits need amx-bf16 or avx512bf16 (x86-64) or bf16 (AArch64), fp16 avx512fp16
/// or fullfp16; GPUs: tf32 and bf16 need sm_80, fp16 sm_75.
Target with_precision(Target target, Precision precision);

}  // namespace gantry
