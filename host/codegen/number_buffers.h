// Which local buffers never hold NaN: the accumulators of minima and maxima.
#pragma once

#include <set>

#include "host/loops/stmt.h"

namespace gantry {

/// Local f32 and f64 buffers to which only constants that are numbers are stored, and minima and maxima with
/// an element of the buffer itself: these choose the other operand where one is NaN.
std::set<const BufferNode*> accumulators_of_numbers(const Stmt& body);

}  // namespace gantry
