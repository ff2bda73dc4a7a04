// The figures of x86-64's cores.
#include "host/machine/cpu_features.h"
#include "host/targets/x86/family.h"

namespace gantry::x86 {
namespace {

MachineModel by_features(const std::vector<std::string>& features) {
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

}  // namespace

MachineModel machine(std::string_view cpu, const std::vector<std::string>& features) {
  MachineModel m = by_features(features);
  set_caches(m, cache_sizes(), cpu);
  if (cpu == "znver4") {
    // It executes 512-bit operations in two halves.
    m.fma_per_cycle = 1;
    // What arrived of weights within networks on an EPYC 9004: 20 GB/s at 3.65 GHz.
    m.memory_bytes_per_cycle = 5.5;
  }
  // Products of bf16 are issued as often as multiply-adds (measured on znver5), but by Intel's cores, and so
  // perhaps by unnamed ones, once a cycle.
  m.bf16_per_cycle = cpu.starts_with("znver") ? m.fma_per_cycle : 1;
  return m;
}

}  // namespace gantry::x86
