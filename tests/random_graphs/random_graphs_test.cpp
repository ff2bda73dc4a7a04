// Graphs of fixed seeds through all passes and through the compiler; `random_graphs` tries as many as one
// likes.
#include <gtest/gtest.h>

#include "host/ops/op.h"
#include "host/support/error.h"
#include "tests/random_graphs/hunt.h"
#include "tests/random_graphs/passes.h"
#include "tests/random_graphs/shrink.h"
#include "tests/random_graphs/sketch.h"

namespace gantry::random_graphs {
namespace {

/// Seeds in parts, so that CTest can run them side by side.
class RandomGraphs : public ::testing::TestWithParam<uint64_t> {
 public:
  static constexpr uint64_t kParts = 4, kSeeds = 80, kCompiled = 4;
};

TEST_P(RandomGraphs, ComputeTheSameAfterEveryPassAndInRandomOrders) {
  Statistics statistics;
  for (uint64_t i = 0; i < kSeeds; ++i) {
    const auto failure = hunt(1 + GetParam() * kSeeds + i, {}, statistics);
    EXPECT_FALSE(failure) << *failure;
  }
  // What jumps where roundings decide is compared with nothing: that must be rare.
  EXPECT_GT(statistics.determined, 0.85 * static_cast<double>(statistics.graphs));
}

TEST_P(RandomGraphs, ComputeTheSameCompiledWithAndWithoutOptimisation) {
  Statistics statistics;
  for (uint64_t i = 0; i < kCompiled; ++i) {
    const Case test = random_case(1000 + GetParam() * kCompiled + i);
    const auto failure = first_failure(test, {{{}, 0, "native"}, {{}, 3, "native"}}, statistics);
    EXPECT_FALSE(failure) << report(test, *failure);
  }
}

INSTANTIATE_TEST_SUITE_P(Part, RandomGraphs, ::testing::Range(uint64_t{0}, RandomGraphs::kParts));

TEST(RandomGraph, OfASeedIsAlwaysTheSameAndItsTextReadsBack) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const std::string text = text_of(random_case(seed).graph);
    EXPECT_EQ(text, text_of(random_case(seed).graph));
    EXPECT_EQ(text_of(parse_graph(text, op_set())), text);
  }
}

TEST(FirstWrongRewrite, IsFoundByHalving) {
  for (const int64_t wrong : {1, 2, 3, 7, 8, 1000}) {
    int tries = 0;
    const auto fails = [&](int64_t rewrites) {
      ++tries;
      return rewrites >= wrong;
    };
    EXPECT_EQ(first_failing(fails), wrong);
    EXPECT_LE(tries, 21) << wrong;
  }
}

TEST(FirstWrongRewrite, IsNotKnownOfAPassThatCountsNone) {
  EXPECT_EQ(first_failing([](int64_t) { return true; }), 0);
  EXPECT_EQ(first_failing([](int64_t) { return false; }), 0);
}

TEST(RandomGraph, GivesEveryPassSomethingToDo) {
  Statistics statistics;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const Case test = random_case(seed);
    first_failure(test, pass_checks(test, 0), statistics);
  }
  for (const TestedPass& pass : list_of_passes()) {
    if (pass.by_default) EXPECT_GT(statistics.passes[pass.name].changed, 0) << pass.name;
  }
}

}  // namespace
}  // namespace gantry::random_graphs
