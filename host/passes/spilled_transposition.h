// Large matrices turned, or made wider, without two of them in memory.
#pragma once

#include "host/graph/graph.h"
#include "host/support/spill_file.h"

namespace gantry {

/// The result of transposing a constant of `bytes` bytes or more whose first two axes change places, (A, B,
/// …) to (B, A, …), axes of extent 1 aside, put together on the disk part by part. Null for other nodes, or
/// where the disk does not take it.
ConstantPtr spilled_transposition(const Node& node, SpillFile& file, size_t bytes);

/// The same of padding with zeros behind the last axis.
ConstantPtr spilled_padding(const Node& node, SpillFile& file, size_t bytes);

}  // namespace gantry
