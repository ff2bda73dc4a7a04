// Against every assignment there is, of small random problems.
#include "host/passes/pbqp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <utility>

namespace gantry {
namespace {

double least_of_all(const Pbqp& problem, size_t variables) {
  std::vector<size_t> values(variables);
  double least = INFINITY;
  for (;;) {
    least = std::min(least, problem.cost(values));
    size_t i = 0;
    while (i < variables && ++values[i] == problem.values(i)) values[i++] = 0;
    if (i == variables) return least;
  }
}

class Random {
 public:
  explicit Random(unsigned seed) : bits_(seed) {}
  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(bits_); }
  /// Whole numbers, so that many assignments cost the same.
  double cost(double forbidden) {
    return std::bernoulli_distribution(forbidden)(bits_) ? INFINITY : double(below(10));
  }
  std::vector<double> costs(size_t count, double forbidden = 0) {
    std::vector<double> all(count);
    for (double& one : all) one = cost(forbidden);
    return all;
  }

 private:
  std::mt19937 bits_;
};

void expect_least(const Pbqp& problem, size_t variables, unsigned seed) {
  EXPECT_EQ(problem.cost(problem.solve()), least_of_all(problem, variables)) << "seed " << seed;
}

TEST(Pbqp, TreesAreSolvedExactly) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Random random(seed);
    Pbqp problem;
    const size_t variables = 1 + random.below(8);
    for (size_t i = 0; i < variables; ++i) {
      problem.add_variable(random.costs(1 + random.below(3)));
      if (i == 0 || random.below(8) == 0) continue;  // several trees
      const size_t parent = random.below(i);
      problem.add_pair(i, parent, random.costs(problem.values(i) * problem.values(parent), 0.1));
    }
    if (std::isfinite(least_of_all(problem, variables))) expect_least(problem, variables, seed);
  }
}

TEST(Pbqp, WhatLiesInSeriesAndSideBySideIsSolvedExactly) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Random random(seed);
    Pbqp problem;
    std::vector<std::pair<size_t, size_t>> pairs{{0, 1}};
    for (int i = 0; i < 2; ++i) problem.add_variable(random.costs(2 + random.below(2)));
    // A path beside what is there, or in place of it: in two pairs each.
    while (problem.values(0) > 0 && pairs.size() < 13) {
      const auto [a, b] = pairs[random.below(pairs.size())];
      const size_t between = problem.add_variable(random.costs(2 + random.below(2)));
      pairs.emplace_back(a, between);
      pairs.emplace_back(between, b);
    }
    for (const auto& [a, b] : pairs) problem.add_pair(a, b, random.costs(problem.values(a) * problem.values(b)));
    expect_least(problem, 2 + pairs.size() / 2, seed);
  }
}

// Costs of the pairs of some problems in which all is connected with all: the heuristic is near the least.
TEST(Pbqp, WhatIsMoreConnectedIsSolvedNearly) {
  double found = 0, least = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    Random random(seed);
    Pbqp problem;
    constexpr size_t kVariables = 6;
    for (size_t i = 0; i < kVariables; ++i) problem.add_variable(random.costs(3));
    for (size_t i = 0; i < kVariables; ++i) {
      for (size_t j = 0; j < i; ++j) problem.add_pair(i, j, random.costs(9));
    }
    const double one = problem.cost(problem.solve()), best = least_of_all(problem, kVariables);
    EXPECT_GE(one, best);
    found += one;
    least += best;
  }
  EXPECT_LE(found, 1.25 * least);
}

TEST(Pbqp, PairsOfTheSameVariablesAddUpWhicheverIsNamedFirst) {
  Pbqp problem;
  problem.add_variable({0, 0});
  problem.add_variable({0, 0, 0});
  problem.add_pair(0, 1, {5, 5, 5, 1, 5, 5});
  problem.add_pair(1, 0, {0, 9, 0, 0, 0, 0});
  problem.add_costs(1, {0, 0, 1});
  EXPECT_EQ(problem.cost({1, 0}), 10);
  EXPECT_EQ(problem.cost({0, 2}), 6);
  EXPECT_EQ(problem.solve(), (std::vector<size_t>{0, 0}));
}

TEST(Pbqp, ForbiddenPairsAreLeftAlone) {
  Pbqp problem;
  for (int i = 0; i < 3; ++i) problem.add_variable({0, 100});
  const std::vector<double> alike{INFINITY, 0, 0, INFINITY};
  problem.add_pair(0, 1, alike);
  problem.add_pair(1, 2, alike);
  EXPECT_EQ(problem.solve(), (std::vector<size_t>{0, 1, 0}));
}

}  // namespace
}  // namespace gantry
