// Composed ops whose dimensions are symbols: what they infer, and what they compute for sizes that are given
// later.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT

std::vector<std::string> output_types(const Graph& graph) {
  std::vector<std::string> types;
  for (const Value* output : graph.main.outputs) types.push_back(output->type.str());
  return types;
}

/// Whether all constraints hold for these sizes.
bool hold(const Graph& graph, const std::map<std::string, int64_t>& sizes) {
  return std::ranges::all_of(graph.main.constraints, [&](const DimConstraint& c) {
    return c.left.evaluate(sizes) == c.right.evaluate(sizes);
  });
}
/// The same where N is `n`.
bool holds(const Graph& graph, int64_t n) {
  return hold(graph, {{"N", n}});
}

TEST(SymbolicAttention, APastOfAnyLengthGrowsByTheQueries) {
  const Graph graph = imported_graph(
      open_input("q", "B L 32") + open_input("k", "B L 16") + open_input("v", "B L 16") +
          open_input("pk", "B 2 P 8") + open_input("pv", "B 2 P 8") +
          node("Attention", "q k v - pk pv", "y nk nv",
               integer("q_num_heads", 4) + integer("kv_num_heads", 2) + integer("is_causal", 1)),
      "y nk nv");
  EXPECT_THAT(output_types(graph),
              ::testing::ElementsAre("Tensor[(B, L, 32), f32]", "Tensor[(B, 2, L+P, 8), f32]",
                                     "Tensor[(B, 2, L+P, 8), f32]"));
}

/// An Attention of one query, whose mask (1, M) is of as many keys as the run says.
Graph masked_attention(const std::string& keys) {
  const std::string data = "1 1 " + keys + " 1";
  return imported_graph(open_input("q", "1 1 1 1") + open_input("k", data) + open_input("v", data) +
                            open_input("m", "1 M", 9) + node("Attention", "q k v m", "y"),
                        "y");
}

TEST(SymbolicAttention, AMaskIsOfNoMoreKeysThanThereAre) {
  const Graph of_three = masked_attention("3"), of_any = masked_attention("S");
  for (const int64_t size : {1, 2, 3, 4}) {
    EXPECT_EQ(hold(of_three, {{"M", size}}), size <= 3) << size;
    for (const int64_t keys : {1, 2, 3}) {
      EXPECT_EQ(hold(of_any, {{"M", size}, {"S", keys}}), size <= keys) << size << " of " << keys;
    }
  }
}

// Equal scores, so that the result is the mean of the values that are attended.
TEST(SymbolicAttention, KeysThatAMaskDoesNotReachAreNotAttended) {
  const float zeros[] = {0, 0, 0}, values[] = {1, 3, 8};
  const bool all[] = {true, true, true};
  const ConstantPtr query = make_constant({DType::kF32, {1, 1, 1, 1}}, zeros),
                    key = make_constant({DType::kF32, {1, 1, 3, 1}}, zeros),
                    value = make_constant({DType::kF32, {1, 1, 3, 1}}, values);
  const std::pair<int64_t, float> means[] = {{1, 1}, {2, 2}, {3, 4}};
  for (const char* keys : {"3", "S"}) {
    const Graph graph = masked_attention(keys);
    for (const auto& [size, mean] : means) {
      const ConstantPtr mask = make_constant({DType::kBool, {1, size}}, all);
      const ConstantPtr y = testing::interpret_function(graph.main, {query, key, value, mask}).at(0);
      EXPECT_FLOAT_EQ(*y->as<float>(), mean) << size << " of " << keys;
    }
  }
}

TEST(SymbolicLinearAttention, TakesAnyNumberOfSteps) {
  const Graph graph =
      imported_graph(open_input("q", "B T 12") + open_input("k", "B T 12") + open_input("v", "B T 6") +
                         node("LinearAttention", "q k v", "y state",
                              integer("q_num_heads", 3) + integer("kv_num_heads", 3) +
                                  attribute("update_rule", "type: STRING s: 'linear'")),
                     "y state");
  EXPECT_THAT(output_types(graph),
              ::testing::ElementsAre("Tensor[(B, T, 6), f32]", "Tensor[(B, 3, 4, 2), f32]"));
}

