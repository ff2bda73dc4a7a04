// Why sizes that a user gives do not suit a model, and which would.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "host/graph/graph.h"

namespace gantry {

/// Of the first constraint of the symbolic model that these sizes of its symbols break: the inputs,
/// dimensions and sizes, and those that would do. Empty if they break none, as far as they say.
std::string size_advice(const Function& main, const std::map<std::string, int64_t>& sizes);

/// Whether the constraint holds for these sizes, of all its symbols; not where its sides overflow or divide
/// by zero.
bool holds(const DimConstraint& constraint, const std::map<std::string, int64_t>& sizes);

}  // namespace gantry
