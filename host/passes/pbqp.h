// Partitioned boolean quadratic programming: each of some variables takes one of its values, and what the values cost by
// themselves and in pairs is to be as little as can be.
//
// Method: Scholz and Eckstein, "Register Allocation for Irregular Architectures", LCTES 2002; for the choice of
// primitives in a network with what layouts between them cost: Anderson and Gregg, "Optimal DNN Primitive Selection with
// Partitioned Boolean Quadratic Programming", CGO 2018. A variable in no pair (R0), in one (R1) or in two (R2) is taken
// out, with what it costs at its best put down to its neighbours: that is exact, and enough for chains, trees and all
// that lies in series and side by side. Where every variable is in three pairs or more, the one in most takes the value
// that is least with its neighbours at their best for it (RN), which need not be the least of all.
#pragma once

#include <cstddef>
#include <vector>

namespace gantry {

class Pbqp {
 public:
  /// Costs of a variable's values, one at least; INFINITY forbids a value, or a pair. Returns the variable.
  size_t add_variable(std::vector<double> costs);
  /// On top of what its values cost already.
  void add_costs(size_t variable, const std::vector<double>& costs);
  /// What values of two different variables cost together: costs[i * values of b + j]. Of the same two it adds up.
  void add_pair(size_t a, size_t b, const std::vector<double>& costs);

  size_t values(size_t variable) const { return variables_[variable].size(); }
  /// Of a value for each variable.
  double cost(const std::vector<size_t>& values) const;
  /// The first of equal ones.
  std::vector<size_t> solve() const;

 private:
  friend class PbqpReduction;
  struct Pair {
    size_t a = 0, b = 0;
    std::vector<double> costs;

    size_t other(size_t variable) const { return variable == a ? b : a; }
  };
  std::vector<std::vector<double>> variables_;
  std::vector<Pair> pairs_;
  std::vector<std::vector<size_t>> pairs_of_;  ///< by variable
};

}  // namespace gantry
