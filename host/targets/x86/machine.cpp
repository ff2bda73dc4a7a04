// The figures of x86-64's cores.
#include <algorithm>
#include <iterator>

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

/// What cores issue a cycle of vectors so wide, where that is less than by_features() has, or takes longer.
struct Units {
  std::string_view cpu;
  int vector_bytes, fma_per_cycle, fma_latency, loads_per_cycle;
};

// That Gracemont and its successor have two units of 128 bits is Intel's word; their latency is assumed.
constexpr Units kUnits[] = {
    {"znver1", 32, 1, 5, 1},          // in two halves
    {"znver4", 64, 1, 4, 2},          // in two halves
    {"gracemont", 32, 1, 6, 1},       // in two halves
    {"sierraforest", 32, 1, 6, 1},    // in two halves
    {"grandridge", 32, 1, 6, 1},      // in two halves
    {"icelake-client", 64, 1, 4, 2},  // by one unit, where servers have two
    {"tigerlake", 64, 1, 4, 2},       // by one unit
    {"rocketlake", 64, 1, 4, 2},      // by one unit
};

void set_units(MachineModel& machine, std::string_view cpu) {
  const auto* const found = std::ranges::find(kUnits, cpu, &Units::cpu);
  if (found == std::end(kUnits) || found->vector_bytes != machine.vector_bytes) return;
  machine.fma_per_cycle = std::min(machine.fma_per_cycle, found->fma_per_cycle);
  machine.fma_latency = std::max(machine.fma_latency, found->fma_latency);
  machine.loads_per_cycle = std::min(machine.loads_per_cycle, found->loads_per_cycle);
}

}  // namespace

MachineModel machine(std::string_view cpu, const std::vector<std::string>& features) {
  MachineModel m = by_features(features);
  set_caches(m, cache_sizes(), cpu);
  set_units(m, cpu);
  // What arrived of weights within networks on an EPYC 9004: 20 GB/s at 3.65 GHz.
  if (cpu == "znver4") m.memory_bytes_per_cycle = 5.5;
  // Products of bf16 are issued as often as multiply-adds (measured on znver5), but by Intel's cores, and so
  // perhaps by unnamed ones, once a cycle.
  m.bf16_per_cycle = cpu.starts_with("znver") ? m.fma_per_cycle : 1;
  return m;
}

}  // namespace gantry::x86
