#include <fmt/format.h>

#include <map>
#include <random>
#include <utility>

#include "host/ops/norm.h"
#include "host/support/error.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

/// Of nodes by the values that they make, "0" and "1".
using Edges = std::vector<std::pair<std::string, std::string>>;

/// The groups after fuse_ops, one a line: ops of the body joined by '+', in execution order. `apart`: edges
/// that are not to be within one.
std::vector<std::string> groups_of(const std::string& text, bool enable = true, const Edges& apart = {}) {
  Graph graph = parse_graph(text, table());
  PassContext context;
  context.fuse = enable;
  const auto node_of = [&](const std::string& value) {
    const auto& nodes = graph.main.nodes();
    const auto found =
        std::ranges::find_if(nodes, [&](const Node* node) { return node->result()->name == value; });
    EXPECT_NE(found, nodes.end()) << value;
    return name_of(**found);
  };
  for (const auto& [maker, reader] : apart) context.apart.push_back({node_of(maker), node_of(reader)});
  fuse_ops(graph, context);
  verify(graph, table(), "fuse_ops");
  const std::string printed = print(graph, table());
  EXPECT_EQ(print(parse_graph(printed, table()), table()), printed);
  std::vector<std::string> groups;
  for (const Node* node : graph.main.nodes()) {
    if (node->bodies.empty()) {
      EXPECT_TRUE(op_def(*node).is_view || op_def(*node).fusion == FusionClass::kOpaque) << node->op->name;
      groups.push_back(node->op->name);
      continue;
    }
    std::string name;
    for (const Node* inner : node->bodies[0]->nodes()) name += (name.empty() ? "" : "+") + inner->op->name;
    groups.push_back(name);
  }
  return groups;
}

using testing::ElementsAre;

std::string conv(const std::string& input, const std::string& weight) {
  return "nn.conv(" + input + ", @" + weight +
         ": Tensor[(4, 4, 3, 3), f32], channels=4, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], "
         "padding=(1, 1, 1, 1))";
}
std::string image_function(const std::string& nodes, const std::string& result) {
  return "fn @main(%x: Tensor[(N, 4, H, W), f32]) -> Tensor[(N, 4, H, W), f32] {\n" + nodes + "  return " +
         result + "\n}";
}

TEST(FuseOps, ElementwiseChainsBecomeOneKernelWithScalarsInside) {
  EXPECT_EQ(after(R"(fn @main(%x: Tensor[(N, 2), f32], %y: Tensor[(N, 2), f32]) -> Tensor[(N, 2), f32] {
  %0 = add(%x, %y)  // A
  %1 = multiply(%0, const(f32, [], [2]))  // B
  %2 = add(%1, const(f32, [2], [1, 2]))  // C
  return %2
})",
                  [](Graph& g) { fuse_ops(g, fresh_context()); }),
            R"(fn @main(%x: Tensor[(N, 2), f32], %y: Tensor[(N, 2), f32]) -> Tensor[(N, 2), f32] {
  %2 = fused(%x, %y, const(f32, [2], [1, 2])) fn @add_multiply_add(%x: Tensor[(N, 2), f32], %y: Tensor[(N, 2), f32], %const_1: Tensor[(2), f32]) -> Tensor[(N, 2), f32] {
    %0 = add(%x, %y)  // A
    %1 = multiply(%0, const(f32, [], [2]))  // B
    %2 = add(%1, %const_1)  // C
    return %2
  }  // A, B, C
  return %2
}
)");
}

TEST(FuseOps, ConvolutionTakesBiasActivationAndResidualAddition) {
  EXPECT_THAT(
      groups_of(image_function("  %0 = " + conv("%x", "w0") + "\n" +
                                   "  %1 = add(%0, @b: Tensor[(4, 1, 1), f32])\n  %2 = nn.relu(%1)\n"
                                   "  %3 = " +
                                   conv("%2", "w1") + "\n" + "  %4 = add(%3, %x)\n  %5 = nn.relu(%4)\n",
                               "%5")),
      ElementsAre("nn.conv+add+nn.relu", "nn.conv+add+nn.relu"));
}