TEST(SymbolicGridSample, TakesImagesAndGridsOfAnySize) {
  const Graph graph = imported_graph(
      open_input("x", "N 3 H W") + open_input("grid", "N P Q 2") + node("GridSample", "x grid", "y"), "y");
  EXPECT_THAT(output_types(graph), ::testing::ElementsAre("Tensor[(N, 3, P, Q), f32]"));
}

// Two taps of ones, a step of two: each element twice. Of four there is one too many at each side.
TEST(SymbolicConvTranspose, HasZerosAtTheEndWhereItsShapeIsLargerThanItsWindowsReach) {
  const std::string weight = "initializer { name: 'w' data_type: 1 dims: [1, 1, 2] float_data: [1, 1] } ";
  const Graph graph = imported_graph(open_input("x", "1 1 W") + weight +
                                         node("ConvTranspose", "x w", "y",
                                              attribute("strides", "type: INTS ints: [2]") +
                                                  attribute("output_shape", "type: INTS ints: [6]")),
                                     "y");
  const std::pair<std::vector<double>, std::vector<float>> cases[] = {
      {{1, 2}, {1, 1, 2, 2, 0, 0}}, {{1, 2, 3}, {1, 1, 2, 2, 3, 3}}, {{1, 2, 3, 4}, {1, 2, 2, 3, 3, 4}}};
  for (const auto& [x, expected] : cases) {
    const Given given{{1, 1, static_cast<int64_t>(x.size())}, x};
    const ConstantPtr y = testing::interpret_function(graph.main, {given.constant()}).at(0);
    ASSERT_EQ(y->type.shape, (Shape{1, 1, 6}));
    const std::vector<float> actual(y->as<float>(), y->as<float>() + 6);
    EXPECT_THAT(actual, ::testing::ElementsAreArray(expected));
  }
}

TEST(SymbolicLoss, IsOneNumberOfAnyNumberOfTargets) {
  const Graph graph = imported_graph(
      open_input("x", "N 5 D") + open_input("t", "N D", 7) + node("SoftmaxCrossEntropyLoss", "x t", "y p"),
      "y p");
  EXPECT_THAT(output_types(graph), ::testing::ElementsAre("Tensor[(), f32]", "Tensor[(N, 5, D), f32]"));
}

TEST(SymbolicRotation, PositionsOfAnyLengthAreLookedUp) {
  const Graph graph = imported_graph(open_input("x", "B L 32") + open_input("c", "64 4") +
                                         open_input("s", "64 4") + open_input("p", "B L", 7) +
                                         node("RotaryEmbedding", "x c s p", "y", integer("num_heads", 4)),
                                     "y");
  EXPECT_THAT(output_types(graph), ::testing::ElementsAre("Tensor[(B, L, 32), f32]"));
}

TEST(SymbolicEinsum, ADiagonalNeedsAsManyRowsAsColumns) {
  const Graph graph =
      imported_graph(open_input("x", "B N M") +
                         node("Einsum", "x", "y", attribute("equation", "type: STRING s: '...ii->...i'")),
                     "y");
  EXPECT_THAT(output_types(graph), ::testing::ElementsAre("Tensor[(B, N), f32]"));
  for (const int64_t n : {0, 1, 3}) {
    for (const int64_t m : {0, 1, 3}) EXPECT_EQ(hold(graph, {{"N", n}, {"M", m}}), n == m) << n << " " << m;
  }
}

TEST(SymbolicEinsum, ADiagonalOfASquareIsThereForAllSizes) {
  const Graph graph =
      imported_graph(open_input("x", "B N N") +
                         node("Einsum", "x", "y", attribute("equation", "type: STRING s: '...ii->...i'")),
                     "y");
  EXPECT_TRUE(graph.main.constraints.empty());
}

TEST(SymbolicScatter, HasNoMoreIndicesThanElementsBesideItsAxis) {
  const Graph graph =
      imported_graph(open_input("x", "N T 4") + open_input("i", "M L 4", 7) + open_input("u", "M L 4") +
                         node("ScatterElements", "x i u", "y", integer("axis", 1)),
                     "y");
  EXPECT_THAT(output_types(graph), ::testing::ElementsAre("Tensor[(N, T, 4), f32]"));
  ASSERT_EQ(graph.main.constraints.size(), 1U);
  const auto& [left, right, origin] = graph.main.constraints.front();
  for (const int64_t m : {0, 2, 3, 4}) {
    const std::map<std::string, int64_t> sizes{{"N", 3}, {"M", m}};
    EXPECT_EQ(left.evaluate(sizes) == right.evaluate(sizes), m <= 3) << m;
  }
}

