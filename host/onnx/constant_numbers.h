// Elements of constants as numbers.
#pragma once

#include <optional>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// Of any type of numbers; nothing of others.
std::optional<std::vector<double>> to_doubles(const ConstantData& data);

}  // namespace gantry
