// A failing graph made small.
#pragma once

#include <functional>

#include "tests/random_graphs/case.h"

namespace gantry::random_graphs {

/// A case for which `fails` is still true: with as few outputs, nodes and parameters, and dimensions as
/// small, as dropping and replacing one after the other finds. `fails(test)` must be true. `limit`: of calls
/// of `fails`.
Case shrunk(const Case& test, const std::function<bool(const Case&)>& fails, int limit = 2000);

}  // namespace gantry::random_graphs
