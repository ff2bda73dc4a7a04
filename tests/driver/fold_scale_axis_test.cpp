// Channel scales in weights: the graph computes the same, and the scale is gone. Scales are powers of two and data
// small integers, so that results are equal bit by bit.
#include <gtest/gtest.h>

#include "host/ops/conv.h"
#include "host/ops/elementwise.h"
#include "host/ops/op.h"
#include "host/passes/passes.h"
#include "tests/driver/graph_evaluation.h"

namespace gantry {
namespace {

using test::interpret_graph;
using test::random_arguments;

/// `count` powers of two, some of them negative.
std::string powers(int64_t count, int seed) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    const char* const values[] = {"0.5", "2", "-1", "4", "-0.25", "1"};
    text += (i == 0 ? "" : ", ") + std::string(values[static_cast<size_t>(i * 5 + seed) % 6]);
  }
  return text;
}
std::string constant(const std::string& shape, int64_t count, int seed = 0) {
  return "const(f32, [" + shape + "], [" + powers(count, seed) + "])";
}

struct Case {
  const char* name;
  std::string parameter, result;  ///< shapes
  std::string nodes;              ///< of %x, to %y
  bool folds = true;
};

const std::string kConv = "channels=4, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], padding=(1, 1, 1, 1)";

std::vector<Case> cases() {
  const std::string weight = constant("4, 4, 3, 3", 144), grouped = constant("4, 2, 3, 3", 72);
  const std::string conv = "  %c = nn.conv(%x, " + weight + ", " + kConv + ")\n";
  const std::string scale = constant("4, 1, 1", 4, 1), bias = constant("4, 1, 1", 4, 2);
  const std::string image = "(2, 4, 5, 5)";
  const std::string transposed =
      "(%x, " + constant("4, 3, 2, 2", 48) +
      ", kernel=[2, 2], strides=[2, 2], dilations=[1, 1], padding=(0, 0, 0, 0), output_padding=[0, 0], groups=2)\n";
  return {
      {"conv", image, image, conv + "  %y = multiply(%c, " + scale + ")\n"},
      {"conv_scalar", image, image, conv + "  %y = multiply(const(f32, [], [0.5]), %c)\n"},
      {"conv_divided", image, image, conv + "  %y = divide(%c, " + scale + ")\n"},
      {"conv_bias", image, image,
       conv + "  %b = add(%c, " + bias + ")\n  %y = multiply(%b, " + scale + ")\n"},
      {"conv_bias_divided", image, image,
       conv + "  %b = add(" + bias + ", %c)\n  %y = divide(%b, " + scale + ")\n"},
      {"conv_groups", image, image,
       "  %c = nn.conv(%x, " + grouped + ", " + kConv + ", groups=2)\n  %y = multiply(%c, " + scale + ")\n"},
      {"conv_data", image, image,
       "  %s = multiply(%x, " + scale + ")\n  %y = nn.conv(%s, " + weight + ", " + kConv + ")\n"},
      {"conv_data_groups", image, image,
       "  %s = multiply(" + scale + ", %x)\n  %y = nn.conv(%s, " + grouped + ", " + kConv + ", groups=2)\n"},
      {"conv_transpose_groups", image, "(2, 6, 10, 10)",
       "  %c = nn.conv_transpose" + transposed + "  %y = multiply(%c, " + constant("6, 1, 1", 6, 3) + ")\n"},
      {"conv_transpose_data", image, "(2, 6, 10, 10)",
       "  %s = multiply(%x, " + scale + ")\n  %y = nn.conv_transpose" +
           std::string(transposed).replace(transposed.find("%x"), 2, "%s")},
      {"dense", "(3, 4)", "(3, 6)",
       "  %c = nn.dense(%x, " + constant("4, 6", 24) + ", units=6)\n  %y = multiply(%c, " +
           constant("6", 6, 1) + ")\n"},
      {"dense_data", "(3, 4)", "(3, 6)",
       "  %s = multiply(%x, " + constant("4", 4, 1) + ")\n  %y = nn.dense(%s, " + constant("4, 6", 24) +
           ", units=6)\n"},
      // What is no scale of channels stays: of columns, of batches, of more than one reader, infinite, 0 below.
      {"columns", image, image, conv + "  %y = multiply(%c, " + constant("5", 5, 1) + ")\n", false},
      {"rows_of_dense", "(3, 4)", "(3, 6)",
       "  %c = nn.dense(%x, " + constant("4, 6", 24) + ", units=6)\n  %y = multiply(%c, " +
           constant("3, 1", 3, 1) + ")\n",
       false},
      {"two_readers", image, image,
       conv + "  %s = multiply(%c, " + scale + ")\n  %y = add(%s, %c)\n", false},
      {"zero", image, image, conv + "  %y = divide(%c, const(f32, [], [0]))\n", false},
      {"shared_weight", image, image,
       "  %c = nn.conv(%x, @w: Tensor[(4, 4, 3, 3), f32], " + kConv + ")\n  %s = multiply(%c, " + scale +
           ")\n  %d = nn.conv(%x, @w, " + kConv + ")\n  %y = add(%s, %d)\n",
       false},
      {"infinite", image, image, conv + "  %y = multiply(%c, const(f32, [], [inf]))\n", false},
  };
}

size_t count_of(const Graph& graph, const OpHandle& op) {
  return static_cast<size_t>(
      std::ranges::count_if(graph.main.nodes(), [&](const Node* node) { return node->is(op); }));
}

TEST(FoldScaleAxis, ComputesTheSameWithoutTheScale) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Graph graph = parse_graph("fn @main(%x: Tensor[" + c.parameter + ", f32]) -> Tensor[" + c.result +
                                  ", f32] {\n" + c.nodes + "  return %y\n}\n",
                              op_set());
    const auto arguments = random_arguments(graph, {});
    const std::vector<float> expected = interpret_graph(graph, arguments);
    PassContext context;
    fold_scale_axis(graph, context);
    EXPECT_EQ(context.rewrites, c.folds ? 1 : 0);
    fold_constant(graph, context);
    dead_code(graph, context);
    verify(graph, op_set(), "fold_scale_axis");
    if (c.folds) {
      EXPECT_EQ(count_of(graph, op::multiply) + count_of(graph, op::divide), 0u);
      EXPECT_EQ(interpret_graph(graph, arguments), expected);
    }
  }
}

TEST(FoldScaleAxis, TakesScalesOnBothSidesInTurn) {
  Graph graph = parse_graph(
      "fn @main(%x: Tensor[(1, 4, 5, 5), f32]) -> Tensor[(1, 4, 5, 5), f32] {\n"
      "  %a = multiply(%x, " + constant("4, 1, 1", 4, 1) + ")\n"
      "  %c = nn.conv(%a, " + constant("4, 4, 3, 3", 144) + ", " + kConv + ")\n"
      "  %y = multiply(%c, " + constant("4, 1, 1", 4, 2) + ")\n  return %y\n}\n",
      op_set());
  const auto arguments = random_arguments(graph, {});
  const std::vector<float> expected = interpret_graph(graph, arguments);
  PassContext context;
  for (int i = 0; i < 2; ++i) {
    fold_scale_axis(graph, context);
    fold_constant(graph, context);
    dead_code(graph, context);
  }
  EXPECT_EQ(graph.main.nodes().size(), 1u);
  EXPECT_EQ(interpret_graph(graph, arguments), expected);
}

}  // namespace
}  // namespace gantry
