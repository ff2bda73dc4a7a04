// bitcast: the bits of elements as elements of another type.
#pragma once

#include "host/graph/graph.h"
#include "host/graph/op_handle.h"
#include "host/ops/elementwise_attrs.h"

namespace gantry {

namespace op {
/// bitcast(data): a view (OpDef::is_view) whose elements are the same bits as a type that is as wide; no
/// bool, and no signed integers of less than a byte, whose sign fills one. It has no tensor expression:
/// nothing computes it.
inline constexpr Op<CastAttrs> bitcast{"bitcast"};
}  // namespace op

/// Whether the node is a view whose elements are those of its one input, not their bits alone.
bool views_elements(const Node& node);

}  // namespace gantry
