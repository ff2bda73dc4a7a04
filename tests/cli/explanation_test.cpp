// `gantry ir --explain` on small graphs.
#include "host/cli/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/codegen/find_target.h"
#include "host/ops/op.h"

namespace gantry::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two convolutions with what follows them, a pooling between, and a view before the classifier.
Graph network() {
  const auto conv = [](const std::string& input, const std::string& weight, const std::string& origin) {
    return "nn.conv(" + input + ", @" + weight +
           ": Tensor[(16, 16, 3, 3), f32], channels=16, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], "
           "padding=(1, 1, 1, 1))  // " +
           origin + "\n";
  };
  return parse_graph(
      "fn @main(%x: Tensor[(1, 16, 16, 16), f32]) -> Tensor[(1, 10), f32] {\n  %a = " +
          conv("%x", "w", "Conv_0") + "  %b = nn.relu(%a)  // Relu_1\n" +
          "  %c = nn.max_pool(%b, kernel=[2, 2], strides=[2, 2], padding=(0, 0, 0, 0), "
          "dilations=[1, 1])  // MaxPool_2\n  %d = " +
          conv("%c", "v", "Conv_3") +
          "  %e = cumsum(%d, axis=2)  // CumSum_4\n"
          "  %f = reshape(%e, shape=(1, 1024))  // Flatten_5\n"
          "  %g = nn.dense(%f, @u: Tensor[(1024, 10), f32], units=10)  // Gemm_6\n  return %g\n}\n",
      op_set());
}

Explanations explained(const std::string& target) {
  return explain_program(network(), find_target(target), {});
}

const Explanations::Kernel& kernel_of(const Explanations& all, const std::string& node) {
  return *std::ranges::find_if(all.kernels, [&](const Explanations::Kernel& kernel) {
    return std::ranges::find(kernel.nodes, node) != kernel.nodes.end();
  });
}

TEST(Explanation, SaysOfEachKernelWhatItIsForAndWhatJoined) {
  const Explanations all = explained("x86-64-v3");
  const Explanations::Kernel& first = kernel_of(all, "Relu_1");
  std::vector<std::string> rules;
  for (const Explanations::Member& member : first.members) rules.push_back(member.op + " " + member.why.rule);
  EXPECT_THAT(rules, testing::IsSupersetOf({"nn.conv anchor", "nn.relu follows_anchor"}));
  EXPECT_GT(first.cost.cycles.value(), 0);
  EXPECT_THAT(first.decision, HasSubstr("channels last"));
}

TEST(Explanation, NamesTheRuleThatScheduledAKernel) {
  const Explanations all = explained("x86-64-v3");
  const auto rule_of = [](const Explanations& of, const std::string& node) -> std::string {
    const KernelRule* rule = kernel_of(of, node).rule;
    return rule == nullptr ? "" : std::string(rule->name);
  };
  EXPECT_EQ(rule_of(all, "MaxPool_2"), "stages");
  EXPECT_EQ(rule_of(all, "Gemm_6"), "dense");
  const Explanations on_gpu = explained("cuda:sm_80/x86-64-v3");
  EXPECT_EQ(rule_of(on_gpu, "Gemm_6"), "products");
  EXPECT_EQ(rule_of(on_gpu, "MaxPool_2"), "rows");
  EXPECT_EQ(to_json(all)["kernels"][0]["schedule_rule"]["name"], all.kernels[0].rule->name);
}

TEST(Explanation, SaysOfEachReadWhyItIsNotFused) {
  const Explanations all = explained("x86-64-v3");
  const Explanations::Kernel& pool = kernel_of(all, "MaxPool_2");
  ASSERT_EQ(pool.reads.size(), 1u);
  EXPECT_EQ(pool.reads[0].why.rule, "reader_is_anchor");
  EXPECT_EQ(&all.kernels[pool.reads[0].from], &kernel_of(all, "Relu_1"));
  const Explanations::Kernel& dense = kernel_of(all, "Gemm_6");
  ASSERT_EQ(dense.reads.size(), 1u);
  EXPECT_THAT(dense.reads[0].views, ElementsAre("reshape"));
}

