// Custom kernels in an image: what calls them, and their objects made fit for linking. LLVM's headers stay
// out of here.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/codegen/codegen.h"
#include "host/loops/custom_kernel.h"
#include "host/machine/target.h"

namespace gantry {

/// A kernel of an image that calls one of the user's.
struct NamedCustomCall {
  std::string name;                  ///< of the kernel, a C identifier
  std::vector<std::string> symbols;  ///< symbolic dimensions, in the order of the kernel's dims
  std::shared_ptr<const CustomCall> call;
};

/// As build_image, with kernels that are calls; of `kernels` those of their names are left out. User errors,
/// which name op, file and target: no code for the target's architecture; a file that is no object or
/// archive, or is for another machine; an object without the function, with constructors, thread-local data
/// or symbols that nobody defines.
CodeImage build_image_with_calls(std::span<const LoopKernel> kernels, std::span<const NamedCustomCall> calls,
                                 const Target& target, int threads = 2, KernelCache* cache = nullptr,
                                 SpanRecorder* spans = nullptr);

/// As build_gpu_image, with kernels that are launches of the user's PTX, each text once. User errors, which
/// name op and file: no such entry; code for a newer GPU than the target's; what ptxas refuses.
GpuImage build_gpu_image_with_calls(std::span<const LoopKernel> kernels,
                                    std::span<const NamedCustomCall> calls, const Target& target,
                                    int threads = 2, SpanRecorder* spans = nullptr);

/// What the entry of its PTX is called in GPUs' images.
std::string linked_gpu_name(const CustomKernel& code);

// --- parts, for tests

/// The object of a kernel that makes the call: it defines `call.name` and needs linked_name(code).
std::string custom_call_object(const NamedCustomCall& call, const Target& target);
/// What a custom kernel's function is called in images.
std::string linked_name(const CustomKernel& code);
/// The same of another of its functions.
std::string linked_name(const CustomKernel& code, const std::string& function);
/// The code for the target as one object, whose only global function is linked_name(code). `needs`: the names
/// of the functions that it calls, of those that gantry provides.
std::string custom_object(const CustomKernel& code, const Target& target, std::vector<std::string>& needs);
/// Functions that objects may call: those that compilers call by themselves (memcpy, …), and mathematical
/// ones.
std::vector<std::string> provided_functions();
/// An object that defines those of them.
std::string provided_object(const std::vector<std::string>& functions, const Target& target);

}  // namespace gantry
