// Which nodes compute each element from those at its place, whatever their axes mean.
#pragma once

#include "host/ops/op.h"

namespace gantry {

/// Whether each element of the one result is made of those at its place of the inputs, which are broadcast to the
/// result's shape as NumPy does it: no attribute and no input means a certain axis, as batch normalisation's
/// parameters mean the channels. Views are none.
inline bool is_pointwise_on_any_axes(const Node& node) {
  const OpDef& op = op_def(node);
  return (op.fusion == FusionClass::kElementwise || op.fusion == FusionClass::kBroadcast) &&
         op.layout == LayoutBehaviour::kAny && !op.is_view && node.results.size() == 1 && node.bodies.empty();
}

}  // namespace gantry
