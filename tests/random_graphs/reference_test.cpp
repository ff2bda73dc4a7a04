// The reference allows what roundings may do, however large, and nothing else.
#include "tests/random_graphs/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "host/ops/builder.h"
#include "host/ops/elementwise.h"
#include "host/ops/unary.h"
#include "host/tensor/element.h"
#include "tests/random_graphs/sketch.h"
#include "tests/support/interpreted.h"

namespace gantry::random_graphs {
namespace {

ConstantPtr floats(const std::vector<float>& values) {
  return make_constant({DType::kF32, {static_cast<int64_t>(values.size())}}, values.data());
}

/// A graph from f32 vectors to one of its own.
std::vector<Elements> reference_of(const std::string& body, const std::vector<float>& x) {
  const std::string type = "Tensor[(" + std::to_string(x.size()) + "), f32]";
  const Graph graph = parse_graph("fn @main(%x: " + type + ") -> " + type + " {\n" + body + "\n}", op_set());
  return reference(graph, {floats(x)}, 1);
}

double width(const Element& e) {
  return e.number.high - e.number.low;
}

TEST(Reference, IsAsWideAsRoundingsOfItsOperationsNotAsItsResult) {
  // 1e4 is added and taken away: what is left has the roundings of 1e4.
  const auto far = reference_of(
      "  %0 = add(%x, const(f32, [], [10000]))\n  %1 = subtract(%0, const(f32, [], [10000]))\n  return %1", {1e-3F, 1});
  EXPECT_GT(width(far[0].of[0]), 1e4 * 0x1p-24);
  EXPECT_LT(width(far[0].of[0]), 1e4 * 0x1p-17);
  const auto near = reference_of("  %0 = multiply(%x, const(f32, [], [3]))\n  return %0", {1e-3F, 1});
  EXPECT_LT(width(near[0].of[0]), 1e-3 * 0x1p-17);
  EXPECT_EQ(difference({floats({3e-3F, 3})}, near), "");
  EXPECT_NE(difference({floats({3e-3F, 3.001F})}, near), "");
}

TEST(Reference, HasBothResultsOfAStepThatRoundingsDecide) {
  const auto steps = reference_of("  %0 = multiply(%x, const(f32, [], [0.1]))\n  %1 = floor(%0)\n  return %1", {10, 15});
  EXPECT_EQ(difference({floats({1, 1})}, steps), "");
  EXPECT_EQ(difference({floats({0, 1})}, steps), "");
  EXPECT_NE(difference({floats({1, 0})}, steps), "");
}

TEST(Reference, KnowsNothingOfAQuotientByWhatMayBeNothing) {
  const std::string difference_of_sums =
      "  %0 = add(%x, const(f32, [], [1]))\n  %1 = subtract(%0, const(f32, [], [1]))\n  %2 = divide(const(f32, [], [1]), %1)\n  return %2";
  const auto quotients = reference_of(difference_of_sums, {1e-9F, 1});
  EXPECT_TRUE(quotients[0].of[0].number.is_anything());
  EXPECT_LT(width(quotients[0].of[1]), 1e-5);
}

TEST(Reference, HasExactResultsOfExactComparisons) {
  const auto equal = reference_of("  %0 = maximum(%x, const(f32, [], [0.5]))\n  return %0", {0.5F, 2});
  EXPECT_TRUE(equal[0].of[0].number.is_point());
  EXPECT_TRUE(equal[0].of[1].number.is_point());
}

TEST(Reference, DistinguishesInfinitiesNanAndNumbers) {
  const float infinity = INFINITY;
  const auto logs = reference_of("  %0 = log(%x)\n  return %0", {-1, infinity});
  EXPECT_EQ(difference({floats({NAN, infinity})}, logs), "");
  EXPECT_NE(difference({floats({0, infinity})}, logs), "");
  EXPECT_NE(difference({floats({NAN, 88})}, logs), "");
}

// --- passes that are deliberately wrong

using Break = void (*)(Graph&);

template <typename AttrsType, typename Make>
void replace_each(Graph& graph, const Op<AttrsType>& op, const Make& make) {
  const std::vector<Node*> nodes = graph.main.nodes();
  for (Node* node : nodes) {
    if (!node->is(op)) continue;
    if (Value* other = make(Builder(graph.main, *node), *node)) graph.main.replace_uses(node->result(), other);
  }
}

void drop_relu(Graph& graph) {
  replace_each(graph, nn::relu, [](const Builder&, const Node& node) { return node.inputs[0]; });
}

void turn_subtractions(Graph& graph) {
  replace_each(graph, op::subtract, [](const Builder& b, const Node& node) {
    return b(op::subtract, {node.inputs[1], node.inputs[0]});
  });
}

void drop_bias(Graph& graph) {
  replace_each(graph, op::add, [](const Builder&, const Node& node) -> Value* {
    const bool is_bias = node.inputs[1]->is_constant() && node.inputs[0]->type == node.result()->type;
    return is_bias ? node.inputs[0] : nullptr;
  });
}

void shift_slices(Graph& graph) {
  replace_each(graph, op::strided_slice, [](const Builder& b, const Node& node) -> Value* {
    StridedSliceAttrs attrs = node.attrs_as<StridedSliceAttrs>();
    for (size_t i = 0; i < attrs.begin.size(); ++i) {
      const auto begin = attrs.begin[i].constant(), end = attrs.end[i].constant();
      if (!begin || !end || *begin < 1 || attrs.strides[i] != 1) continue;
      attrs.begin[i] = *begin - 1;
      attrs.end[i] = *end - 1;
      return b(op::strided_slice, {node.inputs[0]}, attrs);
    }
    return nullptr;
  });
}

/// One weight of a constant takes its neighbour's value.
void change_a_weight(Graph& graph) {
  for (Value* constant : graph.main.constants()) {
    const ConstantData& data = *constant->constant;
    const auto width = static_cast<size_t>(byte_width(data.type.dtype));
    if (!is_float(data.type.dtype) || data.size < 2 * width) continue;
    std::byte* bytes = nullptr;
    auto changed = allocate_constant(data.type, &bytes);
    std::copy_n(data.bytes, data.size, bytes);
    std::copy_n(data.bytes + width, width, bytes);
    constant->constant = changed;
  }
}

/// Some output is another by more than a fiftieth of its largest element.
bool is_visible(const std::vector<ConstantPtr>& before, const std::vector<ConstantPtr>& after) {
  for (size_t output = 0; output < before.size(); ++output) {
    const DType dtype = before[output]->type.dtype;
    double largest = 0, apart = 0;
    for (size_t at = 0; at < before[output]->size; at += static_cast<size_t>(byte_width(dtype))) {
      const auto value = [&](const ConstantPtr& data) {
        return is_float(dtype) ? read_float(dtype, data->bytes + at)
                               : static_cast<double>(read_integer(dtype, data->bytes + at));
      };
      const double a = value(before[output]), b = value(after[output]);
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      largest = std::max(largest, std::fabs(a));
      apart = std::max(apart, std::fabs(a - b));
    }
    if (apart > 0.02 * largest) return true;
  }
  return false;
}

class WrongPasses : public ::testing::TestWithParam<std::pair<const char*, Break>> {};

TEST_P(WrongPasses, AreFoundWhereTheyChangeWhatAGraphComputes) {
  int visible = 0, found = 0;
  for (uint64_t seed = 1; seed <= 250; ++seed) {
    const Case test = random_case(seed);
    const Graph graph = bound(test.graph, test.symbols);
    Graph broken = clone_graph(graph);
    GetParam().second(broken);
    const auto inputs = inputs_of(test, graph);
    const auto after = testing::interpret_function(broken.main, inputs);
    if (!is_visible(testing::interpret_function(graph.main, inputs), after)) continue;
    ++visible;
    found += difference(after, reference(graph, inputs, seed, 0x1p-17)).empty() ? 0 : 1;
  }
  RecordProperty("visible", visible);
  RecordProperty("found", found);
  EXPECT_GE(visible, 5);
  EXPECT_GE(found, 0.9 * visible) << found << " of " << visible;
}

INSTANTIATE_TEST_SUITE_P(All, WrongPasses,
                         ::testing::Values(std::pair("drop_relu", &drop_relu), std::pair("turn_subtractions", &turn_subtractions),
                                           std::pair("drop_bias", &drop_bias), std::pair("shift_slices", &shift_slices),
                                           std::pair("change_a_weight", &change_a_weight)),
                         [](const auto& info) { return info.param.first; });

}  // namespace
}  // namespace gantry::random_graphs
