// What this machine is: the features that decide which code it runs, and what a report says of it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gantry::runtime {

struct CacheInfo {
  int level = 0;
  std::string type;  ///< "Data", "Instruction", "Unified"
  uint64_t bytes = 0;
  std::string shared_cpus;  ///< as Linux writes it: "0-7"; "" where not known
};

struct CpuInfo {
  std::string architecture;           ///< "x86_64" or "aarch64"
  std::string llvm_name;              ///< LLVM's name of the fastest core, "" where not known
  std::string brand;                  ///< of that core, for people
  std::vector<std::string> features;  ///< LLVM's names, sorted; only what the kernel lets programs use
  std::vector<int> allowed_cpus;      ///< that this process may run on, sorted
  std::vector<int> core_cpus;         ///< the first of them on each core, the fastest cores first
  std::vector<int> same_core_cpus;    ///< of each of allowed_cpus, the one in core_cpus on its core
  int physical_cores = 1;             ///< of those
  std::vector<CacheInfo> caches;      ///< of core_cpus.front()
  uint64_t memory_bytes = 0;          ///< that this process may hope for

  bool has_feature(std::string_view feature) const;
  /// The one of core_cpus that is on the core of `cpu`; `cpu` where that is not allowed.
  int core_cpu(int cpu) const;
};

/// This machine; found out on the first call, which asks the kernel for AMX where the CPU has it.
/// Thread-safe.
const CpuInfo& cpu_info();

/// The same for a process that may run on these CPUs, one or more in ascending order. `root` is where /sys
/// and /proc are, "" on a real machine; architecture, features and the names on x86-64 are of this machine.
CpuInfo find_cpu_info(std::vector<int> allowed_cpus, const std::string& root);

/// Counts features as present that this process executes in another way than by the CPU. Before modules are
/// loaded; not thread-safe.
void add_emulated_features(std::initializer_list<const char*> names);

/// The caches that a CPU sees, as Linux describes them; empty where it does not. `root` as above.
std::vector<CacheInfo> cpu_caches(int cpu, const std::string& root = "");

/// How fast a CPU is beside the others of this machine, as Linux says: its capacity where cores differ by
/// design, else its highest frequency, else 1. Only ratios mean something. `root` as above.
uint32_t cpu_capacity(int cpu, const std::string& root = "");

/// What changes while a benchmark runs; members without a value are not shown by this machine.
struct CpuState {
  std::optional<double> frequency_mhz;      ///< mean of the CPUs that were asked for
  std::optional<double> max_frequency_mhz;  ///< what Linux lets it reach
  std::optional<double> temperature_c;      ///< of the CPU's hottest sensor
  std::optional<int64_t> throttle_count;    ///< thermal throttling events since boot
  std::string governor;                     ///< "" where not shown
};

/// The parts that differ between architectures (cpu_info_x86.cpp, cpu_info_aarch64.cpp): architecture,
/// llvm_name, brand and features. core_cpus are known before.
void detect_cpu(CpuInfo& info, const std::string& root);
/// Of AArch64: llvm_name and brand by the part number of core_cpus.front(). Reads files alone, so that any
/// machine can test it.
void name_aarch64_cpu(CpuInfo& info, const std::string& root);

}  // namespace gantry::runtime