TEST(FuseOps, WhatIsKeptApartOfAnAnchorOpensAKernel) {
  const std::string text = image_function("  %0 = " + conv("%x", "w0") + "  // A\n" +
                                              "  %1 = add(%0, @b: Tensor[(4, 1, 1), f32])  // B\n" +
                                              "  %2 = nn.relu(%1)  // C\n  %3 = exp(%2)  // D\n",
                                          "%3");
  EXPECT_THAT(groups_of(text), ElementsAre("nn.conv+add+nn.relu+exp"));
  EXPECT_THAT(groups_of(text, true, {{"0", "1"}}), ElementsAre("nn.conv", "add+nn.relu+exp"));
  EXPECT_THAT(groups_of(text, true, {{"1", "2"}}), ElementsAre("nn.conv+add", "nn.relu+exp"));
  EXPECT_THAT(groups_of(text, true, {{"0", "1"}, {"2", "3"}}), ElementsAre("nn.conv", "add+nn.relu", "exp"));
}

TEST(FuseOps, ANodeThatOneReaderIsKeptFromJoinsNone) {
  const std::string text = image_function(
      "  %0 = nn.relu(%x)  // A\n  %1 = exp(%0)  // B\n  %2 = tanh(%0)  // C\n  %3 = add(%1, %2)  // D\n",
      "%3");
  EXPECT_THAT(groups_of(text), ElementsAre("nn.relu+exp+tanh+add"));
  EXPECT_THAT(groups_of(text, true, {{"0", "2"}}), ElementsAre("nn.relu", "exp+tanh+add"));
  EXPECT_THAT(groups_of(text, true, {{"1", "3"}}), ElementsAre("nn.relu", "exp", "tanh+add"))
      << "what both read is a kernel, too";
}

TEST(FuseOps, NodesOfOtherNamesAreNotKeptApart) {
  const auto chain = [](const char* origin) {
    return fmt::format(
        "fn @main(%x: Tensor[(N, 2), f32]) -> Tensor[(N, 2), f32] {{\n  %0 = exp(%x)  // A\n"
        "  %1 = tanh(%0)  // {}\n  return %1\n}}",
        origin);
  };
  EXPECT_THAT(groups_of(chain("B"), true, {{"0", "1"}}), ElementsAre("exp", "tanh"));
  Graph graph = parse_graph(chain("B"), table());
  PassContext context;
  context.apart = {{name_of(*graph.main.nodes()[0]), {graph.main.nodes()[1]->op, {"C"}}}};
  fuse_ops(graph, context);
  EXPECT_EQ(graph.main.nodes().size(), 1U);
}

TEST(FuseOps, OfTwoConvolutionsThatAreAddedTheLaterOneTakesTheAddition) {
  EXPECT_THAT(groups_of(image_function("  %0 = " + conv("%x", "w0") + "\n  %1 = " + conv("%x", "w1") + "\n" +
                                           "  %2 = add(%0, %1)\n  %3 = nn.relu(%2)\n",
                                       "%3")),
              ElementsAre("nn.conv", "nn.conv+add+nn.relu"));
}

TEST(FuseOps, DiamondsBehindAConvolutionJoinAsAWhole) {
  EXPECT_THAT(groups_of(image_function(
                  "  %0 = " + conv("%x", "w0") + "\n  %1 = sigmoid(%0)\n  %2 = multiply(%0, %1)\n", "%2")),
              ElementsAre("nn.conv+sigmoid+multiply"));
}

TEST(FuseOps, AValueThatIsReadOutsideEndsTheGroup) {
  const std::string text =
      "fn @main(%x: Tensor[(N, 4, H, W), f32]) -> (Tensor[(N, 4, H, W), f32], Tensor[(N, 4, H, W), f32]) {\n"
      "  %0 = " +
      conv("%x", "w") + "\n  %1 = nn.relu(%0)\n  %2 = exp(%1)\n  return %1, %2\n}";
  EXPECT_THAT(groups_of(text), ElementsAre("nn.conv+nn.relu", "exp"));
}

TEST(FuseOps, AnEpilogueDoesNotGrowBeyondTheShapeOfItsAnchor) {
  const std::string text =
      "fn @main(%x: Tensor[(1, 4, 1, 1), f32], %y: Tensor[(1, 4, 8, 8), f32]) -> Tensor[(1, 4, 8, 8), f32] "
      "{\n"
      "  %0 = " +
      conv("%x", "w") + "\n  %1 = sigmoid(%0)\n  %2 = multiply(%y, %1)\n  return %2\n}";
  EXPECT_THAT(groups_of(text), ElementsAre("nn.conv+sigmoid", "multiply"));
}

TEST(FuseOps, NothingJoinsTheDataOfAConvolution) {
  EXPECT_THAT(groups_of(image_function("  %0 = nn.relu(%x)\n  %1 = " + conv("%0", "w") + "\n", "%1")),
              ElementsAre("nn.relu", "nn.conv"));
}

