// Axes that are repeated where they have one element, which only sizes tell.
#pragma once

#include <vector>

#include "host/ops/op.h"

namespace gantry::ops {

/// An axis of extent `own` is read as one of extent `result`, as NumPy broadcasts it: a user error if that
/// cannot be; constraints of the function where it is not certain: that they are equal or, where
/// may_be_repeated() says so, that `own` is 1 or `result` (of what `result` broadcasts: that all of it fits
/// together).
void require_repeatable(const Dim& own, const Dim& result, Function& function, const Node& node);

/// Whether sizes decide along which axes data of the shape `own` are repeated to have the shape `result`.
bool repeats_by_size(const Shape& own, const Shape& result);

/// Element of `t`, whose shape is `own`, that stands at `index` of the tensor of the shape `result` to which
/// it is broadcast. Axes of which only sizes tell are read straight where all of them have the result's
/// extent, which is asked in front of the loops and leaves them as they are without broadcasting.
Expr repeated_read(const Tensor& t, const std::vector<Expr>& index, const Shape& own, const Shape& result);

}  // namespace gantry::ops
