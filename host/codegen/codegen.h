// Loop IR -> LLVM IR -> objects -> one linked image. LLVM's headers stay out of here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/loops/stmt.h"
#include "host/machine/target.h"
#include "host/support/span_recorder.h"

namespace gantry {

/// An ELF shared object for one target that imports nothing; exports each kernel under LoopKernel::name, with
/// the signature GantryKernelFn (device_runtime/include/gantry/kernel_abi.h).
struct CodeImage {
  std::vector<std::byte> elf;
};

class KernelCache;

/// Generates, optimises and links all kernels, on `threads` threads; those that `cache` has are taken from
/// there, and the others put there. Names must be unique C identifiers. The image is the same with and
/// without a cache. `spans` hears of each kernel, on its thread, and of the link. Errors: internal errors
/// that name the kernel.
CodeImage build_image(std::span<const LoopKernel> kernels, const Target& target, int threads = 2,
                      KernelCache* cache = nullptr, SpanRecorder* spans = nullptr);
/// True if the kernel consists of launches.
bool is_gpu_kernel(const LoopKernel& kernel);

/// One entry function of a GPU's image: launch `launch` of its kernel, named KERNEL_LAUNCH ("add_3_0").
struct GpuEntry {
  std::string symbol;
  int registers = -1;       ///< of a thread; -1: not known
  int64_t spill_bytes = 0;  ///< registers kept in memory, of a thread
};
struct GpuImage {
  std::string ptx;
  std::vector<std::byte> cubin;  ///< the same, assembled for the target's architecture; empty without ptxas
  std::string note;              ///< why there is no cubin
  std::vector<GpuEntry> entries;
};
/// PTX of all kernels (which must consist of launches) for a target of kind kGpu, and the machine code where
/// ptxas is found that knows the architecture. Parameters of an entry: a pointer for each of the kernel's
/// arguments and scratch buffers, each aligned to 16 bytes, its symbols as 64-bit integers, and for launches
/// inside a loop the iteration as such. Errors: internal errors that name the kernel; user errors where
/// ptxas cannot be run, or is ended by something else than the kernels: by a signal, a full disk (a
/// Shortage), or without a word.
GpuImage build_gpu_image(std::span<const LoopKernel> kernels, const Target& target, int threads = 2,
                         SpanRecorder* spans = nullptr);

/// LLVM IR of one kernel after optimisation, for `gantry ir --llvm`.
std::string emit_llvm_text(const LoopKernel& kernel, const Target& target);
/// Assembly of one kernel (PTX, of a GPU's), for `gantry ir --asm`. With `comments` these name its blocks, by
/// the variables of the loops that they are of, and say how deep they are nested.
std::string emit_assembly(const LoopKernel& kernel, const Target& target, bool comments = false);
/// One kernel's code by itself, as build_image and build_gpu_image would generate it.
struct KernelCode {
  std::string assembly;  ///< as emit_assembly without comments: PTX, of a GPU's kernel
  std::string_view language = "assembly";  ///< else the GPU's: "ptx"
  int64_t code_bytes = 0;                   ///< of machine code; 0 of a GPU's text
  int64_t table_bytes = 0;                  ///< of constants that the code loads; 0 of a GPU's text
};
/// Of each kernel, on `threads` threads; names need not be unique. Errors: internal errors that name the
/// kernel.
std::vector<KernelCode> emit_code(std::span<const LoopKernel> kernels, const Target& target, int threads = 2);
/// What a comment starts with there: "#" or "//".
std::string_view assembly_comment(const LoopKernel& kernel, const Target& target);

}  // namespace gantry
