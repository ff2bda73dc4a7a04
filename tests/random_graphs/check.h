// A graph compared with what passes and the compiler make of it.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/random_graphs/case.h"
#include "tests/random_graphs/reference.h"

namespace gantry::random_graphs {

constexpr int64_t kAllRewrites = std::numeric_limits<int64_t>::max();

/// One way to change a graph that must not change what it computes.
struct Check {
  std::vector<std::string> passes;  ///< in order; none: compiled instead
  int opt_level = -1;               ///< compiled so
  std::string target = "native";
  int64_t most_rewrites = kAllRewrites;  ///< of the last pass
  bool counted = false;  ///< the last pass counts in the statistics

  std::string name() const;
};

struct Failure {
  Check check;
  /// The pass, or step of the compiler's pipeline, after which the graph first computes something else;
  /// "compiling" where all of these are right and the kernels are not.
  std::string first;
  std::string what;
  int64_t rewrite = 0;  ///< the first of that pass's that is wrong, from 1; 0 where it is not known
};

/// How often passes met graphs and changed them.
struct PassCount {
  int64_t ran = 0, changed = 0;
};

struct Statistics {
  int64_t graphs = 0, nodes = 0, checks = 0, compiled = 0;
  double determined = 0;  ///< sum of the graphs' shares of determined elements
  std::map<std::string, PassCount> passes;

  /// A line a pass: in how many graphs, of those that it ran on, it changed something.
  std::string table() const;
};

/// What a graph computes, kept for several checks.
class Tester {
 public:
  /// Throws what evaluating the graph itself throws.
  explicit Tester(const Case& test);

  std::optional<Failure> run(const Check& check, Statistics& statistics) const;
  double determined() const { return determined_share(expected_); }

 private:
  std::optional<Failure> run_passes(const Check& check, Statistics& statistics) const;
  std::optional<Failure> run_compiled(const Check& check) const;
  std::string difference_of(const Graph& graph, const std::vector<Elements>& expected) const;
  std::string first_wrong_step(const Check& check, const std::vector<Elements>& expected) const;

  const Case& test_;
  std::vector<ConstantPtr> inputs_;
  std::vector<Elements> expected_;
};

/// Every pass by itself, and some in `orders` random orders.
std::vector<Check> pass_checks(const Case& test, int orders = 2);

/// The first check that fails, of the graph as it is; an error while it is evaluated counts as one.
std::optional<Failure> first_failure(const Case& test, const std::vector<Check>& checks,
                                     Statistics& statistics);

/// Seed, the graph as text that parse_graph reads, what its symbols stand for, and what fails.
std::string report(const Case& test, const Failure& failure);

}  // namespace gantry::random_graphs
