// Broadcasting of dimensions whose sizes are not known yet.
#pragma once

#include <vector>

#include "host/graph/dim.h"

namespace gantry {

/// The extent of an axis on which operands of extents `a` and `b` are broadcast as NumPy does: the other one
/// where one is 1, else either. An atom, `broadcast(a, b)`, where sizes decide; of operands that do not fit
/// it means nothing. Beside an extent that cannot be 1 the others say nothing more.
Dim broadcast(const Dim& a, const Dim& b);

/// What a dimension broadcasts, in the order in which it is printed: a, b, c of broadcast(broadcast(a, b),
/// c); none where it is another one.
std::vector<Dim> broadcast_operands(const Dim& dim);
/// The same; the dimension itself where it broadcasts nothing.
std::vector<Dim> operands_or_itself(const Dim& dim);

/// Whether only sizes tell if an axis of extent `own`, which is 1 or `result`, is repeated to have that
/// extent. Dimensions of the same symbols count as equal, and so does an expression beside a constant: the
/// sizes for which they are not are those that a network does not take (H and 2*floordiv(H, 2)).
bool may_be_repeated(const Dim& own, const Dim& result);
/// Whether only sizes tell which of two operands is repeated along an axis where they have those extents, if
/// one is.
bool may_broadcast(const Dim& a, const Dim& b);

}  // namespace gantry