struct Gathering {
  const char *op, *data, *indices;
  int64_t axis = 0;

  Graph graph() const {
    const std::string along = std::string(op) == "GatherND" ? "" : integer("axis", axis);
    return imported_graph(open_input("x", data) + open_input("i", indices, 7) + node(op, "x i", "y", along),
                          "y");
  }
};

TEST(SymbolicGather, NeedsAnElementForAnIndex) {
  const Gathering some[] = {{"Gather", "N 4", ""},
                            {"Gather", "4 N", "2 3", 1},
                            {"GatherElements", "N 4", "2 4"},
                            {"GatherND", "5 N", "3 2"}};
  for (const Gathering& each : some) {
    EXPECT_TRUE(holds(each.graph(), 1)) << each.op;
    EXPECT_FALSE(holds(each.graph(), 0)) << each.op;
  }
  const Graph open = Gathering{"Gather", "N 4", "M"}.graph();
  EXPECT_FALSE(hold(open, {{"N", 0}, {"M", 2}}));
  EXPECT_TRUE(hold(open, {{"N", 0}, {"M", 0}})) << "nothing is read";
  EXPECT_TRUE(hold(open, {{"N", 1}, {"M", 2}}));
}

TEST(SymbolicPieces, SayNothingOfTheSignalThatAlwaysHolds) {
  const std::string size = "initializer { name: 'size' data_type: 7 int64_data: 8 } ",
                    step = "initializer { name: 'step' data_type: 7 int64_data: 3 } ";
  const Graph transformed =
      imported_graph(open_input("x", "1 L 1") + size + step + node("STFT", "x step - size", "y"), "y");
  EXPECT_TRUE(transformed.main.constraints.empty());
  const std::string pieces = "domain: 'com.microsoft' " + integer("size", 8) + integer("step", 3);
  const Graph unfolded = imported_graph(open_input("x", "1 L") + node("UnfoldTensor", "x", "y", pieces), "y");
  EXPECT_TRUE(unfolded.main.constraints.empty());
}

TEST(SymbolicGather, NeedsNothingWhereThereIsOne) {
  const Gathering some[] = {{"Gather", "30 4", "N M"}, {"Gather", "N 4", "N M"}};
  for (const Gathering& each : some) EXPECT_TRUE(each.graph().main.constraints.empty()) << each.data;
}

TEST(SymbolicGather, HasNoMoreIndicesThanElementsBesideItsAxis) {
  const Graph graph = Gathering{"GatherElements", "N 4", "M 4", 1}.graph();
  for (const int64_t m : {0, 2, 3, 4}) EXPECT_EQ(hold(graph, {{"N", 3}, {"M", m}}), m <= 3) << m;
}

TEST(SymbolicReverse, EachSequenceIsTurnedAroundWithinItsLength) {
  const Graph graph = imported_graph(
      open_input("x", "T B") + open_input("n", "B", 7) +
          node("ReverseSequence", "x n", "y", integer("time_axis", 0) + integer("batch_axis", 1)),
      "y");
  EXPECT_THAT(output_types(graph), ::testing::ElementsAre("Tensor[(T, B), f32]"));
}

// As exporters pad by a difference that is nothing. Nothing is computed of it when it is read: N is unknown.
TEST(SymbolicConstantOfShape, HasNoElementsWhereAnotherDimensionIsZero) {
  const Graph graph = imported_graph(
      open_input("x", "N 3 1") + node("Shape", "x", "n", integer("end", 1)) +
          node("Constant", "", "rest", attribute("value_ints", "type: INTS ints: 0 ints: 1")) +
          node("Concat", "n rest", "shape", integer("axis", 0)) + node("ConstantOfShape", "shape", "none") +
          node("Constant", "", "two", attribute("value_float", "type: FLOAT f: 2")) +
          node("Mul", "none two", "still") + node("Concat", "x still", "y", integer("axis", 1)),
      "still y");
  EXPECT_THAT(output_types(graph),
              ::testing::ElementsAre("Tensor[(N, 0, 1), f32]", "Tensor[(N, 3, 1), f32]"));
}