TEST(FuseOps, ArithmeticOnTheOtherOperandOfAnEpilogueJoinsIt) {
  EXPECT_THAT(
      groups_of(image_function("  %0 = exp(%x)\n  %1 = " + conv("%x", "w") + "\n  %2 = add(%1, %0)\n", "%2")),
      ElementsAre("exp+nn.conv+add"));
}

TEST(FuseOps, ProducersJoinAReductionAndArithmeticOnItsResultFollows) {
  EXPECT_THAT(groups_of(R"(fn @main(%x: Tensor[(N, 8), f32]) -> Tensor[(N, 1), f32] {
  %0 = multiply(%x, %x)
  %1 = sum(%0, axes=[1], keepdims=true)
  %2 = sqrt(%1)
  return %2
})"),
              ElementsAre("multiply+sum+sqrt"));
  EXPECT_THAT(groups_of(R"(fn @main(%x: Tensor[(N, 8), f32]) -> Tensor[(N, 8), f32] {
  %0 = max(%x, axes=[1], keepdims=true)
  %1 = subtract(%x, %0)
  return %1
})"),
              ElementsAre("max", "subtract"))
      << "what is larger than the reduction's result does not follow it";
}

TEST(FuseOps, ArithmeticFollowsPoolingsAndNormalisations) {
  EXPECT_THAT(
      groups_of(
          R"(fn @main(%x: Tensor[(N, 4, 8, 8), f32], %s: Tensor[(4), f32]) -> Tensor[(N, 4, 4, 4), f32] {
  %0 = exp(%x)
  %1 = nn.instance_norm(%0, %s, %s)
  %2 = nn.relu(%1)
  %3 = nn.max_pool(%2, kernel=[2, 2], strides=[2, 2], padding=(0, 0, 0, 0), dilations=[1, 1])
  %4 = tanh(%3)
  return %4
})"),
      ElementsAre("exp", "nn.instance_norm+nn.relu", "nn.max_pool+tanh"));
}

std::string product(const std::string& a, const std::string& b, bool gemm) {
  return "matmul(" + a + ", " + b + ", gemm=" + (gemm ? "true" : "false") + ")";
}

TEST(FuseOps, IndexMapsJoinTheProductThatCopiesItsOperandsIntoTiles) {
  const auto attention = [](bool gemm) {
    return "fn @main(%q: Tensor[(N, 128, 64), f32], %k: Tensor[(N, 128, 64), f32]) -> Tensor[(N, 4, 128, "
           "128), f32] {\n"
           "  %0 = reshape(%q, shape=(N, 128, 4, 16))\n"
           "  %1 = transpose(%0, axes=[0, 2, 1, 3])\n"
           "  %2 = reshape(%k, shape=(N, 128, 4, 16))\n"
           "  %3 = transpose(%2, axes=[0, 2, 3, 1])\n  %4 = " +
           product("%1", "%3", gemm) + "\n  %5 = nn.relu(%4)\n  return %5\n}";
  };
  EXPECT_THAT(groups_of(attention(false)),
              ElementsAre("reshape", "transpose", "reshape", "transpose", "matmul+nn.relu"));
  EXPECT_THAT(groups_of(attention(true)),
              ElementsAre("reshape", "reshape", "transpose+transpose+matmul+nn.relu"));
}

TEST(FuseOps, AViewBetweenAnIndexMapAndAProductJoinsWithTheMap) {
  EXPECT_THAT(
      groups_of(
          "fn @main(%x: Tensor[(N, 4, 128, 16), f32]) -> Tensor[(N, 128, 8), f32] {\n"
          "  %0 = exp(%x)\n  %1 = transpose(%0, axes=[0, 2, 1, 3])\n  %2 = reshape(%1, shape=(N, 128, 64))\n"
          "  %3 = nn.dense(%2, @w: Tensor[(64, 8), f32], units=8, gemm=true)\n  return %3\n}"),
      ElementsAre("exp", "transpose+reshape+nn.dense"));
}

TEST(FuseOps, AnIndexMapThatSomethingElseReadsStaysAlone) {
  EXPECT_THAT(groups_of("fn @main(%x: Tensor[(4, 4), f32]) -> Tensor[(4, 4), f32] {\n"
                        "  %0 = transpose(%x, axes=[1, 0])\n  %1 = " +
                        product("%0", "%0", true) + "\n  %2 = add(%1, %0)\n  return %2\n}"),
              ElementsAre("transpose", "matmul+add"));
}

