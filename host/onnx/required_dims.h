// What the sizes of a node's inputs must be, where that is not certain: constraints under the node's name.
#pragma once

#include "host/onnx/dim_bounds.h"
#include "host/onnx/node_import.h"

namespace gantry {

inline void require_at_most(NodeImport& n, const Dim& a, const Dim& most) {
  if (!certainly_at_most(a, most)) n.function().constraints.push_back({min(a, most), a, n.name()});
}
inline void require_at_least(NodeImport& n, const Dim& a, const Dim& least) {
  if (!certainly_at_most(least, a)) n.function().constraints.push_back({max(a, least), a, n.name()});
}
inline void require_equal(NodeImport& n, const Dim& a, const Dim& b) {
  if (!(a == b)) n.function().constraints.push_back({a, b, n.name()});
}

}  // namespace gantry