std::string integers(const std::string& name, const std::string& elements) {
  std::string text = "type: INTS ";
  std::istringstream words(elements);
  for (std::string word; words >> word;) text += "ints: " + word + " ";
  return node("Constant", "", name, attribute("value_ints", text));
}

/// The first output's shape where N is `n`.
std::vector<int64_t> sizes(const Graph& graph, int64_t n) {
  std::vector<int64_t> extents;
  for (const Dim& dim : graph.main.outputs[0]->type.shape) extents.push_back(dim.evaluate({{"N", n}}));
  return extents;
}

// As PyTorch's exporter writes pad(x, (0, 0, 0, -N % 4)): pairs from the last axis on, turned around as a
// matrix.
TEST(SymbolicPad, FillsUpToAMultipleByAmountsThatExportersTurnAround) {
  const Graph graph = imported_graph(
      open_input("x", "N 3") + node("Shape", "x", "n", integer("end", 1)) + integers("four", "4") +
          node("Neg", "n", "minus") + node("Mod", "minus four", "amount") + integers("none", "0 0 0") +
          node("Concat", "none amount", "pairs", integer("axis", 0)) + integers("two_columns", "-1 2") +
          node("Reshape", "pairs two_columns", "rows") + integers("last", "-1") +
          integers("before_all", "-9223372036854775807") + integers("axis", "0") +
          node("Slice", "rows last before_all axis last", "turned") +
          node("Transpose", "turned", "columns", attribute("perm", "type: INTS ints: 1 ints: 0")) +
          node("Reshape", "columns last", "list") + node("Cast", "list", "pads", integer("to", 7)) +
          node("Pad", "x pads", "y"),
      "y");
  EXPECT_EQ(graph.main.nodes().size(), 1U);
  const std::vector<std::pair<int64_t, int64_t>> rows = {{1, 4}, {4, 4}, {5, 8}, {7, 8}, {8, 8}};
  for (const auto& [n, filled] : rows) EXPECT_THAT(sizes(graph, n), ::testing::ElementsAre(filled, 3)) << n;
}

TEST(SymbolicPad, NeedsWhatItCopies) {
  const auto padded = [](const char* mode, const char* pads) {
    return imported_graph(
        open_input("x", "2 N") + integers("pads", pads) +
            node("Pad", "x pads", "y", attribute("mode", fmt::format("type: STRING s: '{}'", mode))),
        "y");
  };
  for (const char* pads : {"0 3 0 3", "0 3 0 0", "0 0 0 3"}) {
    EXPECT_TRUE(holds(padded("reflect", pads), 4)) << pads;
    EXPECT_FALSE(holds(padded("reflect", pads), 3)) << pads;
    for (const char* mode : {"edge", "wrap"}) {
      EXPECT_TRUE(holds(padded(mode, pads), 1)) << mode << " " << pads;
      EXPECT_FALSE(holds(padded(mode, pads), 0)) << mode << " " << pads;
    }
  }
  EXPECT_TRUE(padded("constant", "0 3 0 3").main.constraints.empty());
  EXPECT_TRUE(padded("reflect", "1 -1 0 -2").main.constraints.empty()) << "what is cut is not copied";
}

TEST(SymbolicSplit, IntoEqualPartsNeedsAMultipleOfTheirNumber) {
  const auto graph = [](int64_t opset, const std::string& rest) {
    const std::string opsets = fmt::format("opset_import {{ version: {} }} ", opset);
    const auto proto = parse(open_input("x", "N 4") + node("Split", "x", "y z", rest), {}, "y z", opsets);
    return import_onnx_bytes(proto.SerializeAsString(), ".");
  };
  const Graph equal = graph(13, "");
  EXPECT_EQ(equal.main.outputs[0]->type, equal.main.outputs[1]->type);
  EXPECT_TRUE(holds(equal, 6));
  EXPECT_FALSE(holds(equal, 5));
  EXPECT_TRUE(holds(graph(18, integer("num_outputs", 2)), 5)) << "the last part may be smaller";
}