/// A convolution by tile registers of relu(x) * s, whose result is multiplied by s and added to `other`.
/// `before`: nodes in front that make x.
std::string gated(int64_t kernel, const std::string& other = "%2", const std::string& before = "",
                  const std::string& x = "%x") {
  const std::string k = std::to_string(kernel), pad = std::to_string(kernel / 2);
  return "fn @main(%x: Tensor[(1, 8, 8, 64), f32], %s: Tensor[(1, 1, 1, 64), f32]) -> Tensor[(1, 8, 8, 64), "
         "f32] {\n" +
         before + "  %0 = nn.relu(" + x +
         ")\n  %1 = multiply(%s, %0)\n  %2 = nn.conv(%1, @w: Tensor[(2, 2, " + k + ", " + k +
         ", 2, 2, 16, 32), bf16], channels=64, kernel=[" + k + ", " + k +
         "], strides=[1, 1], dilations=[1, 1], padding=(" + pad + ", " + pad + ", " + pad + ", " + pad +
         "), channels_last=true, algorithm=tiles, tile_parts=2)\n  %3 = multiply(%2, %s)\n  %4 = add(" +
         other + ", %3)\n  return %4\n}";
}

TEST(FuseOps, ArithmeticJoinsTheConvolutionThatCopiesItsResults) {
  EXPECT_THAT(groups_of(gated(1)), ElementsAre("nn.relu+multiply+nn.conv+multiply+add"));
  EXPECT_THAT(groups_of(gated(3)), ElementsAre("nn.relu+multiply", "nn.conv+multiply+add"))
      << "reads its data again and again";
  EXPECT_THAT(groups_of(gated(1, "%1")), ElementsAre("nn.relu+multiply", "nn.conv+multiply+add"))
      << "something else reads it too";
  EXPECT_THAT(
      groups_of(gated(
          1, "%2", "  %m = strided_slice(%x, begin=(0, 0, 0, 0), end=(1, 8, 8, 64), strides=[1, 1, 1, 1])\n",
          "%m")),
      ElementsAre("strided_slice+nn.relu+multiply", "nn.conv+multiply+add"))
      << "it would leave the index map alone";
}

TEST(FuseOps, SumsOfAValueWithItselfBeforeAConvolutionOnTilesAreFollowedOnceEach) {
  std::string sums, last = "x";
  for (int i = 0; i < 64; ++i) {
    const std::string next = fmt::format("d{}", i);
    sums += fmt::format("  %{} = add(%{}, %{})\n", next, last, last);
    last = next;
  }
  EXPECT_THAT(groups_of(gated(1, "%2", sums, "%" + last)).back(),
              testing::EndsWith("nn.relu+multiply+nn.conv+multiply+add"));
}

TEST(FuseOps, PoolingWindowsDoNotRecomputeTheirInput) {
  EXPECT_THAT(groups_of(R"(fn @main(%x: Tensor[(N, 4, 8, 8), f32]) -> Tensor[(N, 4, 4, 4), f32] {
  %0 = exp(%x)
  %1 = nn.max_pool(%0, kernel=[2, 2], strides=[2, 2], padding=(0, 0, 0, 0), dilations=[1, 1])
  return %1
})"),
              ElementsAre("exp", "nn.max_pool"));
}

TEST(FuseOps, IndexMapsChainWithArithmetic) {
  EXPECT_THAT(groups_of(R"(fn @main(%x: Tensor[(N, 8), f32]) -> Tensor[(8, N), f32] {
  %0 = exp(%x)
  %1 = transpose(%0, axes=[1, 0])
  %2 = nn.relu(%1)
  return %2
})"),
              ElementsAre("exp+transpose+nn.relu"));
}

TEST(FuseOps, ComputedValuesAreNotRepeatedByBroadcasting) {
  EXPECT_THAT(groups_of(R"(fn @main(%x: Tensor[(8), f32], %y: Tensor[(N, 8), f32]) -> Tensor[(N, 8), f32] {
  %0 = tanh(%x)
  %1 = add(%y, %0)
  return %1
})"),
              ElementsAre("tanh", "add"));
  EXPECT_THAT(groups_of(R"(fn @main(%x: Tensor[(1, 8), f32]) -> Tensor[(4, 8), f32] {
  %0 = tanh(%x)
  %1 = broadcast_to(%0, shape=(4, 8))
  return %1
})"),
              ElementsAre("tanh", "broadcast_to"));
}

