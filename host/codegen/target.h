// Targets: what code is generated for, and what the cost models know of the machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gantry {

enum class Architecture : uint8_t { kX86_64, kAArch64, kCuda };

/// The figures that schedule rules reason with. Per core.
struct MachineModel {
  int vector_bytes = 16;  ///< of the widest vectors worth using
  int vector_registers = 16;
  int fma_per_cycle = 2;           ///< vector multiply-adds issued a cycle
  int fma_latency = 4;             ///< cycles
  int loads_per_cycle = 2;         ///< vector loads from the first-level cache
  bool broadcast_operand = false;  ///< multiply-add takes a scalar memory operand (AVX-512) or a lane (NEON)
  bool masked_access = false;      ///< cheap masked vector loads and stores
  int64_t l1_bytes = 32 << 10, l2_bytes = 512 << 10;
  double l2_bytes_per_cycle = 32;  ///< sustained
  double memory_bytes_per_cycle = 4;
};

struct Target {
  std::string name;         ///< normalised, as it stands in module files: "x86-64-v3", "aarch64+dotprod", …
  std::string description;  ///< one line for `gantry targets`
  Architecture architecture = Architecture::kX86_64;
  std::string triple;  ///< LLVM's
  std::string cpu;     ///< LLVM's name, tunes the instruction scheduling
  std::vector<std::string>
      features;  ///< LLVM's names of all CPU features that the code may use; a board must have them
  int rank = 0;  ///< the higher, the better, among those that a board supports
  MachineModel machine;
};

/// The targets with names of their own, for `gantry targets`: x86-64-v2/v3/v4, aarch64, aarch64+dotprod,
/// named CPUs.
std::vector<Target> known_targets();
/// A target by name: a known one, `native` (this machine), or any CPU name that LLVM knows for x86-64 or
/// AArch64
/// ("znver3", "cortex-a55"), each optionally with "+feature" suffixes. A user error lists the nearest names.
Target find_target(std::string_view name);
/// Exactly the machine that reports this: architecture ("x86_64", "aarch64"), LLVM CPU name (may be empty)
/// and the LLVM names of the features that gantry's runtime detects (device_runtime/src/cpu_info.h).
Target target_of_board(std::string_view architecture, std::string_view cpu,
                       const std::vector<std::string>& features);

}  // namespace gantry
