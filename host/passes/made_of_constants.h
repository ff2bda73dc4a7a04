// Values that are the same whatever a model is given.
#pragma once

#include "host/graph/graph.h"

namespace gantry {

/// Whether the value is a constant, or made of constants alone by nodes for which `may_make` holds; inputs
/// that are absent (null) do not count. Each value is looked at once, however often others read it.
bool is_made_of_constants(const Value& value, bool (*may_make)(const Node& node));

}  // namespace gantry
