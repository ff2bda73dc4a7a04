// Operands whose dimensions have different names: what they make together for sizes that are given later,
// against NumPy's rules.
#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <numeric>

#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT
using ::testing::HasSubstr;
using Sizes = std::vector<int64_t>;

ConstantPtr counting(const Sizes& shape, float first) {
  std::vector<float> values(
      static_cast<size_t>(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>())));
  std::iota(values.begin(), values.end(), first);
  return make_constant({DType::kF32, Shape(shape.begin(), shape.end())}, values.data());
}

Sizes sizes_of(const ConstantPtr& data) {
  return *constant_shape(data->type.shape);
}

/// numpy.broadcast_to(data, shape).ravel(), by walking over all positions.
std::vector<float> repeated(const ConstantPtr& data, const Sizes& shape) {
  const Sizes own = sizes_of(data);
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<float> values;
  for (int64_t at = 0; at < count; ++at) {
    int64_t rest = at, offset = 0, stride = 1;
    for (size_t back = 1; back <= shape.size(); ++back) {
      const int64_t position = rest % shape[shape.size() - back];
      rest /= shape[shape.size() - back];
      if (back > own.size()) continue;
      const int64_t extent = own[own.size() - back];
      if (extent != 1) offset += position * stride;
      stride *= extent;
    }
    values.push_back(data->as<float>()[offset]);
  }
  return values;
}

std::vector<float> elements_of(const ConstantPtr& data) {
  return {data->as<float>(), data->as<float>() + data->size / sizeof(float)};
}

TEST(OpenOperands, OfAnAdditionBroadcastWhereOneIs1) {
  const Graph graph = imported_graph(
      open_input("a", "batch 3") + open_input("b", "unk__12 3") + node("Add", "a b", "y"), "y");
  EXPECT_EQ(graph.main.outputs[0]->type.str(), "Tensor[(broadcast(batch, unk__12), 3), f32]");
  for (const auto& [m, n, result] : std::vector<std::array<int64_t, 3>>{
           {4, 4, 4}, {1, 4, 4}, {4, 1, 4}, {1, 1, 1}, {0, 0, 0}, {0, 1, 0}, {1, 0, 0}}) {
    SCOPED_TRACE(::testing::Message() << m << " " << n);
    const ConstantPtr a = counting({m, 3}, 1), b = counting({n, 3}, 100);
    const ConstantPtr y = testing::interpret_function(graph.main, {a, b}).at(0);
    ASSERT_EQ(sizes_of(y), (Sizes{result, 3}));
    std::vector<float> expected = repeated(a, {result, 3});
    const std::vector<float> other = repeated(b, {result, 3});
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += other[i];
    EXPECT_EQ(elements_of(y), expected);
  }
}

TEST(OpenOperands, SayOnWhichAxesSizesDecide) {
  const Graph graph = imported_graph(
      open_input("a", "batch 3") + open_input("b", "unk__12 3") + node("Add", "a b", "y"), "y");
  const std::string text = print(graph, op_set());
  EXPECT_THAT(text, HasSubstr("broadcast_to(%a, shape=(broadcast(batch, unk__12), 3), open=[0])"));
  EXPECT_EQ(print(parse_graph(text, op_set()), op_set()), text);
}

TEST(OpenOperands, ThatDoNotFitAreNamed) {
  const Graph graph = imported_graph(
      open_input("a", "batch 3") + open_input("b", "unk__12 3") + node("Add", "a b", "y"), "y");
  for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{{2, 3}, {0, 2}, {5, 4}}) {
    try {
      testing::interpret_function(graph.main, {counting({m, 3}, 1), counting({n, 3}, 1)});
      FAIL() << m << " and " << n << " were added";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("batch and unk__12 must be equal, or one of them 1"));
    }
  }
}

TEST(OpenOperands, BesideAFixedExtentMayBe1) {
  const Graph graph =
      imported_graph(open_input("a", "4") + open_input("b", "N") + node("Mul", "a b", "y"), "y");
  EXPECT_EQ(graph.main.outputs[0]->type.str(), "Tensor[(4), f32]");
  for (const int64_t n : {1, 4}) {
    const ConstantPtr y =
        testing::interpret_function(graph.main, {counting({4}, 1), counting({n}, 10)}).at(0);
    const std::vector<float> b = repeated(counting({n}, 10), {4});
    EXPECT_THAT(elements_of(y), ::testing::ElementsAre(b[0], 2 * b[1], 3 * b[2], 4 * b[3]));
  }
  EXPECT_THROW(testing::interpret_function(graph.main, {counting({4}, 1), counting({3}, 1)}), Error);
}

