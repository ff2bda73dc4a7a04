// Inputs with open dimensions: which sizes converters take of axes that they cut into parts or read a part
// of.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "host/support/error.h"
#include "tests/onnx/composed_ops.h"

namespace gantry {
namespace {

using namespace composed_ops;  // NOLINT

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
  EXPECT_TRUE(takes_only(
      data + open_input("w", "3 6") + open_input("p", "K 1 1 3 2") + node("Attention", "x w - - p", "y", one),
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
        EXPECT_THAT(error.what(), ::testing::HasSubstr(" for y"));
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

}  // namespace
}  // namespace gantry
