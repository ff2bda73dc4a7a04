// What the compiler knows of a family of GPUs, but for how their code is generated and what the models of its
// kernels predict. Each has a folder of its own (host/targets).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/target.h"

namespace gantry {

/// A target's name taken apart; what is empty is not given.
struct GpuTargetName {
  bool emulated = false, checks = false;
  std::string_view architecture, cpu;
};

struct GpuFamily {
  std::string_view name;  ///< its folder's, and that of its rules: "cuda"
  std::string_view code;  ///< what messages call its code

  /// Whether a target's name is meant for one of them.
  bool (*has_name)(std::string_view name);
  /// Such a name, with the architecture that it stands for where it gives none. A user error says what is
  /// wrong and what is near.
  GpuTargetName (*parse)(std::string_view name);
  std::string (*written)(const GpuTargetName& name);
  /// As targets' names have the newest known GPU whose code runs on those that report this compute capability.
  /// A user error where they are too old for any.
  std::string (*architecture)(int compute_capability);
  /// The target that the CPU beside it is, or that emulates it, unless its name gives one.
  std::string_view (*usual_cpu)(const GpuTargetName& name);
  /// Of a name as `parse` returns it, with the CPU that it gives, or the usual one.
  Target (*target)(const GpuTargetName& name, Target cpu);
  std::vector<std::string> (*target_names)();  ///< without CPU suffixes

  /// What a GPU must be for its matrix instructions to have the precision; empty where this one is.
  std::string_view (*lacks)(const GpuModel& gpu, Precision precision);
};

/// All families, in the order in which their targets are listed.
std::span<const GpuFamily* const> gpu_families();
/// Of a target with a GPU, real or emulated.
const GpuFamily& gpu_family_of(const Target& target);

}  // namespace gantry
