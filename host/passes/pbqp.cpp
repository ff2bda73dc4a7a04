#include "host/passes/pbqp.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "host/support/error.h"

namespace gantry {

size_t Pbqp::add_variable(std::vector<double> costs) {
  internal_check(!costs.empty(), "a variable without values");
  variables_.push_back(std::move(costs));
  pairs_of_.emplace_back();
  return variables_.size() - 1;
}

void Pbqp::add_costs(size_t variable, const std::vector<double>& costs) {
  internal_check(costs.size() == values(variable), "costs of a variable of {} values", values(variable));
  for (size_t i = 0; i < costs.size(); ++i) variables_[variable][i] += costs[i];
}

void Pbqp::add_pair(size_t a, size_t b, const std::vector<double>& costs) {
  internal_check(a != b && costs.size() == values(a) * values(b), "costs of a pair of {} and {} values", values(a), values(b));
  const auto known = std::ranges::find_if(pairs_of_[a], [&](size_t pair) { return pairs_[pair].other(a) == b; });
  if (known == pairs_of_[a].end()) {
    pairs_of_[a].push_back(pairs_.size());
    pairs_of_[b].push_back(pairs_.size());
    pairs_.push_back({a, b, costs});
    return;
  }
  Pair& pair = pairs_[*known];
  const bool turned = pair.a != a;
  for (size_t i = 0; i < values(a); ++i) {
    for (size_t j = 0; j < values(b); ++j)
      pair.costs[turned ? j * values(a) + i : i * values(b) + j] += costs[i * values(b) + j];
  }
}

double Pbqp::cost(const std::vector<size_t>& values) const {
  double cost = 0;
  for (size_t i = 0; i < variables_.size(); ++i) cost += variables_[i][values[i]];
  for (const Pair& pair : pairs_) cost += pair.costs[values[pair.a] * variables_[pair.b].size() + values[pair.b]];
  return cost;
}

/// The problem while its variables are taken out one by one.
class PbqpReduction {
 public:
  explicit PbqpReduction(const Pbqp& problem) : rest_(problem), there_(problem.variables_.size(), true) {
    for (size_t i = 0; i < there_.size(); ++i) consider(i);
  }

  std::vector<size_t> run() {
    values_.resize(there_.size());
    while (taken_out_.size() < there_.size()) {
      if (few_.empty()) {
        settle(most_pairs());
        continue;
      }
      const size_t variable = few_.back();
      few_.pop_back();
      if (is_reducible(variable)) reduce(variable);
    }
    for (auto taken = taken_out_.rbegin(); taken != taken_out_.rend(); ++taken) {
      // Of a settled one the costs of all values but one are infinite.
      values_[*taken] = least(*taken);
    }
    return std::move(values_);
  }

 private:
  using Pair = Pbqp::Pair;

  size_t values(size_t variable) const { return rest_.variables_[variable].size(); }
  std::vector<size_t>& pairs_of(size_t variable) { return rest_.pairs_of_[variable]; }
  /// Of a pair, with that value of `variable`, one of the two.
  double at(const Pair& pair, size_t variable, size_t value, size_t of_other) const {
    return variable == pair.a ? pair.costs[value * values(pair.b) + of_other]
                              : pair.costs[of_other * values(pair.b) + value];
  }

  bool is_reducible(size_t variable) {
    constexpr size_t kMostPairs = 2;
    return there_[variable] && pairs_of(variable).size() <= kMostPairs;
  }
  void consider(size_t variable) {
    if (is_reducible(variable)) few_.push_back(variable);
  }

  /// The neighbours lose their pairs with it; its own list stays, for when it gets its value.
  void take_out(size_t variable) {
    there_[variable] = false;
    taken_out_.push_back(variable);
    for (const size_t pair : pairs_of(variable)) {
      const size_t other = rest_.pairs_[pair].other(variable);
      std::erase(pairs_of(other), pair);
      consider(other);
    }
  }

