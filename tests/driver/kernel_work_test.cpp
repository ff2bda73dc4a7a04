// Nodes that do the same work share one kernel, made once; nodes that differ in anything do not.
#include "host/driver/kernel_work.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "host/codegen/find_target.h"
#include "host/driver/program.h"
#include "host/ops/movement.h"
#include "host/passes/fuse_ops.h"
#include "tests/driver/graph_evaluation.h"

namespace gantry {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Pointwise;

Graph parse(const std::string& text) {
  return parse_graph(text, FusedOpTable(op_set()));
}

/// The keys of a function's nodes, in order. Parameters: %x, %y and %z of one shape, %n and %m of (N, 4) and
/// (M, 4), %i of integers.
std::vector<std::string> keys(const std::string& nodes) {
  const Graph graph = parse(
      "fn @main(%x: Tensor[(2, 4), f32], %y: Tensor[(2, 4), f32], %z: Tensor[(2, 4), f32], %n: Tensor[(N, "
      "4), f32], "
      "%m: Tensor[(M, 4), f32], %i: Tensor[(2, 4), i32]) -> Tensor[(2, 4), f32] {\n" +
      nodes + "  return %x\n}\n");
  std::vector<std::string> keys;
  for (const Node* node : graph.main.nodes()) keys.push_back(KernelWork(*node).key());
  return keys;
}

void expect_equal_work(const std::string& nodes) {
  const auto all = keys(nodes);
  EXPECT_THAT(all, Each(all.front())) << nodes;
}
void expect_different_work(const std::string& nodes) {
  const auto all = keys(nodes);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size()) << nodes;
}

TEST(KernelWork, NodesOfOtherValuesNamesAndOriginsDoTheSame) {
  expect_equal_work(
      "  %a = nn.softmax(%x, axis=1)  // Softmax_0\n  %b = nn.softmax(%y, axis=1)  // Softmax_1\n"
      "  %c = nn.softmax(%a, axis=1)\n");
}

TEST(KernelWork, WeightsAreBuffersWhateverTheyHold) {
  expect_equal_work(
      "  %a = add(%x, @one: const(f32, [4], [1, 2, 3, 4]))\n  %b = add(%x, @two: const(f32, [4], [5, 6, 7, "
      "8]))\n"
      "  %c = add(%x, @two)\n");
}

TEST(KernelWork, AnotherDecisionMakesAnother) {
  expect_different_work(
      "  %a = nn.softmax(%x, axis=1)\n  %b = nn.softmax(%x, axis=1) {form=rows}\n"
      "  %c = nn.softmax(%x, axis=1) {form=rows, rows=2}\n  %d = nn.softmax(%x, axis=1) {form=rows, rows=3}\n");
  expect_equal_work("  %a = nn.softmax(%x, axis=1) {form=rows, rows=2}\n  %b = nn.softmax(%y, axis=1) {form=rows, rows=2}\n");
}

TEST(KernelWork, AnAttributeMakesAnother) {
  expect_different_work("  %a = nn.softmax(%x, axis=0)\n  %b = nn.softmax(%x, axis=1)\n");
}

TEST(KernelWork, AnOpMakesAnother) {
  expect_different_work("  %a = exp(%x)\n  %b = tanh(%x)\n");
}

TEST(KernelWork, ATypeMakesAnother) {
  expect_different_work("  %a = add(%x, %x)\n  %b = add(%i, %i)\n  %c = add(%n, %n)\n");
}

TEST(KernelWork, AConstantOfOneElementMakesAnother) {
  expect_different_work(
      "  %a = multiply(%x, const(f32, [], [2]))\n  %b = multiply(%x, const(f32, [], [3]))\n"
      "  %c = multiply(%x, const(f32, [1], [2]))\n  %d = multiply(const(f32, [], [2]), %x)\n"
      "  %e = multiply(%x, const(f32, [], [0]))\n  %f = multiply(%x, const(f32, [], [-0]))\n");
  expect_equal_work(
      "  %a = multiply(%x, const(f32, [], [2]))\n  %b = multiply(%y, @two: const(f32, [], [2]))\n");
}

TEST(KernelWork, AnInputThatStandsTwiceMakesAnother) {
  expect_different_work("  %a = add(%x, %x)\n  %b = add(%x, %y)\n");
  expect_different_work(
      "  %a = nn.layer_norm(%x, %y, %z, axis=1)\n  %b = nn.layer_norm(%x, %y, %y, axis=1)\n"
      "  %c = nn.layer_norm(%x, %x, %y, axis=1)\n");
  expect_equal_work("  %a = add(%x, %x)\n  %b = add(%z, %z)\n");
}

