// A graph for given sizes of its symbols.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "host/graph/graph.h"

namespace gantry {

/// Puts the sizes in the symbols' places, in all types and attributes. User errors name a symbol that no input has, or
/// a size that is not in its range or breaks a constraint.
void substitute_sizes(Graph& graph, const std::map<std::string, int64_t>& sizes);

/// Puts dimensions in the places of symbols of the inputs that they are to equal. False where that breaks a
/// constraint: then only a part is done.
bool equate_dims(Graph& graph, const std::map<std::string, Dim>& equal);

/// "N=1,length=128"
std::string sizes_text(const std::map<std::string, int64_t>& sizes);

}  // namespace gantry
