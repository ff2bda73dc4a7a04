// The order of nodes that symbols ask for.
#pragma once

#include <set>

#include "host/graph/graph.h"

namespace gantry {

/// Moves what binds symbols in front of what mentions them; all else stays as it is, where that is possible. Passes
/// look at the order that values ask for, and may have put a node too early. Nothing changes where no node binds
/// symbols; an internal error where a node would have to come before itself.
void order_by_symbols(Function& function);

/// Outputs whose shapes have symbols that are only bound after what they are views of is computed: that
/// cannot be written where the output is.
std::set<const Value*> outputs_sized_late(const Function& function);

}  // namespace gantry
