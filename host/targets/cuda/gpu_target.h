// Names and figures of GPU targets; find_target and known_targets (target.h) come here for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/codegen/target.h"

namespace gantry {

/// Whether a name is meant for a GPU: "cuda…".
bool names_gpu_target(std::string_view name);
/// "cuda[:sm_NN][/CPU]" or "cuda-emulated[:sm_NN][/CPU][+checks]". A user error says what is wrong and what
/// is near.
Target find_gpu_target(std::string_view name);
/// Without CPU suffixes.
std::vector<Target> known_gpu_targets();
/// LLVM's feature for the version of PTX that a kCuda target's code is of: "+ptx70".
std::string_view ptx_feature(const Target& target);

}  // namespace gantry