TEST(Explanation, SaysWhatChangesLayoutsForWhomAndAtWhatCost) {
  const Explanations all = explained("x86-64-v3");
  const auto found = std::ranges::find_if(all.conversions, [](const Explanations::Conversion& conversion) {
    return conversion.reader == "reshape";
  });
  ASSERT_NE(found, all.conversions.end());
  EXPECT_EQ(found->wish, "channels first");
  EXPECT_THAT(found->origin, ElementsAre("Flatten_5")) << "cumsum sums along an axis wherever it lies";
  EXPECT_FALSE(found->on_the_way);
  EXPECT_EQ(found->bytes, Dim(2 * 4 * 16 * 8 * 8)) << "read and written";
  const double bytes = 2 * 4 * 16 * 8 * 8;
  EXPECT_EQ(found->cost.cycles, bytes / find_target("x86-64-v3").machine.l2_bytes_per_cycle) << "the cache holds them";
}

TEST(Explanation, SharesAreOfAllThatIsPredicted) {
  for (const char* target : {"x86-64-v4", "cortex-a72", "cuda:sm_80/x86-64-v3"}) {
    const Explanations all = explained(target);
    double sum = 0;
    for (const Explanations::Kernel& kernel : all.kernels) sum += kernel.cost.share;
    EXPECT_NEAR(sum, 1, 1e-9) << target;
    EXPECT_EQ(all.target, target);
    EXPECT_FALSE(all.memories.empty());
  }
}

TEST(Explanation, SaysWhatAScheduleAsksForThatAGpuHasNot) {
  // Each block reads the same tensor at two distant places, all of which would have to be in shared memory.
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(1024, 64), f32]) -> Tensor[(64, 1024), f32] {\n"
      "  %a = transpose(%x, axes=[1, 0])  // There\n"
      "  %b = strided_slice(%x, begin=(1023, 0), end=(-1, 64), strides=[-1, 1])  // Flip\n"
      "  %c = transpose(%b, axes=[1, 0])  // Back\n"
      "  %d = add(%a, %c)  // Sum\n  return %d\n}\n",
      op_set());
  const Target gpu = find_target("cuda:sm_80/x86-64-v3");
  const Explanations all = explain_program(graph, gpu, {});
  ASSERT_EQ(all.kernels.size(), 1u);
  const std::string reason = "135168 bytes of shared memory in one launch, at most 49152: in0.read (135168 bytes)";
  EXPECT_EQ(all.kernels[0].misfit, reason);
  EXPECT_THAT(to_text(all, 0), HasSubstr("      without tiles, as the schedule with tiles asks for more than there is: " +
                                         reason + "\n"));
  EXPECT_EQ(to_json(all)["kernels"][0]["misfit"], reason);
  const LoweredProgram program = lower_program(graph, gpu, {});
  EXPECT_THAT(misfits_text(program, "Sum"), HasSubstr(program.kernels[0].name + ": without tiles"));
  EXPECT_EQ(misfits_text(program, "Other"), "");
  EXPECT_EQ(explain_program(graph, find_target("x86-64-v3"), {}).kernels[0].misfit, "") << "no CPU is asked that much";
  EXPECT_TRUE(to_json(explained("x86-64-v3"))["kernels"][0]["misfit"].is_null());
}

/// The kernel of a convolution that is computed so; others convert its images.
Explanations::Kernel decided(const std::string& decision) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(1, 64, 28, 28), f32]) -> Tensor[(1, 64, 28, 28), f32] {\n"
      "  %y = nn.conv(%x, @w: Tensor[(64, 64, 3, 3), f32], channels=64, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], "
      "padding=(1, 1, 1, 1)) " +
          decision + "  // Conv_0\n  return %y\n}\n",
      op_set());
  const Explanations all = explain_program(graph, find_target("x86-64-v3"), {});
  return *std::ranges::find_if(all.kernels, [](const Explanations::Kernel& kernel) {
    return std::ranges::find(kernel.members, "nn.conv", &Explanations::Member::op) != kernel.members.end();
  });
}

