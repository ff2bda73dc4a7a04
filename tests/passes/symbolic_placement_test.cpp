#include "host/passes/symbolic_placement.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "host/passes/memory_bound.h"
#include "host/passes/memory_placement.h"

namespace gantry {
namespace {

using Bindings = std::map<std::string, int64_t>;

const Dim kBatch = Dim::symbol("N"), kHeight = Dim::symbol("H"), kWidth = Dim::symbol("W");

/// Bytes of N images of so many channels, each side divided by `stride`.
Dim image(int64_t channels, int64_t stride) {
  return kBatch * ceildiv(kHeight, stride) * ceildiv(kWidth, stride) * channels * 4;
}

void expect_sound(const std::vector<Lifetime<Dim>>& lifetimes, const SymbolicPlacement& placement, const Bindings& sizes) {
  const int64_t all = placement.bytes.evaluate(sizes);
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const int64_t from = placement.offsets[i].evaluate(sizes), to = from + lifetimes[i].bytes.evaluate(sizes);
    EXPECT_EQ(from % kMemoryAlignment, 0);
    EXPECT_GE(from, 0);
    EXPECT_LE(to, all);
    for (size_t j = 0; j < i; ++j) {
      if (!lifetimes[i].meets(lifetimes[j])) continue;
      const int64_t other = placement.offsets[j].evaluate(sizes), end = other + lifetimes[j].bytes.evaluate(sizes);
      EXPECT_TRUE(to <= other || end <= from) << "values " << j << " and " << i << " overlap";
    }
  }
}

/// Bytes of a plan that is made for these sizes alone.
int64_t planned_bytes(const std::vector<Lifetime<Dim>>& lifetimes, const Bindings& sizes) {
  std::vector<Lifetime<int64_t>> known;
  for (const auto& one : lifetimes) known.push_back({one.first, one.last, aligned_bytes(one.bytes).evaluate(sizes)});
  return place_lifetimes(known).bytes;
}

TEST(SymbolicPlacement, NothingTakesNothing) {
  const SymbolicPlacement placement = place_symbolic({});
  EXPECT_TRUE(placement.offsets.empty());
  EXPECT_EQ(placement.bytes, Dim(0));
}

TEST(SymbolicPlacement, RandomLifetimesAreApartAtEverySize) {
  std::mt19937 random(3);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  for (int round = 0; round < 40; ++round) {
    std::vector<Lifetime<Dim>> lifetimes(1 + below(24));
    for (auto& one : lifetimes) {
      one.first = below(20);
      one.last = one.first + below(4);
      const Dim sizes[] = {image(static_cast<int64_t>(1 + below(64)), int64_t{1} << below(6)), kBatch * 12,
                           kHeight * kHeight * kBatch * 4, min(kWidth, 512) * 20, max(kHeight, kWidth) * 4 + 3};
      one.bytes = sizes[below(std::size(sizes))];
    }
    const SymbolicPlacement placement = place_symbolic(lifetimes);
    for (const int64_t batch : {0, 1, 3})
      for (const int64_t height : {0, 1, 17, 224, 1000})
        for (const int64_t width : {0, 1, 64, 333})
          expect_sound(lifetimes, placement, {{"N", batch}, {"H", height}, {"W", width}});
  }
}

// Places that are shared hold the largest of each kind: an eighth more here, where images shrink from layer to layer.
TEST(SymbolicPlacement, AShrinkingNetworkTakesLittleMoreThanWithKnownSizes) {
  std::vector<Lifetime<Dim>> lifetimes;
  size_t step = 0;
  int64_t channels = 16;
  for (int64_t stride = 1; stride <= 32; stride *= 2, channels = channels * 3 / 2) {
    for (const int64_t wider : {1, 4, 1}) {  // a block's expansion
      lifetimes.push_back({step, step + 1, image(channels * wider, stride)});
      ++step;
    }
    lifetimes.push_back({step - 3, step, image(channels, stride)});  // beside the block, to its end
  }
  const SymbolicPlacement placement = place_symbolic(lifetimes);
  for (const int64_t height : {32, 224, 608})  // halves of halves are whole: sizes keep their proportion
    for (const int64_t width : {64, 224, 320}) {
      const Bindings sizes{{"N", 2}, {"H", height}, {"W", width}};
      expect_sound(lifetimes, placement, sizes);
      const auto taken = static_cast<double>(placement.bytes.evaluate(sizes));
      EXPECT_LE(taken, 1.07 * static_cast<double>(planned_bytes(lifetimes, sizes))) << height << " by " << width;
    }
}

}  // namespace
}  // namespace gantry
