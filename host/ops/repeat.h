// Axes that are repeated where they have one element, which only sizes tell.
#pragma once

#include <memory>
#include <vector>

#include "host/ops/movement.h"
#include "host/ops/op.h"

namespace gantry::ops {

/// Attributes of a broadcast_to of data of the shape `own`: open are the axes of which may_be_repeated() says
/// so (host/graph/dim_broadcast.h).
std::shared_ptr<BroadcastToAttrs> broadcast_attrs(const Shape& own, Shape result);

/// Whether that axis of the data is open.
bool is_open(const BroadcastToAttrs& attrs, size_t axis);
/// Whether sizes decide along which axes data of the shape `own` are repeated.
bool repeats_by_size(const Shape& own, const BroadcastToAttrs& attrs);

/// An open axis of extent `own` is read as one of extent `result`: a user error if that cannot be;
/// constraints of the function where it is not certain: that `own` is 1 or `result` (of what `result`
/// broadcasts: that all of it fits together).
void require_repeatable(const Dim& own, const Dim& result, Function& function, const Node& node);

/// Element of `t`, whose shape is `own`, that stands at `index` of the result. Open axes are read straight
/// where all of them have the result's extent, which is asked in front of the loops and leaves them as they
/// are without broadcasting.
Expr repeated_read(const Tensor& t, const std::vector<Expr>& index, const Shape& own,
                   const BroadcastToAttrs& attrs);

}  // namespace gantry::ops