  void reduce(size_t variable) {
    const std::vector<size_t> pairs = pairs_of(variable);
    const std::vector<double>& own = rest_.variables_[variable];
    if (pairs.size() == 1) {
      const Pair& pair = rest_.pairs_[pairs[0]];
      const size_t other = pair.other(variable);
      for (size_t j = 0; j < values(other); ++j) {
        double best = INFINITY;
        for (size_t i = 0; i < own.size(); ++i) best = std::min(best, own[i] + at(pair, variable, i, j));
        rest_.variables_[other][j] += best;
      }
    }
    take_out(variable);
    if (pairs.size() == 2) join(variable, rest_.pairs_[pairs[0]], rest_.pairs_[pairs[1]]);
  }

  /// What `variable` costs at its best becomes a pair of its two neighbours.
  void join(size_t variable, const Pair& to_left, const Pair& to_right) {
    const std::vector<double>& own = rest_.variables_[variable];
    const size_t left = to_left.other(variable), right = to_right.other(variable);
    std::vector<double> costs(values(left) * values(right), INFINITY);
    for (size_t l = 0; l < values(left); ++l) {
      for (size_t r = 0; r < values(right); ++r) {
        double& best = costs[l * values(right) + r];
        for (size_t i = 0; i < own.size(); ++i)
          best = std::min(best, own[i] + at(to_left, variable, i, l) + at(to_right, variable, i, r));
      }
    }
    rest_.add_pair(left, right, costs);
    consider(left);
    consider(right);
  }

  size_t most_pairs() {
    size_t most = there_.size();
    for (size_t i = 0; i < there_.size(); ++i) {
      if (there_[i] && (most == there_.size() || pairs_of(i).size() > pairs_of(most).size())) most = i;
    }
    return most;
  }

  /// RN.
  void settle(size_t variable) {
    std::vector<double>& own = rest_.variables_[variable];
    const size_t best = cheapest(variable, [&](const Pair& pair, size_t other, size_t i) {
      double with_other = INFINITY;
      for (size_t j = 0; j < values(other); ++j)
        with_other = std::min(with_other, rest_.variables_[other][j] + at(pair, variable, i, j));
      return with_other;
    });
    for (const size_t index : pairs_of(variable)) {
      const Pair& pair = rest_.pairs_[index];
      const size_t other = pair.other(variable);
      for (size_t j = 0; j < values(other); ++j) rest_.variables_[other][j] += at(pair, variable, best, j);
    }
    for (size_t i = 0; i < own.size(); ++i) {
      if (i != best) own[i] = INFINITY;
    }
    take_out(variable);
  }

  /// With the values of those that were taken out later.
  size_t least(size_t variable) {
    return cheapest(variable, [&](const Pair& pair, size_t other, size_t i) { return at(pair, variable, i, values_[other]); });
  }

  /// The first value of the least cost; `with(pair, other, i)`: what the pair with that other variable adds to value i.
  template <typename With>
  size_t cheapest(size_t variable, const With& with) {
    const std::vector<double>& own = rest_.variables_[variable];
    size_t best = 0;
    double best_cost = INFINITY;
    for (size_t i = 0; i < own.size(); ++i) {
      double cost = own[i];
      for (const size_t index : pairs_of(variable)) {
        const Pair& pair = rest_.pairs_[index];
        cost += with(pair, pair.other(variable), i);
      }
      if (cost < best_cost) std::tie(best, best_cost) = std::pair{i, cost};
    }
    return best;
  }

  Pbqp rest_;
  std::vector<bool> there_;
  std::vector<size_t> few_;        ///< in two pairs at most when they were put there
  std::vector<size_t> taken_out_;  ///< in that order
  std::vector<size_t> values_;
};

std::vector<size_t> Pbqp::solve() const {
  return PbqpReduction(*this).run();
}

}  // namespace gantry
