// Names and figures of NVIDIA's GPUs as targets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/codegen/gpu_family.h"

namespace gantry::cuda {

/// Whether a name is meant for a GPU: "cuda…".
bool names_gpu_target(std::string_view name);
/// "cuda[:sm_NN][/CPU]" or "cuda-emulated[:sm_NN][/CPU][+checks]". A user error says what is wrong and what
/// is near.
Target find_gpu_target(std::string_view name);
/// Without CPU suffixes.
std::vector<Target> known_gpu_targets();
/// As find_gpu_target reads it.
std::string written_name(const GpuTargetName& name);
/// "sm_86"
std::string architecture_name(int compute_capability);
/// LLVM's feature for the version of PTX that a target's code is of: "+ptx70".
std::string_view ptx_feature(const Target& target);

}  // namespace gantry::cuda