TEST(FuseOps, ViewsAndOpaqueOpsStayAlone) {
  EXPECT_THAT(groups_of(R"(fn @main(%x: Tensor[(N, 8), f32]) -> Tensor[(N, 2, 4), f32] {
  %0 = exp(%x)
  %1 = cumsum(%0, axis=1)
  %2 = nn.relu(%1)
  %3 = reshape(%2, shape=(N, 2, 4))
  %4 = tanh(%3)
  return %4
})"),
              ElementsAre("exp", "cumsum", "nn.relu", "reshape", "tanh"));
}

TEST(FuseOps, RepeatedSquaringIsCutBeforeItsExpressionExplodes) {
  std::string text = "fn @main(%x: Tensor[(8), f32]) -> Tensor[(8), f32] {\n  %v0 = exp(%x)\n";
  for (int i = 1; i <= 20; ++i) {
    const std::string v = "%v" + std::to_string(i - 1);
    text += "  %v" + std::to_string(i) + " = multiply(" + v + ", " + v + ")\n";
  }
  EXPECT_GT(groups_of(text + "  return %v20\n}").size(), 2u);
}

TEST(FuseOps, DisabledEveryNodeIsAKernelOfItsOwn) {
  EXPECT_THAT(
      groups_of(image_function("  %0 = " + conv("%x", "w") + "\n  %1 = nn.relu(%0)\n  %2 = exp(%1)\n", "%2"),
                false),
      ElementsAre("nn.conv", "nn.relu", "exp"));
}

// Random graphs: the same values come out, which is checked by what each output is made of.
class Expander {
 public:
  explicit Expander(const Function& function) : function_(function) {}
  std::string output(size_t i) { return text_of(function_.outputs[i], {}); }

  std::string text_of(const Value* value, const std::map<const Value*, std::string>& arguments) {
    if (value == nullptr) return "none";
    if (const auto found = arguments.find(value); found != arguments.end()) return found->second;
    if (value->kind == Value::Kind::kParameter) return value->name;
    if (value->is_constant()) return std::to_string(*value->constant->as<float>());
    const Node& node = *value->producer;
    if (!node.bodies.empty()) {
      std::map<const Value*, std::string> inner;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        inner[node.bodies[0]->parameters[i]] = text_of(node.inputs[i], arguments);
      return text_of(node.bodies[0]->outputs[static_cast<size_t>(value->result_index)], inner);
    }
    std::string text = node.op->name + "(";
    for (const Value* input : node.inputs) text += text_of(input, arguments) + " ";
    return text + ")";
  }

 private:
  const Function& function_;
};

TEST(FuseOpsProperty, RandomGraphsKeepTheMeaningOfTheirOutputs) {
  std::mt19937 random(3);
  const std::vector<std::string> unary{"exp", "nn.relu", "nn.softmax"}, binary{"add", "multiply", "matmul"};
  auto last_axis = std::make_shared<SoftmaxAttrs>();
  last_axis->axis = 1;
  for (int trial = 0; trial < 150; ++trial) {
    Graph graph;
    Function& main = graph.main;
    const float number = static_cast<float>(trial);
    const TensorType type{DType::kF32, {4, 4}};
    std::vector<Value*> values{main.add_parameter("x", type), main.add_parameter("y", type)};
    Value* scalar = main.add_constant("c", make_constant({DType::kF32, {}}, &number));
    // The newest values are read most, so that chains and diamonds form.
    auto pick = [&] { return values[values.size() - 1 - std::min<size_t>(random() % 4, values.size() - 1)]; };
    for (int i = 0; i < 12; ++i) {
      const bool two = random() % 2 == 0;
      const std::string& op = two ? binary[random() % 3] : unary[random() % 3];
      std::vector<Value*> inputs{pick()};
      if (two) inputs.push_back(op != "matmul" && random() % 5 == 0 ? scalar : pick());
      auto attrs = op == "nn.softmax" ? last_axis : nullptr;
      values.push_back(infer_and_add(main, *op_set().find(op), attrs, inputs, {"n" + std::to_string(i)})->result());
    }
    main.outputs = {values.back(), values[values.size() - 2]};
    dead_code(graph, fresh_context());
    const std::vector<std::string> before{Expander(main).output(0), Expander(main).output(1)};
    fuse_ops(graph, fresh_context());
    verify(graph, table(), "fuse_ops");
    EXPECT_EQ(Expander(main).output(0), before[0]);
    EXPECT_EQ(Expander(main).output(1), before[1]);
  }
}

}  // namespace
}  // namespace gantry
