// Loop IR -> LLVM IR -> objects -> one linked image. LLVM's headers stay out of here.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "host/codegen/target.h"
#include "host/loops/stmt.h"

namespace gantry {

/// An ELF shared object for one target that imports nothing; exports each kernel under LoopKernel::name, with
/// the signature GantryKernelFn (device_runtime/include/gantry/kernel_abi.h).
struct CodeImage {
  std::vector<std::byte> elf;
};

/// Generates, optimises and links all kernels, on `threads` threads. Names must be unique C identifiers.
/// Errors: internal errors that name the kernel.
CodeImage build_image(std::span<const LoopKernel> kernels, const Target& target, int threads = 2);
/// LLVM IR of one kernel after optimisation, for `gantry ir --llvm`.
std::string emit_llvm_text(const LoopKernel& kernel, const Target& target);
/// Assembly of one kernel, for `gantry ir --asm`.
std::string emit_assembly(const LoopKernel& kernel, const Target& target);

}  // namespace gantry
