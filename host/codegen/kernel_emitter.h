// One kernel: loop IR -> LLVM IR. See GantryKernelFn for the signature.
//
// Values. A scalar or vector expression is an LLVM value of its type; f16, bf16 and smaller floats are
// computed in f32 and rounded where they are stored or cast; bool is i1, in memory a byte; i4, u4, i2 and u2
// are bytes. Every buffer of the kernel has an alias scope of its own, so that LLVM knows what loop IR
// promises: buffers are disjoint. Parallel loops become functions of their own, called through the host.
//
// GPUs: each launch becomes an entry function; its parameters are a pointer for each buffer of the kernel,
// its symbols and the iteration of the loop around it. Loads and stores must be aligned, so each vector
// access states the alignment that its index proves (buffers start at kDeviceAlignment). Index arithmetic
// that provably fits is done in 32 bits, which GPUs have units for. The math functions are those of CPUs:
// nothing of libdevice is needed, and the emulated device computes the same numbers.
//
// Parts, each with a header of its own; they share an IRBuilder and the scope of the function being written
// (function_scope.h), and know of one another what their constructors take:
//   values       value_types, conversions, small_float_code, math
//   expressions  expressions, and for their kinds integer_arithmetic, float_arithmetic, multiply_adds,
//                math_calls, loads, vector_lanes; on GPUs narrow_indices, index_range (signs of
//                indices: host/loops/index_signs.h)
//   memory       buffers, buffer_elements; access_reports (the emulated GPU's checks); memory_parts, what
//                loads and memory_statements have in common
//   statements   statements, and for their kinds memory_statements, tile_statements, stack_buffers; on CPUs
//                serial_loops, parallel_loops, thread_memory, host_table; on GPUs launches, device_loops,
//                block_statements, warp_statements
//   a target's   target_emitter
#pragma once

#include <llvm/IR/Module.h>

#include "host/loops/stmt.h"
#include "host/machine/target.h"

namespace gantry {

/// Adds the kernel's function to the module; of a GPU's kernel, an entry for each launch. Errors: internal
/// errors that name the kernel.
void emit_kernel(llvm::Module& module, const LoopKernel& kernel, const Target& target);

}  // namespace gantry
