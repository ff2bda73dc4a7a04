// Targets by their names: those of families, LLVM's of CPUs, and what a board reports of itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/machine/target.h"

namespace gantry {

/// The targets with names of their own for which this gantry generates code, for `gantry targets`:
/// x86-64-v2/v3/v4, aarch64, aarch64+dotprod, named CPUs.
std::vector<Target> known_targets();
/// A target by name: a known one, `native` (this machine), or any CPU name that LLVM knows for x86-64 or
/// AArch64 ("znver3", "cortex-a55"), each optionally with "+feature" and "-feature" suffixes and sizes of a
/// core's caches, as "+l2=256K" ("host/codegen/cache_suffix.h"); or a GPU:
///   "cuda:sm_86" or, with the CPU beside it, "cuda:sm_87/cortex-a78"; the CPU is x86-64-v2 unless named, and
///     an Arm one for sm_72 and sm_87, which only Jetson modules have. "cuda" is cuda:sm_80, whose PTX newer
///     GPUs run too.
///   "cuda-emulated" with ":sm_NN" and "/CPU" as above (this machine's CPU unless named), and "+checks" for
///     race and bounds detection.
/// A user error lists the nearest names.
Target find_target(std::string_view name);
/// Exactly the machine that reports this: architecture ("x86_64", "aarch64"), LLVM CPU name (may be empty)
/// and the LLVM names of the features that gantry's runtime detects (device_runtime/src/cpu_info.h).
Target target_of_board(std::string_view architecture, std::string_view cpu,
                       const std::vector<std::string>& features);

}  // namespace gantry
