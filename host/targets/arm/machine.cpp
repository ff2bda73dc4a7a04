// The figures of AArch64's cores.
#include "host/targets/arm/family.h"

namespace gantry::arm {
namespace {

MachineModel by_name(std::string_view cpu) {
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
  // In order, two to a vector unit: of 64-bit datapaths, which some of these chips have as 128. The share of
  // memory's stream is assumed.
  if (cpu.starts_with("cortex-a510") || cpu.starts_with("cortex-a520")) {
    m.fma_per_cycle = 1;
    m.memory_bytes_per_cycle = 2;
  }
  // Whole registers take both pipes (LLVM's model).
  if (cpu == "cortex-a57") {
    m.fma_per_cycle = 1;
    m.fma_latency = 10;
    m.loads_per_cycle = 1;
  }
  if (cpu.starts_with("ampere1")) m.fma_latency = 5;  // LLVM's model
  const bool is_wide = cpu.starts_with("apple-") || cpu.starts_with("cortex-x") ||
                       cpu.starts_with("neoverse-v") || cpu == "oryon-1";
  if (is_wide) {
    m.fma_per_cycle = 4;
    m.loads_per_cycle = 3;
    m.l2_bytes_per_cycle = 32;
  }
  if (cpu == "oryon-1") m.loads_per_cycle = 4;
  return m;
}

}  // namespace

MachineModel machine(std::string_view cpu, const std::vector<std::string>& /*features*/) {
  MachineModel m = by_name(cpu);
  set_caches(m, cache_sizes(), cpu);
  m.bf16_per_cycle = m.fma_per_cycle;  // issued as often (llvm-mca's models)
  return m;
}

}  // namespace gantry::arm
