// One node that calls a custom kernel -> what calls it.
#pragma once

#include <string>
#include <vector>

#include "host/codegen/custom_code.h"
#include "host/driver/kernel_builder.h"
#include "host/driver/program.h"

namespace gantry {

/// A kernel without a loop nest; its stages say what it calls. A user error where the node's op has no code:
/// its graph was read from text, and nobody gave that.
BuiltKernel build_custom_kernel(const KernelWork& work, const std::string& name);
/// The same of its kernel for GPUs, of a node for which calls_gpu_kernel() holds: a launch.
BuiltKernel build_custom_launch(const KernelWork& work, const std::string& name);

/// The calls of a program's kernels, for its image: those that run on the CPU, or on a real GPU.
std::vector<NamedCustomCall> custom_calls(const Program& program, const Target& target, bool on_gpu);

}  // namespace gantry
