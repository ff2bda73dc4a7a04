// Works as programs of their own.
#include "host/records/work_program.h"

#include <gmock/gmock.h>

#include <set>

#include "host/ops/op.h"
#include "host/passes/work_digest.h"
#include "host/support/error.h"

namespace gantry::records {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kNetwork =
    R"(fn @main(%x: Tensor[(N, 8, 12, 12), f32], %s: Tensor[(N, 16, 12, 12), f32]) -> Tensor[(N, 16, 12, 12), f32] {
  %a = nn.relu(%x)
  %c = nn.conv(%a, @w: Tensor[(16, 8, 3, 3), f32], channels=16, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], padding=(1, 1, 1, 1))  // Conv_1
  %y = add(%c, const(f32, [16, 1, 1], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]))  // Conv_1
  %z = add(%y, %s)
  %h = multiply(%z, const(f32, [], [0.5]))
  %o = nn.softmax(%h, axis=1)
  return %o
}
)";

WorkProgram program() {
  const Graph graph = parse_graph(kNetwork, op_set());
  return work_program(graph.main, *graph.main.nodes().at(1));
}

TEST(WorkProgram, IsTheNodeWithWhatItsKernelTakesIn) {
  const Graph graph = graph_of(program(), 1);
  ASSERT_EQ(graph.main.nodes().size(), 4u);
  EXPECT_EQ(graph.main.nodes()[0]->op->name, "nn.conv");
  EXPECT_EQ(graph.main.nodes()[3]->op->name, "multiply");
  EXPECT_EQ(graph.main.parameters.size(), 2u);
  EXPECT_EQ(work_digest(graph.main, *graph.main.nodes()[0]), program().work);
}

TEST(WorkProgram, HasNoWeightsOfTheModelButTheNumbersInCode) {
  EXPECT_THAT(program().text, Not(HasSubstr("13, 14, 15")));
  EXPECT_THAT(program().text, HasSubstr("0.5"));
}

TEST(WorkProgram, OfANodeThatIsCalledByBytesThatAreNoTextIsText) {
  const Graph graph = parse_graph(kNetwork, op_set());
  Node& node = *graph.main.nodes().at(1);
  node.origin = {"c\xff\xfe"};
  const WorkProgram program = work_program(graph.main, node);
  EXPECT_THAT(program.text, HasSubstr("c\\xff\\xfe"));
  EXPECT_NO_THROW(graph_of(program, 1));
}

TEST(WorkProgram, WeightsAreDrawnFromTheSeed) {
  const auto weights = [](uint64_t seed) {
    const Graph graph = graph_of(program(), seed);
    const ConstantData& constant = *graph.main.nodes()[0]->inputs[1]->constant;
    return std::vector<float>(constant.as<float>(), constant.as<float>() + constant.size / sizeof(float));
  };
  EXPECT_EQ(weights(1), weights(1));
  EXPECT_NE(weights(1), weights(2));
  const std::vector<float> drawn = weights(1);
  EXPECT_GT(std::set(drawn.begin(), drawn.end()).size(), drawn.size() / 2);
}

TEST(WorkProgram, TextThatIsOfAnotherWorkIsRefused) {
  const auto error_of = [](const WorkProgram& wrong) -> std::string {
    try {
      graph_of(wrong, 1);
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kUser ? error.what() : "internal";
    }
    return "";
  };
  WorkProgram other = program();
  other.text.replace(other.text.find("16, 8, 3, 3"), 11, "16, 8, 5, 5");
  EXPECT_NE(error_of(other), "");
  EXPECT_THAT(error_of({std::string(64, '0'), program().text}), HasSubstr("does other work"));
  EXPECT_NE(error_of({program().work, "fn @main("}), "");
}

}  // namespace
}  // namespace gantry::records
