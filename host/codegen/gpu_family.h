// What the compiler knows of a family of GPUs. Each has a folder of its own (host/targets), which shows
// nothing but this description, and what its models predict (host/targets/common/gpu_costs.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/codegen/codegen.h"
#include "host/codegen/cpu_family.h"
#include "host/codegen/target.h"

namespace gantry {

namespace module_format {
enum class Device : uint8_t;  // device_runtime/schema/module.fbs
}

/// A target's name taken apart; what is empty is not given.
struct GpuTargetName {
  bool emulated = false, checks = false;
  std::string_view architecture, cpu;
};

/// The program beside the compiler that makes machine code of what LLVM writes.
struct GpuAssembler {
  std::string path, version;
  std::string problem;  ///< why there is none
};

/// A text that a user wrote.
struct ForeignGpuText {
  std::string op, file;     ///< for messages
  std::string text;
  std::string entry, name;  ///< its entry, and what that is called in the image
};

struct GpuFamily {
  std::string_view name;                   ///< its folder's, and that of its rules: "cuda"
  module_format::Device device, emulated;  ///< as module files have them
  std::string_view backend;                ///< LLVM's: "NVPTX"
  std::string_view code;                   ///< what messages call its code
  std::string_view language;               ///< of the text that LLVM writes: "ptx"
  std::string_view assembly_comment;
  std::string_view assembler;  ///< the program's name

  /// Whether a target's name is meant for one of them.
  bool (*has_name)(std::string_view name);
  std::string (*written)(const GpuTargetName& name);
  /// As targets' names have the GPUs that report this compute capability.
  std::string (*architecture)(int compute_capability);
  /// A user error says what is wrong and what is near.
  Target (*find)(std::string_view name);
  std::vector<Target> (*targets)();  ///< without CPU suffixes

  CpuInstructions (*instructions)(const GpuModel& gpu);
  /// What a GPU must be for its matrix instructions to have the precision; empty where this one is.
  std::string_view (*lacks)(const GpuModel& gpu, Precision precision);
  std::string_view (*features)(const Target& target);  ///< LLVM's
  /// `foreign`: texts of users that the image holds besides.
  GpuImage (*build_image)(std::span<const LoopKernel> kernels, const Target& target, int threads,
                          SpanRecorder* spans, std::span<const ForeignGpuText> foreign);
  GpuAssembler (*find_assembler)();
};

/// All families, in the order in which their targets are listed.
std::span<const GpuFamily* const> gpu_families();
/// Of a target with a GPU, real or emulated.
const GpuFamily& gpu_family_of(const Target& target);
/// Of a device of module files; null: it is a CPU.
const GpuFamily* find_gpu_family(module_format::Device device);
/// What module files say that a target's code runs on.
module_format::Device device_in_modules(const Target& target);

}  // namespace gantry
