// Targets: what code is generated for, and what the cost models know of the machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gantry {

struct CpuFamily;  // host/codegen/cpu_family.h
struct GpuFamily;  // host/codegen/gpu_family.h

/// The figures that schedule rules reason with. Per core.
struct MachineModel {
  int vector_bytes = 16;  ///< of the widest vectors worth using
  int vector_registers = 16;
  int fma_per_cycle = 2;           ///< vector multiply-adds issued a cycle
  int fma_latency = 4;             ///< cycles
  int loads_per_cycle = 2;         ///< vector loads from the first-level cache
  int bf16_per_cycle = 2;          ///< vector products of bf16 issued a cycle (bfmmla, vdpbf16ps)
  bool broadcast_operand = false;  ///< multiply-add takes a scalar memory operand (AVX-512) or a lane (NEON)
  bool masked_access = false;      ///< cheap masked vector loads and stores
  bool half_products = false;  ///< Precision::kFp16: products of f32 are computed in f16 where that is faster
  int64_t l1_bytes = 32 << 10, l2_bytes = 512 << 10;
  double l2_bytes_per_cycle = 32;  ///< sustained
  double memory_bytes_per_cycle = 4;
};

/// What runs the kernels. An emulated GPU runs what was scheduled for a GPU on a CPU, thread by thread.
enum class DeviceKind : uint8_t { kCpu, kGpu, kEmulatedGpu };

/// Arithmetic of convolutions and matrix products whose tensors are f32; sums are f32, except for those of a
/// CPU's kFp16, which are f16 over a few products (Stage::sum_in_half).
enum class Precision : uint8_t {
  kAuto,        ///< the fastest at f32's accuracy: kFp32Split where tile units are that fast, else kFp32
  kFp32,        ///< multiply-adds in f32
  kTf32,        ///< GPUs
  kBf16,        ///< operands rounded to bf16
  kFp16,        ///< operands rounded to f16
  kFp32Split,   ///< CPUs that multiply tiles of bf16: each f32 as two of them (host/ops/tiles.h)
  kFp32Split3,  ///< as three, as exact as f32
};

/// The figures that GPU schedule rules reason with.
struct GpuModel {
  int compute_capability = 80;  ///< 10 * major + minor
  int multiprocessors = 108;
  double clock_ghz = 1.4;
  int fp32_per_cycle = 64;  ///< multiply-adds a multiprocessor
  /// Multiply-adds a cycle and multiprocessor on tensor cores; 0: none.
  int tf32_per_cycle = 512, half_per_cycle = 1024;
  double memory_gb_per_second = 1555;
  double l2_gb_per_second = 4000;
  int64_t l2_bytes = 40 << 20;
  int64_t shared_bytes = 164 << 10;       ///< a multiprocessor
  int64_t shared_bytes_block = 48 << 10;  ///< a block may declare
  int registers = 65536;                  ///< a multiprocessor, 32 bits each
  int max_registers_thread = 255;
  int max_threads = 2048;          ///< a multiprocessor
  int max_blocks = 32;             ///< a multiprocessor
  double launch_seconds = 2.5e-6;  ///< from one kernel's end to the next one's start in a graph
};

struct Target {
  std::string name;         ///< normalised, as it stands in module files: "x86-64-v3", "aarch64+dotprod", …
  std::string description;  ///< one line for `gantry targets`
  /// Of the CPU that the code is for; null: it is a GPU's.
  const CpuFamily* family = nullptr;
  std::string triple;  ///< LLVM's
  std::string cpu;     ///< LLVM's name, tunes the instruction scheduling
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
  /// triple, features and machine describe it.)
  std::shared_ptr<const Target> host;
  Precision precision = Precision::kFp32;

  bool for_gpu() const { return device != DeviceKind::kCpu; }
};

/// The CPU that runs what a GPU target cannot run on its GPU; a CPU target itself.
Target host_target(const Target& target);

/// "auto", "fp32", "tf32", "bf16", "fp16", "fp32-split", "fp32-split3".
std::string_view name_of(Precision precision);
/// A user error lists the names.
Precision find_precision(std::string_view name);
/// The target computing in that precision (kAuto becomes what it stands for); a user error if its processor
/// cannot. CPUs: bf16 and the splits need amx-bf16 or avx512bf16 (x86-64) or bf16 (AArch64), fp16 avx512fp16
/// or fullfp16; GPUs: tf32 and bf16 need sm_80, fp16 sm_75.
Target with_precision(Target target, Precision precision);

}  // namespace gantry
