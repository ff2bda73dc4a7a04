// The CPU features that generated code depends on, by LLVM's names; the device runtime detects the same
// (device_runtime/src/cpu_info.h). Features that kernels never use (crypto, atomics, byte order …) are left
// out, so that they exclude no board: a Cortex-A72 without crypto still runs code for a Cortex-A72.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/target.h"
#include "host/machine/tile_unit.h"

namespace gantry {

/// `features` and all they imply, or what remains after removing one and all that depend on it.
std::vector<std::string> add_feature(const CpuFamily& family, std::vector<std::string> features,
                                     std::string_view feature);
std::vector<std::string> remove_feature(const CpuFamily& family, std::vector<std::string> features,
                                        std::string_view feature);

bool has_feature(const std::vector<std::string>& features, std::string_view feature);
inline bool has_feature(const Target& target, std::string_view feature) {
  return has_feature(target.features, feature);
}

/// The instructions that multiply tiles on a CPU that has them: of f16 for Precision::kFp16, else of bf16.
std::optional<TileUnit> tile_unit(const Target& target);
std::optional<TileUnit> tile_unit(const Target& target, DType element);

}  // namespace gantry
