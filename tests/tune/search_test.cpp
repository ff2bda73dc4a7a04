#include "host/tune/search.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/tune/small_space.h"

namespace gantry::tune {
namespace {

using testing::Contains;
using testing::IsEmpty;

/// Tells the search of one candidate after the other, without a model; returns the least cost.
double search_for(const Space& space, uint64_t seed, size_t trials) {
  Search search(space, space.proposed.front(), seed);
  double best = made_up_cost(space.proposed.front());
  const double start = best;
  for (size_t i = 0; i < trials; ++i) {
    const std::vector<Decision> pool = search.pool(8);
    if (pool.empty()) break;
    const Decision& tried = pool[i % pool.size()];
    const double cost = made_up_cost(tried);
    search.tell(tried, cost / start);
    if (cost < best) {
      best = cost;
      search.move_to(tried);
    }
  }
  return best;
}

TEST(Search, CandidatesFitAreNewAndComeOnce) {
  const Space space = small_space();
  Search search(space, space.proposed.front(), 1);
  std::set<std::string> seen{to_string(space.proposed.front())};
  for (;;) {
    const std::vector<Decision> pool = search.pool(16);
    if (pool.empty()) break;
    for (const Decision& decision : pool) {
      EXPECT_FALSE(space.misfit(decision)) << to_string(decision);
      EXPECT_TRUE(seen.insert(to_string(decision)).second) << to_string(decision);
      search.tell_failed(decision);
    }
  }
  // 6 blocks by 7 rows and none, without what does not fit; 6 by 6 by 3 of the other form.
  size_t fitting = 6;
  for (const int64_t block : {8, 16, 24, 32, 48, 64}) {
    for (const int64_t rows : {1, 2, 3, 4, 6, 8, 12}) fitting += block * rows <= 256 ? 1 : 0;
  }
  fitting += 6 * 6 * 3;
  EXPECT_GT(seen.size(), fitting * 9 / 10);
  EXPECT_LE(seen.size(), fitting);
}

TEST(Search, BeginsWithWhatFormsPropose) {
  const Space space = small_space();
  Search search(space, space.proposed.front(), 1);
  EXPECT_THAT(search.pool(4), Contains(space.proposed.back()));
}

TEST(Search, TheSameSeedAndOutcomesGiveTheSameCandidates) {
  const Space space = small_space();
  Search a(space, space.proposed.front(), 7), b(space, space.proposed.front(), 7),
      c(space, space.proposed.front(), 8);
  bool differs = false;
  for (int i = 0; i < 5; ++i) {
    const std::vector<Decision> pool = a.pool(12), other = c.pool(12);
    ASSERT_EQ(pool, b.pool(12));
    differs = differs || pool != other;
    for (Search* search : {&a, &b}) search->tell(pool.front(), made_up_cost(pool.front()));
    c.tell(other.front(), made_up_cost(other.front()));
  }
  EXPECT_TRUE(differs);
}

TEST(Search, FindsNearlyTheBestOfAnotherForm) {
  const Space space = small_space();
  for (uint64_t seed = 0; seed < 10; ++seed) EXPECT_LT(search_for(space, seed, 60), 0.80) << seed;
}

TEST(Search, KnobsKeepTheFormsOrderAndDefaultsAreLeftOut) {
  FormKnobs form{"gemm",
                 {{"merged", 1, false, {1, 2}}, {"rows", 0, true, {1, 2}}, {"split", 0, true, {0, 1}}}};
  Decision decision{"gemm", {}};
  decision = with_knob(decision, form, form.knobs[2], 0);
  decision = with_knob(decision, form, form.knobs[0], 2);
  decision = with_knob(decision, form, form.knobs[1], 1);
  EXPECT_EQ(to_string(decision), "{form=gemm, merged=2, rows=1, split=0}");
  decision = with_knob(decision, form, form.knobs[0], 1);
  decision = with_knob(decision, form, form.knobs[2], std::nullopt);
  EXPECT_EQ(to_string(decision), "{form=gemm, rows=1}");
}

TEST(Search, ASpaceOfOneDecisionIsOverAtOnce) {
  Space space;
  space.forms = {{"plain", {}}};
  space.proposed = {{"plain", {}}};
  Search search(space, {"plain", {}}, 0);
  EXPECT_THAT(search.pool(8), IsEmpty());
}

}  // namespace
}  // namespace gantry::tune
