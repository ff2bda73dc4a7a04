// What the sizes of a node's inputs must be. Where that is not certain for all sizes, it becomes a constraint
// of the function under the node's name: sizes that break it end the import or the run with an error that
// names the node and says which would do.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "host/onnx/dim_bounds.h"
#include "host/onnx/node_import.h"

namespace gantry {

/// a == b. Of two that no sizes make equal the constraint never holds. One that the function has is not
/// repeated.
inline void require_equal(NodeImport& n, const Dim& a, const Dim& b) {
  std::vector<DimConstraint>& all = n.function().constraints;
  const auto says_so = [&](const DimConstraint& c) { return c.left == a && c.right == b; };
  if (!(a == b) && std::ranges::none_of(all, says_so)) all.push_back({a, b, n.name()});
}
/// a <= most.
inline void require_at_most(NodeImport& n, const Dim& a, const Dim& most) {
  if (!certainly_at_most(a, most)) require_equal(n, min(a, most), a);
}
/// a >= least.
inline void require_at_least(NodeImport& n, const Dim& a, const Dim& least) {
  if (!certainly_at_most(least, a)) require_equal(n, max(a, least), a);
}
/// The same; of two that no sizes make equal a user error of the node with that text.
template <typename... Args>
void require_equal(NodeImport& n, const Dim& a, const Dim& b, fmt::format_string<Args...> text,
                   Args&&... args) {
  if (provably_different(a, b)) n.fail(text, std::forward<Args>(args)...);
  require_equal(n, a, b);
}

}  // namespace gantry
