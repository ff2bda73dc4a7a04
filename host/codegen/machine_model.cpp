#include <algorithm>
#include <array>

#include "host/codegen/cpu_features.h"

namespace gantry {
namespace {

/// Caches of one core, from the vendors' manuals. A name covers all that begin with it; first match wins.
struct CacheSizes {
  std::string_view cpu;
  int l1_kib, l2_kib;
};
constexpr std::array kCaches = {
    CacheSizes{"sapphirerapids", 48, 2048}, CacheSizes{"emeraldrapids", 48, 2048},
    CacheSizes{"graniterapids", 48, 2048},  CacheSizes{"icelake-server", 48, 1280},
    CacheSizes{"icelake-client", 48, 512},  CacheSizes{"rocketlake", 48, 512},
    CacheSizes{"tigerlake", 48, 1280},      CacheSizes{"alderlake", 48, 1280},
    CacheSizes{"raptorlake", 48, 2048},     CacheSizes{"skylake-avx512", 32, 1024},
    CacheSizes{"cascadelake", 32, 1024},    CacheSizes{"cooperlake", 32, 1024},
    CacheSizes{"skylake", 32, 256},         CacheSizes{"broadwell", 32, 256},
    CacheSizes{"haswell", 32, 256},         CacheSizes{"znver5", 48, 1024},
    CacheSizes{"znver4", 32, 1024},         CacheSizes{"znver", 32, 512},
    CacheSizes{"cortex-a53", 32, 512},      CacheSizes{"cortex-a55", 32, 128},
    CacheSizes{"cortex-a72", 32, 1024},     CacheSizes{"cortex-a76", 64, 512},
    CacheSizes{"cortex-a78", 64, 512},      CacheSizes{"cortex-x", 64, 1024},
    CacheSizes{"neoverse-n1", 64, 1024},    CacheSizes{"neoverse-v", 64, 1024},
    CacheSizes{"neoverse-n2", 64, 1024},    CacheSizes{"apple-", 128, 4096},
};

MachineModel x86_model(const std::vector<std::string>& features) {
  MachineModel m;
  m.l1_bytes = 32 << 10;
  if (has_feature(features, "avx512f")) {
    m.vector_bytes = 64;
    m.vector_registers = 32;
    m.broadcast_operand = true;
    m.masked_access = true;
    m.l2_bytes = 1 << 20;
    m.l2_bytes_per_cycle = 24;  // 82 GB/s are read at 3.4 GHz
    return m;
  }
  m.l2_bytes = 256 << 10;
  if (has_feature(features, "avx2") && has_feature(features, "fma")) {
    m.vector_bytes = 32;
    m.masked_access = true;
    return m;
  }
  m.vector_bytes = has_feature(features, "avx") ? 32 : 16;
  m.fma_per_cycle = 1;  // a multiplication and an addition each
  m.fma_latency = 8;
  m.l2_bytes_per_cycle = 24;
  return m;
}

MachineModel arm_model(std::string_view cpu) {
  MachineModel m;
  m.vector_bytes = 16;
  m.vector_registers = 32;
  m.broadcast_operand = true;
  m.l1_bytes = 32 << 10;
  m.l2_bytes = 512 << 10;
  m.l2_bytes_per_cycle = 16;
  m.memory_bytes_per_cycle = 4;
  if (cpu.starts_with("cortex-a53") || cpu.starts_with("cortex-a55") || cpu.starts_with("cortex-a35")) {
    m.fma_per_cycle = 1;
    m.fma_latency = 8;
    m.loads_per_cycle = 1;
    m.l2_bytes_per_cycle = 8;
    m.memory_bytes_per_cycle = 2;
  }
  if (cpu.starts_with("apple-") || cpu.starts_with("cortex-x") || cpu.starts_with("neoverse-v")) {
    m.fma_per_cycle = 4;
    m.loads_per_cycle = 3;
    m.l2_bytes_per_cycle = 32;
  }
  return m;
}

}  // namespace

MachineModel machine_model(Architecture architecture, std::string_view cpu,
                           const std::vector<std::string>& features) {
  MachineModel m = architecture == Architecture::kAArch64 ? arm_model(cpu) : x86_model(features);
  auto known = std::ranges::find_if(kCaches, [&](const CacheSizes& c) { return cpu.starts_with(c.cpu); });
  if (known != kCaches.end()) {
    m.l1_bytes = int64_t{known->l1_kib} << 10;
    m.l2_bytes = int64_t{known->l2_kib} << 10;
  }
  // AMD's cores before znver5 execute 512-bit operations in two halves.
  if (cpu == "znver4") m.fma_per_cycle = 1;
  // Products of bf16 are issued as often as multiply-adds (measured on znver5; llvm-mca's models of AArch64),
  // but by Intel's cores, and so perhaps by unnamed ones, once a cycle.
  const bool once = architecture == Architecture::kX86_64 && !cpu.starts_with("znver");
  m.bf16_per_cycle = once ? 1 : m.fma_per_cycle;
  return m;
}

}  // namespace gantry
