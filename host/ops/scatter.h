// Attributes of ops that write at positions which are data.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// What happens to the element that an update meets.
enum class ScatterReduction : uint8_t { kNone, kAdd, kMultiply, kMax, kMin };

/// scatter_elements(data, indices, updates): a copy of data in which element i of updates goes to position i
/// with the coordinate along `axis` taken from indices[i]. scatter_nd(data, indices, updates): row i of
/// indices (…, depth) names the slice of data that updates[i] goes to; the axis is not used. Updates are
/// applied in row-major order, so of several to one place the last one wins.
struct ScatterAttrs : AttrsOf<ScatterAttrs> {
  int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::kNone;
  void fields(AttrVisitor& visit) override {
    visit("axis", axis);
    visit.enumeration("reduction", reduction, {"none", "add", "mul", "max", "min"});
  }
};

namespace op {
inline constexpr Op<ScatterAttrs> scatter_elements{"scatter_elements"};
inline constexpr Op<ScatterAttrs> scatter_nd{"scatter_nd"};
}  // namespace op

}  // namespace gantry
