// Ops that read regions and places of images: what they need of sizes that are open, and what they compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/onnx/composed_ops.h"

namespace gantry {
namespace {

using namespace composed_ops;  // NOLINT

TEST(RoiAlign, NeedsDataWhereThereIsARegion) {
  const Graph graph = imported_graph(open_input("x", "N 2 H W") + open_input("r", "M 4") +
                                         open_input("i", "M", 7) + node("RoiAlign", "x r i", "y"),
                                     "y");
  EXPECT_TRUE(takes(graph, {{"N", 1}, {"H", 1}, {"W", 1}, {"M", 3}}));
  EXPECT_TRUE(takes(graph, {{"N", 0}, {"H", 4}, {"W", 4}, {"M", 0}}));
  for (const char* empty : {"N", "H", "W"}) {
    std::map<std::string, int64_t> sizes{{"N", 4}, {"H", 4}, {"W", 4}, {"M", 3}};
    sizes[empty] = 0;
    EXPECT_FALSE(takes(graph, sizes)) << empty;
  }
}

TEST(RoiAlign, NeedsNothingOfDataOfKnownSizes) {
  const Graph graph = imported_graph(open_input("x", "1 2 8 8") + open_input("r", "M 4") +
                                         open_input("i", "M", 7) + node("RoiAlign", "x r i", "y"),
                                     "y");
  EXPECT_TRUE(graph.main.constraints.empty());
}

TEST(MaxRoiPool, NeedsAnImageWhereThereIsARegion) {
  const Graph graph =
      imported_graph(open_input("x", "N 2 H 8") + open_input("r", "M 5") +
                         node("MaxRoiPool", "x r", "y", attribute("pooled_shape", "type: INTS ints: [2, 3]")),
                     "y");
  EXPECT_TRUE(takes(graph, {{"N", 1}, {"H", 0}, {"M", 3}}));
  EXPECT_TRUE(takes(graph, {{"N", 0}, {"H", 4}, {"M", 0}}));
  EXPECT_FALSE(takes(graph, {{"N", 0}, {"H", 4}, {"M", 3}}));
}

TEST(GridSample, NeedsDataWhereThereIsAPosition) {
  const Graph graph = imported_graph(
      open_input("x", "N 2 H W") + open_input("g", "N P Q 2") + node("GridSample", "x g", "y"), "y");
  EXPECT_TRUE(takes(graph, {{"N", 1}, {"H", 1}, {"W", 1}, {"P", 3}, {"Q", 3}}));
  EXPECT_TRUE(takes(graph, {{"N", 1}, {"H", 0}, {"W", 4}, {"P", 0}, {"Q", 3}}));
  for (const char* empty : {"H", "W"}) {
    std::map<std::string, int64_t> sizes{{"N", 1}, {"H", 4}, {"W", 4}, {"P", 3}, {"Q", 3}};
    sizes[empty] = 0;
    EXPECT_FALSE(takes(graph, sizes)) << empty;
  }
}

TEST(Resize, NeedsAnElementForASizeThatIsGiven) {
  const std::string sizes = constants("sizes", {{4}, {1, 2, 5, 8}, DType::kI64});
  const Graph graph =
      imported_graph(open_input("x", "1 2 H 8") + sizes + node("Resize", "x - - sizes", "y"), "y");
  EXPECT_TRUE(takes(graph, {{"H", 1}}));
  EXPECT_FALSE(takes(graph, {{"H", 0}}));
}

/// x (1, 2, H, 8), changed by those nodes to `z`, resized to the shape of `of`.
Graph resized_to_shape(const std::string& nodes, const std::string& of, const std::string& inputs = "") {
  return imported_graph(open_input("x", "1 2 H 8") + inputs + nodes + node("Shape", of, "sizes") +
                            node("Resize", "z - - sizes", "y"),
                        "y");
}

TEST(Resize, NeedsAnElementForASizeOfAnotherTensor) {
  const Graph other = resized_to_shape(node("Identity", "x", "z"), "l", open_input("l", "1 2 L 8"));
  EXPECT_TRUE(takes(other, {{"H", 1}, {"L", 5}}));
  EXPECT_TRUE(takes(other, {{"H", 0}, {"L", 0}}));
  EXPECT_FALSE(takes(other, {{"H", 0}, {"L", 3}}));
  const std::string scales = constants("scales", {{4}, {1, 1, 0.5, 1}});
  const Graph half = resized_to_shape(scales + node("Resize", "x - scales", "z"), "x");
  EXPECT_TRUE(takes(half, {{"H", 0}}) && takes(half, {{"H", 2}}));
  EXPECT_FALSE(takes(half, {{"H", 1}}));
}

TEST(Resize, NeedsNothingMoreWhereASizeMeansThatThereAreElements) {
  const std::string scales = constants("scales", {{4}, {1, 1, 2, 1}});
  EXPECT_TRUE(resized_to_shape(scales + node("Resize", "x - scales", "z"), "x").main.constraints.empty());
  const std::string pairs =
      attribute("kernel_shape", "type: INTS ints: [2, 1]") + attribute("strides", "type: INTS ints: [2, 1]");
  const Graph pooled = resized_to_shape(node("MaxPool", "x", "z", pairs), "x");
  ASSERT_EQ(pooled.main.constraints.size(), 1U) << "that the window fits";
  EXPECT_TRUE(takes(pooled, {{"H", 2}}) && !takes(pooled, {{"H", 1}}));
}

TEST(MaxRoiPool, TakesTheLargestElementOfEachPartOfARegion) {
  const Given data = random({2, 3, 6, 8}, 5);
  // Image, x1, y1, x2, y2; the last one reaches outside, where there is nothing.
  const Values regions{1, 0, 0, 7, 5, 0, 3, 2, 4, 4, 1, 6, 4, 13, 9};
  const Inputs inputs{{"x", data}, {"r", {{3, 5}, regions}}};
  const auto actual =
      results(parse(node("MaxRoiPool", "x r", "y", attribute("pooled_shape", "type: INTS ints: [2, 3]")),
                    inputs, "y", kNewest),
              inputs)[0];
  Values expected;
  for (size_t r = 0; r < 3; ++r) {
    const double* at = &regions[r * 5];
    for (size_t c = 0; c < 3; ++c) {
      for (int64_t py = 0; py < 2; ++py) {
        for (int64_t px = 0; px < 3; ++px) {
          const double height = at[4] - at[2] + 1, width = at[3] - at[1] + 1;
          double top = -1e30;
          for (int64_t y = 0; y < 6; ++y) {
            for (int64_t x = 0; x < 8; ++x) {
              const bool inside =
                  static_cast<double>(y) >= std::floor(static_cast<double>(py) * height / 2) + at[2] &&
                  static_cast<double>(y) < std::ceil(static_cast<double>(py + 1) * height / 2) + at[2] &&
                  static_cast<double>(x) >= std::floor(static_cast<double>(px) * width / 3) + at[1] &&
                  static_cast<double>(x) < std::ceil(static_cast<double>(px + 1) * width / 3) + at[1];
              const auto image = static_cast<size_t>(at[0]);
              const double v =
                  data.values[((image * 3 + c) * 6 + static_cast<size_t>(y)) * 8 + static_cast<size_t>(x)];
              if (inside) top = std::max(top, v);
            }
          }
          expected.push_back(top == -1e30 ? 0 : top);
        }
      }
    }
  }
  expect_near(actual, expected, 0);
}

// By hand: from -0.5 to 3.5 are columns -1 to 4, so that a part has three, of which the first one is outside.
TEST(MaxRoiPool, RoundsHalvesAwayFromZero) {
  Given data{{1, 1, 8, 8}, {}};
  for (int64_t i = 0; i < 64; ++i) data.values.push_back(static_cast<double>(i % 8));
  const Inputs inputs{{"x", data}, {"r", {{1, 5}, {0, -1, 0, 7, 0}}}};
  const std::string attributes =
      attribute("pooled_shape", "type: INTS ints: [1, 2]") + attribute("spatial_scale", "type: FLOAT f: 0.5");
  const std::string pool = node("MaxRoiPool", "x r", "y", attributes);
  expect_near(results(parse(pool, inputs, "y", kNewest), inputs)[0], {1, 4}, 0);
}

}  // namespace
}  // namespace gantry
