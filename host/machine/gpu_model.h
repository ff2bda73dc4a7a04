// What the cost models and schedule rules know of a GPU.
#pragma once

#include <cstdint>

namespace gantry {

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

}  // namespace gantry
