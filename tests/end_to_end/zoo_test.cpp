// The zoo's networks at small sizes. Optimised code is compared with unoptimised code, whose layouts, fusion
// and schedules are others, and that with an evaluation of the graph which does not go through loops at all.
#include <gtest/gtest.h>

#include <map>

#include "host/ops/op.h"
#include "host/tensor/interpret.h"
#include "tests/end_to_end/networks.h"
#include "tests/support/compiled_model.h"

namespace gantry::end_to_end {
namespace {

struct Case {
  const char* name;
  int64_t size, batch;
};

/// Node by node, each tensor expression as it stands. Nothing if an op has none.
std::vector<ConstantPtr> interpret_graph(const Graph& graph, const std::vector<ConstantPtr>& inputs) {
  std::map<const Value*, ConstantPtr> values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.main.parameters[i]] = inputs[i];
  auto value_of = [&](const Value* v) { return v->is_constant() ? v->constant : values.at(v); };
  for (const Node* node : graph.main.nodes()) {
    std::vector<Tensor> tensors;
    std::map<const OperationNode*, ConstantPtr> data;
    for (const Value* input : node->inputs) {
      tensors.push_back(input ? placeholder(to_exprs(input->type.shape), input->type.dtype, "x") : Tensor());
      if (input) data[tensors.back().op().get()] = value_of(input);
    }
    const std::vector<ConstantPtr> results = interpret(op_def(*node).compute(*node, tensors), data);
    if (results.empty()) return {};
    for (size_t i = 0; i < results.size(); ++i) values[node->results[i]] = results[i];
  }
  std::vector<ConstantPtr> outputs;
  for (const Value* output : graph.main.outputs) outputs.push_back(value_of(output));
  return outputs;
}

class Zoo : public ::testing::TestWithParam<Case> {
 protected:
  Graph graph() const { return zoo_graph(GetParam().name, GetParam().size, GetParam().batch); }
};

TEST_P(Zoo, OptimisationLevelsAgree) {
  const Graph network = graph();
  const auto inputs = random_inputs(network);
  const auto plain = run_here("native", 0, 1)(network, inputs);
  const bool small =
      std::string(GetParam().name) == "bert_tiny" || std::string(GetParam().name) == "squeezenet1_1";
  for (int level : small ? std::vector{1, 2, 3} : std::vector{3}) {
    EXPECT_LE(worst_error(run_here("native", level)(network, inputs), plain), kTolerance)
        << "level " << level;
  }
}

#if defined(__x86_64__)
class VectorWidths : public Zoo {};

TEST_P(VectorWidths, AndThreadsAgree) {
  const Graph network = graph();
  const auto inputs = random_inputs(network);
  const auto plain = run_here("native", 0, 1)(network, inputs);
  EXPECT_LE(worst_error(run_here("x86-64-v2", 3, 1)(network, inputs), plain), kTolerance);
  const auto single = run_here("native", 3, 1)(network, inputs);
  EXPECT_EQ(worst_error(run_here("native", 3, 3)(network, inputs), single), 0) << "threads change results";
}

INSTANTIATE_TEST_SUITE_P(Networks, VectorWidths,
                         ::testing::Values(Case{"resnet18", 33, 2}, Case{"mobilenet_v3", 64, 1},
                                           Case{"shufflenet_v2", 32, 1}, Case{"bert_tiny", 19, 2},
                                           Case{"lstm", 9, 3}),
                         [](const auto& info) { return std::string(info.param.name); });
#endif

INSTANTIATE_TEST_SUITE_P(Networks, Zoo,
                         ::testing::Values(Case{"resnet18", 64, 2}, Case{"resnet50", 33, 1},
                                           Case{"mobilenet_v2", 64, 1}, Case{"mobilenet_v3", 64, 2},
                                           Case{"efficientnet_b0", 48, 1}, Case{"shufflenet_v2", 64, 1},
                                           Case{"squeezenet1_1", 65, 2}, Case{"densenet121", 64, 1},
                                           Case{"bert_tiny", 19, 2}, Case{"lstm", 9, 3}),
                         [](const auto& info) { return std::string(info.param.name); });

class Interpreted : public Zoo {};

TEST_P(Interpreted, UnoptimisedCodeComputesWhatTheGraphSays) {
  const Graph network = graph();
  const auto inputs = random_inputs(network);
  const auto expected = interpret_graph(network, inputs);
  ASSERT_FALSE(expected.empty());
  EXPECT_LE(worst_error(run_here("native", 0, 1)(network, inputs), expected), kTolerance);
  EXPECT_LE(worst_error(run_here("native", 3, 2)(network, inputs), expected), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Networks, Interpreted,
                         ::testing::Values(Case{"resnet18", 32, 1}, Case{"mobilenet_v2", 32, 1},
                                           Case{"squeezenet1_1", 48, 1}, Case{"bert_tiny", 7, 1}),
                         [](const auto& info) { return std::string(info.param.name); });

class EmulatedBoard : public Zoo {};

TEST_P(EmulatedBoard, AgreesWithThisMachine) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  const Graph network = graph();
  const auto inputs = random_inputs(network);
  const auto here = run_here("native", 0, 1)(network, inputs);
  EXPECT_LE(worst_error(run_on_emulated_board("aarch64")(network, inputs), here), kTolerance);
  EXPECT_LE(worst_error(run_on_emulated_board("cortex-a76")(network, inputs), here), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Networks, EmulatedBoard,
                         ::testing::Values(Case{"resnet18", 48, 1}, Case{"mobilenet_v3", 40, 1},
                                           Case{"bert_tiny", 11, 1}, Case{"lstm", 6, 1}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gantry::end_to_end
