// Type rules of ops that bring positions into an axis, whatever they are: it must have an element.
#pragma once

#include <string>

#include "host/ops/op.h"

namespace gantry::ops {

/// An axis of that extent is read for each element of a shape `readers`: it has an element where there is one
/// of these. A user error with `what` if it cannot have; a constraint of the function where that is not
/// certain, also not by the constraints that it has.
void require_readable(const Dim& extent, const Shape& readers, Function& function, const Node& node,
                      const std::string& what);

}  // namespace gantry::ops