// What is left behind each part, in the place of where it ends, would be twice as long each time.
TEST(SymbolicSplit, SaysOfEachOfManyUnevenPartsInFewWordsHowLargeItIs) {
  constexpr int64_t kParts = 40;
  std::string parts;
  for (int64_t i = 0; i < kParts; ++i) parts += fmt::format("y{} ", i);
  const Graph graph = imported_graph(
      open_input("x", "N 4") + node("Split", "x", parts, integer("num_outputs", kParts)), parts);
  EXPECT_TRUE(graph.main.constraints.empty());
  ASSERT_EQ(graph.main.outputs.size(), static_cast<size_t>(kParts));
  for (const Value* output : graph.main.outputs) EXPECT_LT(output->type.shape[0].str().size(), 200U);
  for (const int64_t n : {0, 1, 5, 39, 40, 41, 83, 400}) {
    // As ONNX has it: the rows are shared out by as many as the first part has, until there are none.
    int64_t left = n;
    for (const Value* output : graph.main.outputs) {
      const int64_t part = std::min((n + kParts - 1) / kParts, left);
      EXPECT_EQ(output->type.shape[0].evaluate({{"N", n}}), part) << output->name << " of " << n;
      left -= part;
    }
  }
}

TEST(SymbolicBlocks, NeedExtentsThatDivideIntoThem) {
  const auto graph = [](const char* op) {
    return imported_graph(open_input("x", "1 C H W") + node(op, "x", "y", integer("blocksize", 2)), "y");
  };
  const auto to_depth = [&](int64_t height, int64_t width) {
    return hold(graph("SpaceToDepth"), {{"C", 3}, {"H", height}, {"W", width}});
  };
  EXPECT_TRUE(to_depth(4, 6));
  EXPECT_FALSE(to_depth(3, 6));
  EXPECT_FALSE(to_depth(4, 5));
  const auto to_space = [&](int64_t channels) {
    return hold(graph("DepthToSpace"), {{"C", channels}, {"H", 3}, {"W", 5}});
  };
  EXPECT_TRUE(to_space(8));
  EXPECT_FALSE(to_space(6));
}

// repeat_interleave(x, N, 0) of PyTorch's exporter.
TEST(SymbolicTile, RepeatsAnAxisThatAOneHotNames) {
  const Graph graph = imported_graph(
      open_input("x", "1 1 5") + open_input("like", "N") + node("Shape", "like", "n") + integers("one", "1") +
          node("Constant", "", "depth", attribute("value_int", "type: INT i: 3")) +
          node("Concat", "one n", "values", integer("axis", 0)) +
          node("OneHot", "one depth values", "hot", integer("axis", 1)) + integers("all", "-1") +
          node("Reshape", "hot all", "repeats") + node("Tile", "x repeats", "y"),
      "y");
  EXPECT_EQ(graph.main.nodes().size(), 1U);
  EXPECT_THAT(sizes(graph, 7), ::testing::ElementsAre(1, 7, 5));
}

// With fmod the remainder has the sign of the dividend, -2 here: amounts below 0 cut.
TEST(SymbolicPad, CutsByATruncatedRemainder) {
  const Given x = random({6}, 1);
  const Inputs inputs = {{"x", x}};
  const std::string nodes = node("Shape", "x", "n") + integers("four", "4") + node("Neg", "n", "minus") +
                            node("Mod", "minus four", "amount", integer("fmod", 1)) + integers("none", "0") +
                            node("Concat", "none amount", "pads", integer("axis", 0)) +
                            node("Pad", "x pads", "y");
  const auto actual = results(parse(nodes, inputs, "y", kNewest), inputs);
  expect_near(actual.at(0), {x.values.begin(), x.values.begin() + 4}, 0);
}

// What is known of a matrix is the same when it is read as data.
TEST(SymbolicContents, OfAMatrixAreItsRows) {
  const Inputs inputs = {{"x", random({2, 3, 4, 5}, 1)}};
  const std::string nodes =
      node("Shape", "x", "s") + integers("rows", "2 2") + node("Reshape", "s rows", "m") +
      node("Transpose", "m", "turned") + integers("one", "1") + integers("two", "2") +
      node("Slice", "turned one two one", "right") + node("Neg", "right", "less") +
      node("Cast", "turned", "y", integer("to", 1)) + node("Cast", "less", "z", integer("to", 1));
  const auto actual = results(parse(nodes, inputs, "y z", kNewest), inputs);
  EXPECT_THAT(actual.at(0), ::testing::ElementsAre(2, 4, 3, 5));
  EXPECT_THAT(actual.at(1), ::testing::ElementsAre(-4, -5));
}

