// Layouts of activations and packed weights.
#pragma once

#include "host/graph/graph.h"

namespace gantry {

class FormSet;  // host/passes/form_set.h
struct PassContext;

/// Gives nodes the forms that `forms` chooses: runs convolutions and what surrounds them channels-last, with
/// weights packed for the target; packs the weights of other products. A value keeps both forms only where
/// somebody needs both. The packing itself is left as nodes over constants for fold_constant.
///
///   %1 = nn.conv(%x, @w)                %0 = transpose(%x, axes=[0, 2, 3, 1])
///   %2 = nn.relu(%1)              =>    %1 = nn.conv(%0, @w_packed) by (weight_block=32, channels_last=true)
///   return %2                           %2 = nn.relu(%1);  return transpose(%2, axes=[0, 3, 1, 2])
///
/// Wants simplify_inference before it, fold_constant and dead_code after. PassContext::layouts is told for
/// whom nodes change layouts. Nodes that have a form, of this target or another, keep it. A node's decision
/// is applied as it is (a user error that names the node says why one does not fit); others get one, so that
/// every node with a choice has one behind this pass.
void alter_layout(Graph& graph, const FormSet& forms, PassContext& context);

}  // namespace gantry
