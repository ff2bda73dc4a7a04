// The order of nodes that symbols ask for.
#pragma once

#include "host/graph/graph.h"

namespace gantry {

/// Moves what binds symbols in front of what mentions them; all else stays as it is, where that is possible. Passes
/// look at the order that values ask for, and may have put a node too early. Nothing changes where no node binds
/// symbols; an internal error where a node would have to come before itself.
void order_by_symbols(Function& function);

}  // namespace gantry