TEST(OpenOperands, OfAChoiceAreThree) {
  const Graph graph = imported_graph(
      open_input("c", "A 1", 9) + open_input("x", "B C") + open_input("y", "D") + node("Where", "c x y", "z"),
      "z");
  EXPECT_EQ(graph.main.outputs[0]->type.str(), "Tensor[(broadcast(A, B), broadcast(C, D)), f32]");
  const bool chosen[] = {true, false};
  const ConstantPtr c = make_constant({DType::kBool, {2, 1}}, chosen);
  const ConstantPtr z =
      testing::interpret_function(graph.main, {c, counting({1, 3}, 1), counting({1}, 9)}).at(0);
  ASSERT_EQ(sizes_of(z), (Sizes{2, 3}));
  EXPECT_THAT(elements_of(z), ::testing::ElementsAre(1, 2, 3, 9, 9, 9));
}

TEST(OpenOperands, OfAProductBroadcastTheirBatches) {
  const Graph graph =
      imported_graph(open_input("a", "A 2 3") + open_input("b", "B 3 2") + node("MatMul", "a b", "y"), "y");
  EXPECT_EQ(graph.main.outputs[0]->type.str(), "Tensor[(broadcast(A, B), 2, 2), f32]");
  const ConstantPtr a = counting({1, 2, 3}, 1), b = counting({2, 3, 2}, 0);
  const ConstantPtr y = testing::interpret_function(graph.main, {a, b}).at(0);
  // numpy.arange(1, 7).reshape(1, 2, 3) @ numpy.arange(12).reshape(2, 3, 2)
  EXPECT_EQ(sizes_of(y), (Sizes{2, 2, 2}));
  EXPECT_THAT(elements_of(y), ::testing::ElementsAre(16, 22, 34, 49, 52, 58, 124, 139));
}

// Of every layer's size the next one's is made: as one expression the last would have 2^40 terms.
TEST(OpenOperands, InManyLayersMakeNoLongExpressions) {
  constexpr int64_t kLayers = 40;
  std::string text = open_input("x0", "unk__0") +
                     node("Constant", "", "pads", attribute("value_ints", "type: INTS ints: 0 ints: 1"));
  for (int64_t i = 1; i <= kLayers; ++i) {
    text += open_input(fmt::format("x{}", i), fmt::format("unk__{}", i)) +
            node("Add", fmt::format("x{0} y{1}", i, i - 1), fmt::format("s{}", i)) +
            node("Pad", fmt::format("s{} pads", i), fmt::format("y{}", i));
  }
  const Graph graph = imported_graph(node("Identity", "x0", "y0") + text, fmt::format("y{}", kLayers));
  EXPECT_LT(graph.main.outputs[0]->type.str().size(), 2000U);
  for (const int64_t repeated_layers : {2, 3}) {
    std::vector<ConstantPtr> inputs{counting({2}, 1)};
    std::vector<float> expected{1, 2};
    for (int64_t i = 1; i <= kLayers; ++i) {
      const int64_t extent = i % repeated_layers == 0 ? 1 : i + 1;
      inputs.push_back(counting({extent}, static_cast<float>(i)));
      const std::vector<float> x = repeated(inputs.back(), {i + 1});
      for (size_t at = 0; at < expected.size(); ++at) expected[at] += x[at];
      expected.push_back(0);
    }
    EXPECT_EQ(elements_of(testing::interpret_function(graph.main, inputs).at(0)), expected);
  }
}

TEST(OpenOperands, OfOneNameAddNothing) {
  const Graph graph =
      imported_graph(open_input("a", "N H") + open_input("b", "N H") + node("Add", "a b", "y"), "y");
  EXPECT_EQ(graph.main.nodes().size(), 1u);
  EXPECT_TRUE(graph.main.constraints.empty());
}

TEST(OpenExpand, TakesAShapeThatIsData) {
  const Graph graph =
      imported_graph(open_input("x", "H W") + open_input("s", "2", 7) + node("Expand", "x s", "y"), "y");
  struct Case {
    Sizes own, asked, result;
  };
  for (const Case& c :
       {Case{{2, 3}, {2, 3}, {2, 3}}, Case{{1, 3}, {4, 1}, {4, 3}}, Case{{2, 1}, {1, 5}, {2, 5}},
        Case{{0, 1}, {1, 2}, {0, 2}}, Case{{1, 1}, {0, 3}, {0, 3}}}) {
    SCOPED_TRACE(::testing::PrintToString(c.own) + ::testing::PrintToString(c.asked));
    const ConstantPtr x = counting(c.own, 1);
    const ConstantPtr y =
        testing::interpret_function(graph.main, {x, make_constant({DType::kI64, {2}}, c.asked.data())}).at(0);
    ASSERT_EQ(sizes_of(y), c.result);
    EXPECT_EQ(elements_of(y), repeated(x, c.result));
  }
  const Sizes other{3, 3};
  EXPECT_THROW(testing::interpret_function(
                   graph.main, {counting({2, 3}, 1), make_constant({DType::kI64, {2}}, other.data())}),
               Error);
}

}  // namespace
}  // namespace gantry
