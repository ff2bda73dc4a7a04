// Vectors of i64 that ops read as lists of axes, extents and positions.
#pragma once

#include "host/loops/stmt.h"
#include "host/ops/support.h"

namespace gantry::ops {

/// Input i is a vector of i64 of a known length, which is returned.
inline int64_t require_vector(const Node& node, size_t i) {
  const TensorType& x = input_type(node, i);
  require(x.dtype == DType::kI64 && x.rank() == 1 && x.shape[0].is_constant(),
          "input {} should be an i64 vector of a known length, not {}", i, x.str());
  return x.shape[0].value();
}

inline Expr within(const Expr& x, const Expr& low, const Expr& high) {
  return min(max(x, low), high);
}

/// The axis that entry `k` of the list names, inside the tensor whatever it says.
inline Expr axis_at(const Buffer& axes, const Expr& k, int64_t rank) {
  return clamped_position(load(axes, k), rank);
}

}  // namespace gantry::ops