TEST(KernelWork, AnAbsentInputMakesAnother) {
  const auto norm = [](const std::string& shift) {
    return keys("  %a = nn.layer_norm(%x, %y, " + shift + ", axis=1)\n").front();
  };
  EXPECT_NE(norm("none"), norm("%z"));
}

TEST(KernelWork, NumbersThatMayBeNegativeAreDifferencesOfSymbolsThatAreNot) {
  const Graph graph = parse(
      "fn @main(%s: Tensor[(S), f32], %n: Tensor[(N), f32]) -> Tensor[(4), i64] {\n"
      "  %0 = dims_to_tensor(dims=(S - N, -2 * N, N, -3))\n"
      "  %1 = arange(start=-N, step=N - S, count=2 * N)\n"
      "  return %0\n}\n");
  const Dim s = Dim::symbol("S"), n = Dim::symbol("N");
  const auto symbol = [](int i) { return Dim::symbol(fmt::format("dim.{}", i)); };
  const KernelWork numbers(*graph.main.nodes()[0]), range(*graph.main.nodes()[1]);
  const auto& dims = dynamic_cast<const DimsToTensorAttrs&>(*numbers.steps().at(0).attrs).dims;
  EXPECT_THAT(dims, ElementsAre(symbol(0) - symbol(1), Dim(0) - symbol(2), symbol(3), Dim(-3)));
  EXPECT_EQ(numbers.bound(symbol(0)), max(s - n, 0));
  EXPECT_EQ(numbers.bound(symbol(1)), max(n - s, 0));
  EXPECT_EQ(numbers.bound(symbol(2)), n * 2);
  EXPECT_EQ(numbers.bound(symbol(3)), n);
  const auto& steps = dynamic_cast<const ArangeAttrs&>(*range.steps().at(0).attrs);
  for (const auto& [given, number] :
       {std::pair(Dim(0) - n, steps.start), {n - s, steps.step}, {n * 2, steps.count}}) {
    const Dim bound = range.bound(number);
    for (const int64_t size : {2, 5, 9})
      EXPECT_EQ(bound.evaluate({{"S", 5}, {"N", size}}), given.evaluate({{"S", 5}, {"N", size}}))
          << bound.str();
  }
  EXPECT_TRUE(steps.count.is_symbol()) << steps.count.str();
}

TEST(KernelWork, SymbolsAreOneByWhereTheyStand) {
  expect_equal_work("  %a = exp(%n)\n  %b = exp(%m)\n");
  const auto sum_of = [](const std::string& rows) {
    return keys("  %a = concatenate(%n, %" + rows + ", axis=0)\n").front();
  };
  EXPECT_NE(sum_of("n"), sum_of("m"));
}

std::string fused(const std::string& result, const std::string& inputs, const std::string& nodes,
                  const std::string& returned = "q") {
  return "  %" + result + " = fused(" + inputs +
         ") fn @f(%a: Tensor[(2, 4), f32], %b: Tensor[(2, 4), f32]) -> " + "Tensor[(2, 4), f32] {\n" + nodes +
         "    return %" + returned + "\n  }\n";
}

TEST(KernelWork, BodiesAreComparedNodeByNode) {
  const std::string sum = "    %p = add(%a, %b)\n", other = "    %p = add(%a, %a)\n";
  const std::string end = "    %q = nn.relu(%p)\n", twice = "    %q = multiply(%p, const(f32, [], [2]))\n",
                    thrice = "    %q = multiply(%p, const(f32, [], [3]))\n",
                    back = "    %q = subtract(%p, %b)\n";
  expect_equal_work(fused("r", "%x, %y", sum + end) + fused("s", "%y, %z", sum + end));
  expect_different_work(fused("r", "%x, %y", sum + end) + fused("s", "%x, %x", sum + end) +
                        fused("t", "%x, %y", other + end) + fused("u", "%x, %y", sum + twice) +
                        fused("v", "%x, %y", sum + thrice) + fused("w", "%x, %y", sum + back) +
                        fused("k", "%x, %y", sum + end, "p"));
}

