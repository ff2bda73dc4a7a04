// What the sizes of a node's inputs must be. Where that is not certain for all sizes, it becomes a constraint
// of the function under the node's name: sizes that break it end the import or the run with an error that
// names the node and says which would do.
#pragma once

#include <utility>

#include "host/onnx/dim_bounds.h"
#include "host/onnx/node_import.h"

namespace gantry {

/// a <= most.
inline void require_at_most(NodeImport& n, const Dim& a, const Dim& most) {
  if (!certainly_at_most(a, most)) n.function().constraints.push_back({min(a, most), a, n.name()});
}
/// a >= least.
inline void require_at_least(NodeImport& n, const Dim& a, const Dim& least) {
  if (!certainly_at_most(least, a)) n.function().constraints.push_back({max(a, least), a, n.name()});
}
/// a == b. Of two that no sizes make equal the constraint never holds.
inline void require_equal(NodeImport& n, const Dim& a, const Dim& b) {
  if (!(a == b)) n.function().constraints.push_back({a, b, n.name()});
}
/// The same; of two that no sizes make equal a user error of the node with that text.
template <typename... Args>
void require_equal(NodeImport& n, const Dim& a, const Dim& b, fmt::format_string<Args...> text,
                   Args&&... args) {
  if (provably_different(a, b)) n.fail(text, std::forward<Args>(args)...);
  require_equal(n, a, b);
}

}  // namespace gantry
