// What a module's manifest says of its plan.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "device_runtime/src/device.h"
#include "host/cli/program_choice.h"
#include "host/cli/program_facts.h"
#include "module_generated.h"

namespace gantry::cli {

/// The plan of one of a checked manifest's variants for inputs of these shapes, in their order; -1 or a shape
/// that is not there: not known, and what depends on it is left out.
ProgramFacts program_of_module(const module_format::Manifest& manifest, const module_format::Variant& variant,
                               const std::vector<std::vector<int64_t>>& shapes);

/// The variant of that target and device that runs for inputs of these shapes; null if there is none.
const module_format::Variant* find_variant(const module_format::Manifest& manifest, std::string_view target,
                                           module_format::Device device,
                                           const std::vector<std::vector<int64_t>>& shapes);

/// The same as sizes and place: find_variant() chooses by the manifest as the runtime does. Where there is no
/// such variant, as of a module with one program.
ProgramChoice choose_program(const module_format::Manifest& manifest, std::string_view target,
                             module_format::Device device, const std::vector<std::vector<int64_t>>& shapes);

}  // namespace gantry::cli
