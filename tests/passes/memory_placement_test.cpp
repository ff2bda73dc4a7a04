// Where values lie in a planned memory, and how little any plan needs.
#include "host/passes/memory_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "host/passes/memory_bound.h"

namespace gantry {
namespace {

using Lifetimes = std::vector<Lifetime<int64_t>>;

Lifetimes random_lifetimes(std::mt19937& random, size_t count, size_t steps) {
  Lifetimes lifetimes;
  for (size_t i = 0; i < count; ++i) {
    const size_t first = random() % steps, length = random() % 4 == 0 ? random() % steps : random() % 3;
    const auto lines = static_cast<int64_t>(random() % 3 == 0 ? random() % 100 : random() % 10);
    lifetimes.push_back({first, std::min(first + length, steps - 1), 64 * lines});
  }
  return lifetimes;
}

/// Every step with every value.
int64_t most_alive(const Lifetimes& lifetimes) {
  int64_t most = 0;
  for (const auto& at : lifetimes) {
    for (const size_t step : {at.first, at.last}) {
      int64_t sum = 0;
      for (const auto& other : lifetimes) sum += other.first <= step && step <= other.last ? other.bytes : 0;
      most = std::max(most, sum);
    }
  }
  return most;
}

void expect_sound(const Lifetimes& lifetimes, const MemoryPlacement& placement) {
  ASSERT_EQ(placement.offsets.size(), lifetimes.size());
  int64_t end = 0;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    EXPECT_GE(placement.offsets[i], 0);
    EXPECT_EQ(placement.offsets[i] % 64, 0);
    end = std::max(end, placement.offsets[i] + lifetimes[i].bytes);
    for (size_t j = 0; j < i; ++j) {
      if (lifetimes[i].last < lifetimes[j].first || lifetimes[j].last < lifetimes[i].first) continue;
      EXPECT_TRUE(placement.offsets[i] + lifetimes[i].bytes <= placement.offsets[j] ||
                  placement.offsets[j] + lifetimes[j].bytes <= placement.offsets[i])
          << "values " << i << " and " << j << " overlap";
    }
  }
  EXPECT_EQ(placement.bytes, end);
}

/// The least of all: in the order of an optimum's offsets, each value at the lowest place that is free is an
/// optimum, too. All orders are tried.
int64_t least_possible(const Lifetimes& lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t least = std::numeric_limits<int64_t>::max();
  do {
    std::vector<int64_t> offsets(lifetimes.size(), -1);
    int64_t used = 0;
    for (const size_t i : order) {
      int64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t j = 0; j < lifetimes.size(); ++j) {
          if (offsets[j] < 0 || !lifetimes[i].meets(lifetimes[j])) continue;
          if (offset + lifetimes[i].bytes <= offsets[j] || offsets[j] + lifetimes[j].bytes <= offset)
            continue;
          offset = offsets[j] + lifetimes[j].bytes;
          moved = true;
        }
      }
      offsets[i] = offset;
      used = std::max(used, offset + lifetimes[i].bytes);
    }
    least = std::min(least, used);
  } while (std::ranges::next_permutation(order).found);
  return least;
}

TEST(MemoryBound, IsTheLargestSumOfWhatLivesAtAnyStep) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const Lifetimes lifetimes = random_lifetimes(random, random() % 30, 1 + random() % 20);
    std::vector<Lifetime<Dim>> dims;
    for (const auto& lifetime : lifetimes) dims.push_back({lifetime.first, lifetime.last, lifetime.bytes});
    EXPECT_EQ(memory_bound(dims), Dim(most_alive(lifetimes)));
  }
}

TEST(MemoryBound, HoldsForEveryBindingOfSymbolicSizes) {
  std::mt19937 random(6);
  const Dim n = Dim::symbol("N"), t = Dim::symbol("T");
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<Lifetime<Dim>> lifetimes;
    for (const auto& lifetime : random_lifetimes(random, 12, 10)) {
      const Dim scales[] = {1, n, t, n * t};
      lifetimes.push_back(
          {lifetime.first, lifetime.last, aligned_bytes(scales[random() % 4] * lifetime.bytes)});
    }
    const Dim bound = memory_bound(lifetimes);
    for (const int64_t size : {0, 1, 7, 100}) {
      for (const int64_t time : {0, 2, 33}) {
        const std::map<std::string, int64_t> binding{{"N", size}, {"T", time}};
        Lifetimes bound_ones;
        for (const auto& lifetime : lifetimes)
          bound_ones.push_back({lifetime.first, lifetime.last, lifetime.bytes.evaluate(binding)});
        EXPECT_EQ(bound.evaluate(binding), most_alive(bound_ones)) << bound.str();
      }
    }
  }
}

TEST(MemoryBound, LeavesOutSumsThatOthersCover) {
  const Dim n = Dim::symbol("N");
  EXPECT_EQ(memory_bound({{0, 0, n * 64}, {1, 1, n * 128}, {2, 2, 64}}).str(), max(n * 128, Dim(64)).str());
  EXPECT_EQ(memory_bound({}), Dim(0));
}

TEST(PlaceLifetimes, AChainAlternatesBetweenTwoPlaces) {
  const MemoryPlacement placement = place_lifetimes({{0, 1, 640}, {1, 2, 640}, {2, 3, 640}, {3, 4, 640}});
  EXPECT_EQ(placement.bytes, 1280);
  EXPECT_EQ(placement.offsets, (std::vector<int64_t>{0, 640, 0, 640}));
}

TEST(PlaceLifetimes, NothingTakesNothing) {
  EXPECT_EQ(place_lifetimes({}).bytes, 0);
  EXPECT_EQ(place_lifetimes({{0, 3, 0}, {1, 2, 0}}).bytes, 0);
}

TEST(PlaceLifetimes, FewValuesLieAsCloselyAsTheyCan) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 60; ++trial) {
    const Lifetimes lifetimes = random_lifetimes(random, 7, 6);
    const MemoryPlacement placement = place_lifetimes(lifetimes);
    expect_sound(lifetimes, placement);
    EXPECT_EQ(placement.bytes, least_possible(lifetimes)) << "trial " << trial;
  }
}

TEST(PlaceLifetimes, ManyValuesLieCloseToWhatLivesAtOnceAndAlwaysAlike) {
  std::mt19937 random(8);
  for (int trial = 0; trial < 20; ++trial) {
    const Lifetimes lifetimes = random_lifetimes(random, 200, 120);
    const MemoryPlacement placement = place_lifetimes(lifetimes);
    expect_sound(lifetimes, placement);
    EXPECT_GE(placement.bytes, most_alive(lifetimes));
    EXPECT_LE(double(placement.bytes), 1.1 * double(most_alive(lifetimes))) << "trial " << trial;
    EXPECT_EQ(place_lifetimes(lifetimes).offsets, placement.offsets);
  }
}

}  // namespace
}  // namespace gantry
