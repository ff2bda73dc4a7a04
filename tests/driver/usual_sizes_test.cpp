#include "host/driver/usual_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/codegen/find_target.h"
#include "host/driver/compile.h"
#include "host/driver/decision_file.h"
#include "host/graph/text.h"
#include "host/ops/op.h"
#include "module_generated.h"
#include "tests/support/message_of.h"
#include "tests/support/small_weights.h"

namespace gantry {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// The sum of rows of a and b, one of which may be repeated, and what `nodes` make of x as %y.
Graph sum_beside(const std::string& nodes, const std::string& result) {
  return parse_graph(
      "fn @main(%a: Tensor[(N, 4), f32], %b: Tensor[(M, 4), f32], %x: Tensor[(K), f32]) -> "
      "(Tensor[(broadcast(M, N), 4), f32], Tensor[(" +
          result +
          "), f32]) {\n"
          "  %0 = broadcast_to(%a, shape=(broadcast(M, N), 4), open=[0])\n"
          "  %1 = broadcast_to(%b, shape=(broadcast(M, N), 4), open=[0])\n"
          "  %2 = add(%0, %1)\n" +
          nodes + "  return %2, %y\n}\n",
      op_set());
}

TEST(UsualSizes, AreThoseOfNamesThatBroadcast) {
  const auto usual = usual_sizes(sum_beside("  %y = nn.relu(%x)\n", "K"));
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->equal.size(), 1u);
  EXPECT_EQ(usual->graph.main.outputs[0]->type.shape.size(), 2u);
}

TEST(UsualSizes, AreNoneWhereADimensionWouldBeDividedByZero) {
  const Graph graph = sum_beside("  %y = strided_slice(%x, begin=(0), end=(floordiv(K, N-M)), strides=[1])\n",
                                 "max(floordiv(K, N-M), 0)");
  EXPECT_FALSE(usual_sizes(graph));
}

/// Steps that call kernels, and the kernels' names.
using Calls = std::vector<std::pair<size_t, std::string>>;

Calls calls_of(const module_format::VariantT& variant) {
  Calls calls;
  for (size_t step = 0; step < variant.steps.size(); ++step) {
    const auto* call = variant.steps[step]->action.AsCallKernel();
    if (call != nullptr) calls.emplace_back(step, variant.kernels.at(call->kernel)->symbol);
  }
  return calls;
}

Calls calls_of(const LoweredProgram& program) {
  Calls calls;
  for (const KernelStep& step : program.steps)
    calls.emplace_back(step.step, program.kernels.at(step.kernel).name);
  return calls;
}

TEST(UsualSizes, EveryProgramIsToldInTheOrderOfTheModule) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3"), find_target("aarch64")};
  options.specializations = {{{"K", 3}}};
  std::vector<std::pair<std::string, Calls>> told, compiled;
  options.observer.lowered = [&](const LoweredProgram& program, const Target& target) {
    told.emplace_back(target.name, calls_of(program));
  };
  const ModuleFile module = compile_graph(sum_beside("  %y = nn.relu(%x)\n", "K"), options);
  for (const auto& variant : module.manifest.variants)
    compiled.emplace_back(variant->target, calls_of(*variant));
  ASSERT_EQ(compiled.size(), 8U) << "for all sizes, for K=3, and for M=N beside either";
  EXPECT_EQ(told, compiled);
  EXPECT_NE(told[0], told[3]) << "where M=N nothing is repeated";
}

/// A product of the sum of rows.
Graph product_of_sum() {
  return parse_graph(
      "fn @main(%a: Tensor[(N, 16), f32], %b: Tensor[(M, 16), f32]) -> Tensor[(broadcast(M, N), 8), f32] {\n"
      "  %0 = broadcast_to(%a, shape=(broadcast(M, N), 16), open=[0])  // rows\n"
      "  %1 = broadcast_to(%b, shape=(broadcast(M, N), 16), open=[0])  // others\n"
      "  %2 = add(%0, %1)  // sum\n"
      "  %3 = nn.dense(%2, @w: Tensor[(16, 8), f32], units=8)  // fc\n  return %3\n}\n",
      op_set(), {{"w", testing::small_weights({16, 8})}});
}

/// The module's programs by those decisions.
ModuleFile decided(const std::string& decisions) {
  CompileOptions options;
  options.targets = {find_target("x86-64-v3")};
  options.decisions = std::make_shared<const DecisionFile>(DecisionFile::parse(decisions, "mine.txt"));
  return compile_graph(product_of_sum(), options);
}

TEST(UsualSizes, DecisionsAreForEachProgramThatHasTheNodes) {
  // Where the sizes are equal there is nothing to repeat.
  const ModuleFile module =
      decided("nn.dense {form=plain}  // fc\nnetwork {form=apart} broadcast_to add  // rows -> sum\n");
  ASSERT_EQ(module.manifest.variants.size(), 2U);
  for (const auto& variant : module.manifest.variants)
    EXPECT_THAT(variant->decisions, Contains("nn.dense {form=plain}  // fc"));
  EXPECT_THAT(module.manifest.variants[0]->decisions, Contains(HasSubstr("// rows -> sum")));
}

TEST(UsualSizes, DecisionsForNodesOfNoProgramAreErrors) {
  const std::string line = "nn.dense {form=plain}  // fc\n";
  EXPECT_THAT(testing::message_of([&] { decided(line + line); }),
              HasSubstr("mine.txt:2: nn.dense of fc is decided already, by mine.txt:1"));
  EXPECT_THAT(testing::message_of([&] { decided(line + "nn.dense {form=plain}  // other\n"); }),
              HasSubstr("mine.txt:2: nothing is decided for nn.dense of other"));
  EXPECT_THAT(testing::message_of([&] { decided("network {form=apart} exp add  // rows -> sum\n"); }),
              HasSubstr("mine.txt:1: no add of sum reads what exp of rows makes"));
}

}  // namespace
}  // namespace gantry
