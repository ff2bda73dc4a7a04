// Sizes of made-up inputs where a model leaves them open and nobody gives them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/cli/inputs.h"

namespace gantry::module_format {
struct Manifest;
}

namespace gantry::cli {

/// User error naming one of `sizes`, of symbols by name, that the module does not have: it would mean
/// nothing.
void check_size_names(const module_format::Manifest& manifest, const std::map<std::string, int64_t>& sizes);

/// Chooses the open sizes (-1) in `shapes`, the shapes of a module's inputs in their order as far as they are
/// known. Each symbol takes the first size that is usual for what it measures (batch 1, images of 224,
/// sequences of 128, …) with which all constraints of the model hold, no tensor is empty and the workspace
/// stays below a gigabyte; where no usual ones fit, the smallest that does, for one symbol alone if that is
/// enough; where a search of bounded length has found none of these, of one symbol the size that an equality
/// asks for beside usual ones of all others; else 1. Constraints of branches hold too, and sizes are equal
/// for which the module has a program of its own, unless no sizes do all that. `sizes`: of symbols by name,
/// from --dim; errors of check_size_names.
std::vector<ChosenShape> choose_sizes(const module_format::Manifest& manifest,
                                      const std::map<std::string, int64_t>& sizes,
                                      const std::vector<std::vector<int64_t>>& shapes);

}  // namespace gantry::cli
