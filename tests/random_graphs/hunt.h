// Looks for graphs that a pass or the compiler changes the results of.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/random_graphs/check.h"

namespace gantry::random_graphs {

struct HuntOptions {
  int orders = 2;                     ///< of passes, a graph
  double compiled_share = 0;          ///< of the graphs are compiled as well
  std::vector<int> opt_levels{0, 3};  ///< so
  std::vector<std::string> targets{"native"};
};

/// The graph of a seed through all checks. What fails, made small, as report() writes it.
std::optional<std::string> hunt(uint64_t seed, const HuntOptions& options, Statistics& statistics);

/// Which rewrite first makes a check fail, found by halving: with so many it fails, with one fewer it does not. 0
/// where it fails without any, as behind a pass that does not count them, and where it fails with none of the first
/// 2^20.
int64_t first_failing(const std::function<bool(int64_t rewrites)>& fails);

/// A failing check and its graph, made small together: the same pass is still the first one that is wrong.
std::string shrunk_report(const Case& test, Failure failure);

}  // namespace gantry::random_graphs
