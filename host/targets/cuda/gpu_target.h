// Names and figures of NVIDIA's GPUs as targets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/machine/gpu_family.h"

namespace gantry::cuda {

/// Whether a name is meant for a GPU: "cuda…".
bool names_gpu_target(std::string_view name);
/// "cuda[:sm_NN][/CPU]" or "cuda-emulated[:sm_NN][/CPU][+checks]". A user error says what is wrong and what
/// is near.
GpuTargetName parse_name(std::string_view name);
/// As parse_name reads it.
std::string written_name(const GpuTargetName& name);
/// "sm_86": the newest known whose code runs on GPUs of that compute capability. A user error where it is too
/// old for any.
std::string architecture_name(int compute_capability);
/// "native" of an emulated one.
std::string_view usual_cpu(const GpuTargetName& name);
Target gpu_target(const GpuTargetName& name, Target cpu);
/// Without CPU suffixes.
std::vector<std::string> gpu_target_names();
/// The version of PTX that a target's code is of, in tenths.
int ptx_version(const Target& target);

}  // namespace gantry::cuda