/// A chain of convolutions with weights of small integers, none like another; `one_differs`: the last is
/// dilated.
Graph chain(int convolutions, bool one_differs) {
  std::string text = "fn @main(%v0: Tensor[(1, 8, 6, 6), f32]) -> Tensor[(1, 8, 6, 6), f32] {\n";
  std::map<std::string, ConstantPtr> weights;
  for (int i = 0; i < convolutions; ++i) {
    const int dilation = one_differs && i + 1 == convolutions ? 2 : 1;
    text += fmt::format(
        "  %v{} = nn.conv(%v{}, @w{}: Tensor[(8, 8, 3, 3), f32], channels=8, kernel=[3, 3], dilations=[{}, "
        "{}], "
        "padding=({}, {}, {}, {}))  // conv_{}\n",
        i + 1, i, i, dilation, dilation, dilation, dilation, dilation, dilation, i);
    std::vector<float> values(8 * 8 * 9);
    for (size_t at = 0; at < values.size(); ++at)
      values[at] = static_cast<float>((at * 7 + at / 5 + static_cast<size_t>(i) * 3) % 3) - 1;
    weights[fmt::format("w{}", i)] = make_constant({DType::kF32, {8, 8, 3, 3}}, values.data());
  }
  text += fmt::format("  return %v{}\n}}\n", convolutions);
  return parse_graph(text, op_set(), weights);
}

struct Lowered {
  std::map<std::string, int> times;  ///< by ops
  LoweredProgram program;
};

Lowered lowered(const Graph& graph, CompileOptions options = {}) {
  SpanRecorder spans;
  options.observer.spans = &spans;
  Lowered result{{}, lower_program(graph, find_target("x86-64-v3"), options)};
  for (const auto& lane : spans.take()) {
    for (const Span& span : lane) {
      if (span.category != "lowering") continue;
      for (const auto& [what, value] : span.arguments) {
        if (what == "ops") ++result.times[std::get<std::string>(value)];
      }
    }
  }
  return result;
}

int times_of(const Lowered& lowered, const std::string& op) {
  int times = 0;
  for (const auto& [ops, count] : lowered.times) times += ops.starts_with(op) ? count : 0;
  return times;
}

TEST(Program, EqualNodesAreLoweredOnce) {
  // The first reads the input as it is given, the others channels-last.
  const Lowered equal = lowered(chain(5, false));
  EXPECT_EQ(times_of(equal, "nn.conv"), 2);
  std::vector<size_t> kernels;
  std::vector<std::string> origins;
  for (const KernelStep& step : equal.program.steps) {
    if (!equal.program.ops[step.kernel].starts_with("nn.conv")) continue;
    kernels.push_back(step.kernel);
    origins.push_back(step.node->origin.front());
  }
  ASSERT_EQ(kernels.size(), 5);
  EXPECT_THAT(std::vector(kernels.begin() + 1, kernels.end()), Each(kernels[1]));
  EXPECT_THAT(origins, ElementsAre("conv_0", "conv_1", "conv_2", "conv_3", "conv_4"));
}

TEST(Program, ANodeThatDiffersIsLoweredByItself) {
  EXPECT_EQ(times_of(lowered(chain(5, true)), "nn.conv"), 3);
}

TEST(Program, NodesThatShareAKernelKeepTheirWeights) {
  for (const bool one_differs : {false, true}) {
    const Graph graph = chain(3, one_differs);
    const test::Arguments arguments = test::random_arguments(graph, {});
    EXPECT_THAT(test::evaluate_program(graph, find_target("x86-64-v3"), 3, arguments, {}),
                Pointwise(testing::FloatNear(0.5), test::interpret_graph(graph, arguments)));
  }
}

TEST(Program, CallsOfOneKernelHaveTheSizesOfTheirNodes) {
  const Graph graph = parse(
      "fn @main(%n: Tensor[(N, 4), f32], %m: Tensor[(M, 4), f32]) -> (Tensor[(N, 4), f32], Tensor[(M, 4), "
      "f32]) {\n"
      "  %a = exp(%n)\n  %b = exp(%m)\n  return %a, %b\n}\n");
  const Program program = build_program(graph, find_target("x86-64-v3"), {});
  ASSERT_EQ(program.kernels.size(), 1);
  ASSERT_EQ(program.calls.size(), 2);
  EXPECT_THAT(program.calls[0].sizes.dims, ElementsAre(Dim::symbol("N")));
  EXPECT_THAT(program.calls[1].sizes.dims, ElementsAre(Dim::symbol("M")));
}

TEST(Program, WhoeverSchedulesNodesHimselfIsAskedOfEach) {
  CompileOptions options;
  std::vector<std::string> asked;
  options.own_kernel = [&](const Node& node, const std::vector<Tensor>&) -> std::optional<OwnKernel> {
    if (!node.origin.empty()) asked.push_back(node.origin.front());
    return std::nullopt;
  };
  lowered(chain(3, false), options);
  EXPECT_THAT(asked, testing::IsSupersetOf({"conv_0", "conv_1", "conv_2"}));
}

}  // namespace
}  // namespace gantry
