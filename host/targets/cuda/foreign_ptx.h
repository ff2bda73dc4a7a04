// PTX that users wrote, beside that of kernels.
#pragma once

#include <span>
#include <string>

#include "host/codegen/gpu_codegen.h"
#include "host/machine/target.h"

namespace gantry::cuda {

/// Appends the texts to that of the kernels, which may be empty: their entries get their names, and the whole
/// one head, of the newest version of PTX among them. User errors: a text without its entry, or for a newer
/// GPU than the target's.
void add_foreign(std::string& ptx, std::span<const ForeignGpuText> foreign, const Target& target);

}  // namespace gantry::cuda
