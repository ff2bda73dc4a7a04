// Why the shapes of a model's inputs do not go together, for people.
#pragma once

#include <cstdint>
#include <span>

#include "device_runtime/src/status.h"
#include "module_generated.h"

namespace gantry::runtime {

/// Error for a constraint that the sizes in a running plan break, whose sides have these values: with the sizes that it
/// is of, where they are several.
Status broken_by_data(const module_format::Manifest& manifest, const module_format::Constraint& broken, int64_t left,
                      int64_t right, std::span<const int64_t> symbols);

/// INVALID_ARGUMENT for a constraint of the manifest that these values of its symbols break: names the
/// inputs, their dimensions, what was given, which sizes would do, and the node that needs it.
Status broken_constraint(const module_format::Manifest& manifest, const module_format::Constraint& broken,
                         std::span<const int64_t> symbols);

/// What a symbol measures, in a word; empty where the module does not say.
const char* meaning_text(module_format::SizeMeaning meaning);

}  // namespace gantry::runtime
