// Kernels that reach what a GPU can do at most, as PTX.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gantry::gpu_bundle {

/// A kernel whose every warp runs independent chains of one instruction: chain(out, iterations, one), all 64
/// bits. It multiplies ones and adds the products up, so that every thread stores iterations * `step` to its
/// element of out, in f32; exact while that is below 2^24.
struct Chain {
  const char* name;  ///< of the kernel; what it measures is `peak`
  const char* peak;  ///< "fp32", "tf32", "fp16", "bf16"
  int needs;         ///< compute capability
  uint64_t one;      ///< the bits of the operand's element 1, in every half of 32 bits where there are two
  double step;       ///< added to each sum an iteration
  double flops;      ///< of one thread, an iteration
};
const std::vector<Chain>& chains();

/// The kernel copy(from, to, count, threads): of 16 bytes each.
std::string copy_ptx();
/// The kernel of that chain.
std::string chain_ptx(const Chain& chain);

}  // namespace gantry::gpu_bundle
