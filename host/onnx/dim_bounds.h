// min and max of dimensions that stay simple where an order is certain.
#pragma once

#include "host/graph/dim_at_least.h"

namespace gantry {

/// a <= b for all symbol values, as far as can be told.
inline bool certainly_at_most(const Dim& a, const Dim& b) {
  const auto low = least_difference(b, a);
  return low && *low >= 0;
}
inline Dim smaller(const Dim& a, const Dim& b) {
  return certainly_at_most(a, b) ? a : certainly_at_most(b, a) ? b : min(a, b);
}
inline Dim larger(const Dim& a, const Dim& b) {
  return certainly_at_most(a, b) ? b : certainly_at_most(b, a) ? a : max(a, b);
}

}  // namespace gantry