TEST(Explanation, PredictsTheKnobsThatANodeHas) {
  // One row takes a block's weights from the cache for every result.
  EXPECT_GT(decided("{form=direct, block=16, rows=1}").cost.cycles.value(),
            1.5 * decided("{form=direct, block=16}").cost.cycles.value());
  EXPECT_GT(decided("{form=winograd4, block=16, rows=1}").cost.cycles.value(),
            1.1 * decided("{form=winograd4, block=16}").cost.cycles.value());
}

TEST(Explanation, NamesTheBlockThatWeightsAreIn) {
  for (const char* block : {"8", "16", "32"})
    EXPECT_THAT(decided("{form=winograd4, block=" + std::string(block) + "}").decision,
                HasSubstr(" x " + std::string(block) + " sums in registers"));
}

/// What no kernel computes: control flow, and sizes that data give.
TEST(Explanation, SaysWhatThePlanDoesItself) {
  struct Case {
    const char *text, *op, *node, *reader;
  };
  const Case cases[] = {
      {"fn @main(%x: Tensor[(4), f32], %c: Tensor[(1), bool]) -> Tensor[(4), f32] {\n"
       "  %0 = if(%c, %x, %x, then_inputs=1, dims=(4)) fn @then(%x: Tensor[(4), f32]) -> Tensor[(4), f32] {\n"
       "    %0 = nn.relu(%x)  // Relu_1\n    return %0\n"
       "  } fn @else(%x: Tensor[(4), f32]) -> Tensor[(4), f32] {\n"
       "    %0 = negative(%x)  // Neg_2\n    return %0\n  }  // If_3\n"
       "  %1 = sigmoid(%0)  // Sigmoid_4\n  return %1\n}\n",
       "if", "If_3", "Sigmoid_4"},
      {"fn @main(%x: Tensor[(4), f32], %n: Tensor[(1), i64]) -> Tensor[(1, d), i64] {\n"
       "  %0 = bind_dims(%n, symbols=(d))  // NonZero_1\n"
       "  %1 = nonzero_positions(%x, extents=(d))  // NonZero_2\n  return %1\n}\n",
       "bind_dims", "NonZero_1", "NonZero_2"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.op);
    const Explanations all = explain_program(parse_graph(each.text, op_set()), find_target("x86-64-v3"), {});
    const Explanations::Kernel& own = kernel_of(all, each.node);
    EXPECT_FALSE(own.step.has_value());
    EXPECT_EQ(own.symbol, each.op);
    EXPECT_TRUE(kernel_of(all, each.reader).step.has_value());
    const std::string text = to_text(all, 0);
    EXPECT_THAT(text, HasSubstr("for x86-64-v3: 1 kernels"));
    EXPECT_THAT(text, HasSubstr(std::string(each.op) + ": the plan itself, without a kernel"));
    EXPECT_TRUE(to_json(all)["kernels"][0]["step"].is_null());
  }
}

TEST(Explanation, ReadsAsText) {
  const std::string text = to_text(explained("x86-64-v3"), 200);
  for (const char* part :
       {"nn.relu    elementwise arithmetic after the anchor nn.conv, of its shape\n",
        "max_pool starts a kernel of its own: a reduction after an anchor\n", "computes MaxPool_2\n",
        "channels first, for reshape (Flatten_5);", "workspace: ", "what lives at once\n"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(Explanation, SaysTheSameInJson) {
  const Explanations all = explained("x86-64-v3");
  const auto json = to_json(all);
  ASSERT_EQ(json["kernels"].size(), all.kernels.size());
  for (size_t i = 0; i < all.kernels.size(); ++i) {
    EXPECT_EQ(json["kernels"][i]["symbol"], all.kernels[i].symbol);
    EXPECT_EQ(json["kernels"][i]["members"].size(), all.kernels[i].members.size());
    EXPECT_EQ(json["kernels"][i]["reads"].size(), all.kernels[i].reads.size());
  }
  EXPECT_EQ(json["conversions"].size(), all.conversions.size());
  EXPECT_EQ(json["memories"][0]["bytes"], all.memories[0].bytes.value());
  EXPECT_GE(json["memories"][0]["ratio"], 1.0);
}

}  // namespace
}  // namespace gantry::cli
