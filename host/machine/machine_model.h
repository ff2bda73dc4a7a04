// What the cost models and schedule rules know of a CPU.
#pragma once

#include <cstdint>

namespace gantry {

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

}  // namespace gantry
