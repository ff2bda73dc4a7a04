// Ops that read regions and places of images: what they need of sizes that are open, and what they compute.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/onnx/composed_ops.h"

namespace gantry {
namespace {

using namespace composed_ops;  // NOLINT

/// Whether all constraints hold for these sizes.
bool takes(const Graph& graph, const std::map<std::string, int64_t>& sizes) {
  return std::ranges::all_of(graph.main.constraints, [&](const DimConstraint& c) {
    return c.left.evaluate(sizes) == c.right.evaluate(sizes);
  });
}

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

/// Whether of the sizes 1 to 9 of K the graph, whose text has inputs and nodes, takes that one alone; N and M
/// are 3.
bool takes_only(const std::string& text, int64_t size) {
  const Graph graph = imported_graph(text, "y");
  for (int64_t k = 1; k <= 9; ++k) {
    if (takes(graph, {{"N", 3}, {"M", 3}, {"K", k}}) != (k == size)) return false;
  }
  return true;
}

TEST(OpenAxes, OfRegionsBoxesAndPositionsHaveAsManyNumbersAsTheseAreOf) {
  const std::string image = open_input("x", "N 2 8 8"), regions = open_input("r", "M K");
  const std::string images = open_input("i", "M", 7), grid = open_input("g", "N M M K");
  const std::string boxes = open_input("b", "N M K") + open_input("s", "N 2 M");
  const std::string pooled = attribute("pooled_shape", "type: INTS ints: [2, 3]");
  EXPECT_TRUE(takes_only(image + regions + images + node("RoiAlign", "x r i", "y"), 4));
  EXPECT_TRUE(takes_only(image + regions + node("MaxRoiPool", "x r", "y", pooled), 5));
  EXPECT_TRUE(takes_only(image + grid + node("GridSample", "x g", "y"), 2));
  EXPECT_TRUE(takes_only(boxes + node("NonMaxSuppression", "b s", "y"), 4));
}

TEST(OpenAxes, OfDataThatAreCutIntoPartsHaveThoseAlone) {
  const std::string pairs = open_input("a", "N K") + open_input("b", "N 2");
  for (const char* op : {"ComplexMul", "ComplexMulConj"})
    EXPECT_TRUE(takes_only(pairs + node(op, "a b", "y", kMicrosoft), 2)) << op;
  const std::string images = "initializer { name: 's' data_type: 7 dims: 4 int64_data: [3, 2, 4, 5] } ";
  EXPECT_TRUE(takes_only(open_input("t", "N 2 K") + images + node("AffineGrid", "t s", "y"), 3));
  EXPECT_TRUE(takes_only(open_input("t", "N K 3") + images + node("AffineGrid", "t s", "y"), 2));
  const std::string boxes = open_input("x", "N 2 8 8") + open_input("b", "M K") + open_input("i", "M", 6);
  const std::string crops = "initializer { name: 's' data_type: 6 dims: 2 int32_data: [2, 3] } ";
  EXPECT_TRUE(takes_only(boxes + crops + node("CropAndResize", "x b i s", "y", kMicrosoft), 4));
}

TEST(OpenAxes, OfBiasesAndPeepholesHaveAnElementForEachGate) {
  const std::string x = open_input("x", "3 2 2"), vectors = open_input("b", "1 K"),
                    clip = attribute("clip", "type: FLOAT f: 3");
  const auto layer = [&](int64_t gates, int64_t hidden) {
    return x + open_input("w", fmt::format("1 {} 2", gates * hidden)) +
           open_input("r", fmt::format("1 {} {}", gates * hidden, hidden));
  };
  for (const std::string& rest : {std::string(), clip}) {
    EXPECT_TRUE(takes_only(layer(1, 3) + vectors + node("RNN", "x w r b", "y", rest), 6)) << rest;
    EXPECT_TRUE(takes_only(layer(4, 1) + vectors + node("LSTM", "x w r b", "y", rest), 8)) << rest;
    EXPECT_TRUE(takes_only(layer(4, 2) + vectors + node("LSTM", "x w r - - - - b", "y", rest), 6)) << rest;
    for (const int64_t after : {0, 1}) {
      const std::string reset = rest + integer("linear_before_reset", after);
      EXPECT_TRUE(takes_only(layer(3, 1) + vectors + node("GRU", "x w r b", "y", reset), 6)) << reset;
    }
  }
}

TEST(OpenAxes, OfAttentionsOperandsHaveTheirQueriesKeysAndValues) {
  const std::string one = kMicrosoft + integer("num_heads", 1), two = kMicrosoft + integer("num_heads", 2);
  const std::string packed = "1 2 2 K 4", query = open_input("q", "1 2 2"), bias = open_input("b", "K");
  EXPECT_TRUE(takes_only(open_input("q", packed) + node("MultiHeadAttention", "q", "y", two), 3));
  EXPECT_TRUE(takes_only(
      open_input("q", "1 2 8") + open_input("k", packed) + node("MultiHeadAttention", "q k", "y", two), 2));
  for (const char* shape : {"1 2 2", "1 1 2 2"}) {
    const std::string inputs = query + open_input("k", shape) + open_input("v", shape) + bias;
    EXPECT_TRUE(takes_only(inputs + node("MultiHeadAttention", "q k v b", "y", one), 6)) << shape;
  }
  const std::string sizes = one + attribute("qkv_hidden_sizes", "type: INTS ints: [2, 2, 3]");
  const std::string data = open_input("x", "1 2 3");
  EXPECT_TRUE(takes_only(data + open_input("w", "3 K") + node("Attention", "x w", "y", sizes), 7));
  EXPECT_TRUE(takes_only(data + open_input("w", "3 6") + open_input("p", "K 1 1 3 2") +
                             node("Attention", "x w - - p", "y", one),
                         2));
}

/// Elements of the one output of a graph with open dimensions.
Values computed(const Graph& graph, const Inputs& inputs) {
  std::vector<ConstantPtr> data;
  for (const auto& [name, given] : inputs) data.push_back(given.constant());
  const ConstantPtr y = testing::interpret_function(graph.main, data).at(0);
  return {y->as<float>(), y->as<float>() + y->size / sizeof(float)};
}

struct OpenOperand {
  std::string op, rest;  ///< of a node that reads all inputs
  Inputs inputs;
  size_t behind;  ///< dimensions of the last input behind the one that is open
  std::vector<int64_t> too_few;
};

TEST(OpenAxes, AreReadWhereTheirSizesFitAndElseRefusedUnderTheNodesName) {
  const Given packed = random({1, 3, 2, 3, 4}, 1);
  const OpenOperand operands[] = {
      {"LSTM",
       "",
       {{"x", random({3, 2, 2}, 1)},
        {"w", random({1, 8, 2}, 2)},
        {"r", random({1, 8, 2}, 3)},
        {"b", random({1, 16}, 4)}},
       0,
       {1, 8, 15}},
      {"MultiHeadAttention", kMicrosoft + integer("num_heads", 2), {{"q", packed}}, 1, {1, 2}},
      {"RotaryEmbedding",
       integer("rotary_embedding_dim", 4),
       {{"c", random({3, 2}, 2)}, {"s", random({3, 2}, 3)}, {"x", random({1, 2, 3, 6}, 1)}},
       0,
       {1, 3}},
  };
  for (const OpenOperand& each : operands) {
    SCOPED_TRACE(each.op);
    std::string declared;
    for (const auto& [name, given] : each.inputs) {
      std::vector<std::string> dims;
      for (const int64_t size : given.shape) dims.push_back(std::to_string(size));
      if (name == each.inputs.back().first) dims.at(dims.size() - 1 - each.behind) = "K";
      declared += open_input(name, fmt::format("{}", fmt::join(dims, " ")));
    }
    const std::string names = each.op == "LSTM" ? "x w r b" : each.op == "RotaryEmbedding" ? "x c s" : "q";
    const std::string made = node(each.op, names, "y", each.rest);
    const Graph graph = imported_graph(declared + made, "y");
    expect_near(computed(graph, each.inputs), results(parse(made, each.inputs, "y", kNewest), each.inputs)[0],
                1e-6);
    for (const int64_t size : each.too_few) {
      Inputs inputs = each.inputs;
      std::vector<int64_t> shape = inputs.back().second.shape;
      shape.at(shape.size() - 1 - each.behind) = size;
      inputs.back().second = random(shape, 5);
      try {
        computed(graph, inputs);
        ADD_FAILURE() << "takes " << size;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr(each.op + "_y"));
      }
    }
  }
}

TEST(OpenAxes, OfWhichNoMoreThanThereIsIsTakenMayBeOfAnySize) {
  const std::string size = "initializer { name: 's' data_type: 7 dims: 2 int64_data: [4, 5] } ";
  const Graph graph = imported_graph(open_input("x", "M K") + size + node("CenterCropPad", "x s", "y"), "y");
  EXPECT_TRUE(graph.main.constraints.empty());
  const Graph one_sided =
      imported_graph(open_input("x", "N K 1") + node("DFT", "x", "y", integer("onesided", 1)), "y");
  for (const int64_t k : {0, 1, 2, 5}) EXPECT_EQ(takes(one_sided, {{"N", 3}, {"K", k}}), k > 0) << k;
}

TEST(RestorePadding, HasNoMoreTokensThanPlaces) {
  const Graph graph = imported_graph(
      open_input("x", "K 2") + open_input("p", "M 4", 6) + node("RestorePadding", "x p", "y", kMicrosoft),
      "y");
  for (const int64_t k : {0, 1, 11, 12, 13}) EXPECT_EQ(takes(graph, {{"M", 3}, {"K", k}}), k <= 12) << k;
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
