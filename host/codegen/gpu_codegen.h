// How code is generated for a family of GPUs (host/machine/gpu_family.h): what its folder has of that.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "host/codegen/codegen.h"
#include "host/codegen/cpu_codegen.h"
#include "host/machine/gpu_family.h"
#include "host/machine/target.h"

namespace gantry {

namespace module_format {
enum class Device : uint8_t;  // device_runtime/schema/module.fbs
}

/// The program beside the compiler that makes machine code of what LLVM writes.
struct GpuAssembler {
  std::string path, version;
  std::string problem;  ///< why there is none
};

/// A text that a user wrote.
struct ForeignGpuText {
  std::string op, file;  ///< for messages
  std::string text;
  std::string entry, name;  ///< its entry, and what that is called in the image
};

struct GpuCodegen {
  const GpuFamily* family;
  module_format::Device device, emulated;  ///< as module files have them
  std::string_view backend;                ///< LLVM's: "NVPTX"
  std::string_view triple;                 ///< LLVM's
  std::string_view language;               ///< of the text that LLVM writes: "ptx"
  std::string_view assembly_comment;
  std::string_view assembler;  ///< the program's name

  CpuInstructions (*instructions)(const GpuModel& gpu);
  std::string (*features)(const Target& target);  ///< LLVM's
  /// `foreign`: texts of users that the image holds besides.
  GpuImage (*build_image)(std::span<const LoopKernel> kernels, const Target& target, int threads,
                          SpanRecorder* spans, std::span<const ForeignGpuText> foreign);
  GpuAssembler (*find_assembler)();
};

/// Of all families, in their order.
std::span<const GpuCodegen* const> gpu_codegens();
/// Of a target with a GPU, real or emulated.
const GpuCodegen& gpu_codegen_of(const Target& target);
/// Of a device of module files; null: it is a CPU.
const GpuCodegen* find_gpu_codegen(module_format::Device device);
/// What module files say that a target's code runs on.
module_format::Device device_in_modules(const Target& target);

}  // namespace gantry
