#include "host/tune/cost_model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "host/support/random.h"

namespace gantry::tune {
namespace {

/// The analytic models know the first factor, and nothing of the second: decisions with a long third feature
/// take twice as long.
Prospect prospect(Random& random, double& cost) {
  Prospect one;
  for (int i = 0; i < 6; ++i) one.features.push_back(static_cast<float>(random.uniform()));
  one.predicted = 1e6 * std::exp(0.4 * one.features[0]);
  cost = *one.predicted * (one.features[2] > 0.5 ? 2 : 1);
  return one;
}

/// Share of pairs that are ranked as their costs are.
double agreement(const CostModel& model, int groups) {
  Random random(99, "test");
  int right = 0, all = 0;
  for (int group = 0; group < groups; ++group) {
    std::vector<Prospect> prospects;
    std::vector<double> costs(20);
    for (double& cost : costs) prospects.push_back(prospect(random, cost));
    const std::vector<double> ranks = model.rank(prospects);
    for (size_t i = 0; i < costs.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        ++all;
        right += (costs[i] < costs[j]) == (ranks[i] < ranks[j]) ? 1 : 0;
      }
    }
  }
  return static_cast<double>(right) / all;
}

std::vector<Example> examples(int groups, int each) {
  Random random(1, "train");
  std::vector<Example> result;
  for (int group = 0; group < groups; ++group) {
    for (int i = 0; i < each; ++i) {
      Example one;
      one.group = static_cast<size_t>(group);
      one.prospect = prospect(random, one.cost);
      one.cost /= 1e6;
      result.push_back(one);
    }
  }
  return result;
}

TEST(CostModel, TheAnalyticOneRanksAsPredicted) {
  const auto model = make_analytic_model();
  const std::vector<Prospect> prospects{{{}, 30.0}, {{}, 10.0}, {{}, 20.0}};
  const std::vector<double> ranks = model->rank(prospects);
  EXPECT_LT(ranks[1], ranks[2]);
  EXPECT_LT(ranks[2], ranks[0]);
}

TEST(CostModel, WhereNotAllArePredictedTheAnalyticOneKnowsNothing) {
  const std::vector<Prospect> prospects{{{}, 30.0}, {{}, std::nullopt}};
  const std::vector<double> ranks = make_analytic_model()->rank(prospects);
  EXPECT_EQ(ranks[0], ranks[1]);
}

TEST(CostModel, TheResidualIsLearned) {
  const auto model = make_learned_model();
  if (!model) GTEST_SKIP() << "gantry was built without XGBoost";
  const double before = agreement(*model, 10);
  model->learn(examples(6, 20));
  const double after = agreement(*model, 10);
  EXPECT_NEAR(before, agreement(*make_analytic_model(), 10), 1e-9) << "untrained it is the analytic one";
  EXPECT_GT(after, 0.9);
  EXPECT_GT(after, before + 0.1);
}

TEST(CostModel, TheSameExamplesGiveTheSameRanks) {
  const auto first = make_learned_model(), second = make_learned_model();
  if (!first) GTEST_SKIP() << "gantry was built without XGBoost";
  const std::vector<Example> some = examples(4, 10);
  first->learn(some);
  second->learn(some);
  Random random(5, "ranks");
  std::vector<Prospect> prospects;
  double cost = 0;
  for (int i = 0; i < 30; ++i) prospects.push_back(prospect(random, cost));
  EXPECT_EQ(first->rank(prospects), second->rank(prospects));
}

}  // namespace
}  // namespace gantry::tune