TEST(SymbolicContents, OfAOneHotLieAlongItsAxis) {
  const Inputs inputs = {{"x", random({7, 9}, 1)}};
  const std::string nodes = node("Shape", "x", "values") + integers("labels", "2 -1 0") +
                            node("Constant", "", "depth", attribute("value_int", "type: INT i: 3")) +
                            node("OneHot", "labels depth values", "first", integer("axis", 0)) +
                            node("OneHot", "labels depth values", "last") +
                            node("Cast", "first", "y", integer("to", 1)) +
                            node("Cast", "last", "z", integer("to", 1));
  const auto actual = results(parse(nodes, inputs, "y z", kNewest), inputs);
  EXPECT_THAT(actual.at(0), ::testing::ElementsAre(7, 7, 9, 7, 7, 7, 9, 9, 7));
  EXPECT_THAT(actual.at(1), ::testing::ElementsAre(7, 7, 9, 7, 7, 9, 9, 7, 7));
}

/// The elements of `name`, a tensor of i64, that these nodes compute of constants.
std::vector<double> computed(const std::string& nodes, const std::string& name) {
  return results(parse(nodes, {}, name, kNewest), {}).at(0);
}

TEST(KnownNumbers, WrapAroundAsTheirTypesDo) {
  const std::string narrow = integer("to", 6), wide = integer("to", 7);
  const std::string low = integers("long", "4294967301 -4294967297") + node("Cast", "long", "short", narrow) +
                          node("Cast", "short", "low", wide);
  EXPECT_THAT(computed(low, "low"), ::testing::ElementsAre(5, -1));

  const std::string numbers = integers("most", "2147483647 65536 -2147483647") + integers("two", "2") +
                              node("Cast", "most", "a", narrow) + node("Cast", "two", "b", narrow);
  const auto of_i32 = [&](const char* op) {
    return computed(numbers + node(op, "a b", "c") + node("Cast", "c", "d", wide), "d");
  };
  EXPECT_THAT(of_i32("Add"), ::testing::ElementsAre(-2147483647, 65538, -2147483645));
  EXPECT_THAT(of_i32("Sub"), ::testing::ElementsAre(2147483645, 65534, 2147483647));
  EXPECT_THAT(of_i32("Mul"), ::testing::ElementsAre(-2, 131072, 2));
  const std::string sign = numbers + node("Add", "a b", "c") + node("Sub", "b b", "zero") +
                           node("Less", "c zero", "is_below") + node("Cast", "is_below", "d", wide);
  EXPECT_THAT(computed(sign, "d"), ::testing::ElementsAre(1, 0, 1));
}

TEST(KnownNumbers, OfTheWidestTypeMayBeItsLast) {
  const double largest = 0x1p63, least = -0x1p63;  // as doubles
  const std::string numbers =
      integers("a", "9223372036854775807 -9223372036854775808") + integers("one", "1");
  EXPECT_THAT(computed(numbers + node("Add", "a one", "y"), "y"), ::testing::ElementsAre(least, least));
  EXPECT_THAT(computed(numbers + node("Sub", "a one", "y"), "y"), ::testing::ElementsAre(largest, largest));
  EXPECT_THAT(computed(numbers + node("Mul", "a a", "y"), "y"), ::testing::ElementsAre(1, 0));
  EXPECT_THAT(computed(numbers + node("Neg", "a", "y"), "y"), ::testing::ElementsAre(least, least));
  EXPECT_THAT(computed(numbers + node("Max", "a one", "y"), "y"), ::testing::ElementsAre(largest, 1));
  EXPECT_THAT(computed(numbers + node("ReduceSum", "a", "y"), "y"), ::testing::ElementsAre(-1));
  for (const char* op : {"Less", "Equal"}) {
    const std::string nodes = numbers + node(op, "a one", "c") + node("Cast", "c", "y", integer("to", 7));
    const double is_less = std::string(op) == "Less" ? 1 : 0;
    EXPECT_THAT(computed(nodes, "y"), ::testing::ElementsAre(0, is_less)) << op;
  }
}

TEST(SymbolicContents, AreComparedWithTheEndsOfTheirType) {
  const std::string values = open_input("x", "N 3") + node("Shape", "x", "n", integer("end", 1)) +
                             integers("least", "-9223372036854775808") +
                             integers("most", "9223372036854775807") + integers("one", "1") +
                             node("Sub", "n one", "less");
  const auto size_by = [&](const std::string& nodes) {
    const Graph graph = imported_graph(values + nodes + node("ConstantOfShape", "size", "y"), "y");
    return graph.main.outputs[0]->type.shape;
  };
  const Dim n = Dim::symbol("N");
  EXPECT_EQ(size_by(node("Max", "n least", "size")), Shape{n});
  EXPECT_EQ(size_by(node("Min", "most n", "size")), Shape{n});
  EXPECT_EQ(size_by(node("Min", "less most", "clamped") + node("Add", "clamped one", "size")), Shape{n});
  const std::string both = node("Concat", "least n", "both", integer("axis", 0));
  EXPECT_EQ(size_by(both + node("ReduceMax", "both", "size")), Shape{n});
  const auto chosen = [&](const char* op, const char* inputs) {
    return size_by(node(op, inputs, "c") + node("Where", "c n one", "size"));
  };
  EXPECT_EQ(chosen("Greater", "n least"), Shape{n});
  EXPECT_EQ(chosen("Less", "n least"), Shape{1});
  EXPECT_EQ(chosen("Equal", "n least"), Shape{1});
}

// What is known of d, a size, is a symbol. Results of i64 are beside its ends, and come back from there.
TEST(SymbolicContents, OfSizesAndNumbersBeyondThemWrapAround) {
  const Inputs inputs{{"d", {{1}, {2}, DType::kI64}}};
  const std::string values =
      node("ConstantOfShape", "d", "zeros") + integers("least", "-9223372036854775808") +
      integers("most", "9223372036854775807") + integers("half", "4611686018427387904");
  const auto computed = [&](const std::string& nodes) {
    return results(parse(values + nodes, inputs, "zeros y", kNewest), inputs).at(1);
  };
  const auto twice = [&](const char* op, const char* number, const char* back) {
    return computed(node(op, fmt::format("d {}", number), "far") +
                    node(back, fmt::format("far {}", number), "y"));
  };
  EXPECT_THAT(twice("Sub", "least", "Sub"), ::testing::ElementsAre(2));
  EXPECT_THAT(twice("Add", "most", "Sub"), ::testing::ElementsAre(2));
  EXPECT_THAT(computed(node("Mul", "d half", "y")), ::testing::ElementsAre(-0x1p63));
  EXPECT_THAT(computed(node("Concat", "d least", "both", integer("axis", 0)) +
                       node("ReduceSum", "both", "far") + node("Sub", "far least", "y")),
              ::testing::ElementsAre(2));
}

// Of a reduction without axes that is told to do nothing then.
TEST(SymbolicContents, StayWhereNothingIsReduced) {
  const Inputs inputs = {{"x", random({2, 3}, 1)}};
  const std::string noop = integer("noop_with_empty_axes", 1) + integer("keepdims", 0);
  const std::string nodes =
      node("Shape", "x", "s") + node("ReduceSum", "s", "same", noop) + integers("none", "") +
      node("ReduceMax", "s none", "too", noop) + integers("first", "0") +
      node("ReduceProd", "s first", "count", noop) + node("ReduceMin", "s", "least") +
      node("Cast", "same", "y", integer("to", 1)) + node("Cast", "too", "z", integer("to", 1)) +
      node("Cast", "count", "c", integer("to", 1)) + node("Cast", "least", "l", integer("to", 1));
  const auto actual = results(parse(nodes, inputs, "y z c l", kNewest), inputs);
  EXPECT_THAT(actual.at(0), ::testing::ElementsAre(2, 3));
  EXPECT_THAT(actual.at(1), ::testing::ElementsAre(2, 3));
  EXPECT_THAT(actual.at(2), ::testing::ElementsAre(6));
  EXPECT_THAT(actual.at(3), ::testing::ElementsAre(2));
}

}  // namespace
}  // namespace gantry
