// What an import takes for granted where only data decide on a rank.
#include "host/onnx/assumptions.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <onnx/onnx_pb.h>

#include "host/onnx/import.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;

Graph imported(const std::string& graph, std::vector<std::string>* warnings = nullptr) {
  onnx::ModelProto proto;
  const std::string text = "ir_version: 8 opset_import { version: 17 } graph { name: 'g' " + graph + "}";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  ImportOptions options;
  options.warn = [&](const std::string& warning) {
    if (warnings != nullptr) warnings->push_back(warning);
  };
  return import_onnx_bytes(proto.SerializeAsString(), ".", options);
}

/// Whether all constraints hold for N of this size.
bool takes(const Graph& graph, int64_t size) {
  return std::ranges::all_of(graph.main.constraints, [&](const DimConstraint& c) {
    const std::map<std::string, int64_t> sizes{{"N", size}};
    return c.left.evaluate(sizes) == c.right.evaluate(sizes);
  });
}

std::string floats(const std::string& kind, const std::string& name, const std::string& dims) {
  return kind + " { name: '" + name + "' type { tensor_type { elem_type: 1 shape { " + dims + "} } } } ";
}
const std::string kOpen = "dim { dim_param: 'N' } ";

TEST(Assumptions, GiveTheLikelyAnswerWhereNoneIsGiven) {
  Assumptions assumptions({true});
  EXPECT_TRUE(assumptions.answer(false));
  EXPECT_FALSE(assumptions.answer(false));
  EXPECT_TRUE(assumptions.answer(true));
  EXPECT_THAT(assumptions.answers(), ElementsAre(true, false, true));
}

TEST(Assumptions, TheImportIsTakenThatContradictsItselfLeast) {
  // Two questions; the second one's other answer is right, the first one's makes no difference.
  std::vector<std::vector<bool>> tried;
  const Attempt best = best_attempt([&](std::vector<bool> answers) {
    tried.push_back(answers);
    Assumptions assumptions(std::move(answers));
    assumptions.answer(true);
    const bool second = assumptions.answer(true);
    Attempt attempt;
    attempt.graph.emplace();
    attempt.answers = assumptions.answers();
    attempt.contradictions = second ? 2 : 0;
    return attempt;
  });
  EXPECT_THAT(best.answers, ElementsAre(true, false));
  EXPECT_THAT(tried,
              ElementsAre(std::vector<bool>{}, std::vector<bool>{false}, std::vector<bool>{true, false}));
}

TEST(Assumptions, AnImportThatFailsIsTakenOnlyWhereAllDo) {
  const auto attempt = [](bool fails) {
    Attempt made;
    if (!fails) made.graph.emplace();
    made.answers = {fails};
    return made;
  };
  EXPECT_TRUE(best_attempt([&](const std::vector<bool>& answers) {
                return attempt(answers.empty());
              }).graph.has_value());
  EXPECT_FALSE(best_attempt([&](const std::vector<bool>&) { return attempt(true); }).graph.has_value());
}

TEST(Assumptions, ConstraintsAreBrokenByTheSizesThatOthersAskFor) {
  const Dim n = Dim::symbol("N"), m = Dim::symbol("M");
  Function function;
  function.constraints = {{n, 1, "a"}, {n + m, 3, "b"}, {min(1, (n - 1) * (n - 1)), 1, "c"}, {n * 2, 2, "d"}};
  EXPECT_EQ(broken_constraints(function), 1U);
}

TEST(Squeeze, DropsAnOpenDimensionWhereTheModelDeclaresARankWithoutIt) {
  const std::string node = "node { op_type: 'Squeeze' input: 'x' output: 'y' } ";
  std::vector<std::string> warnings;
  const Graph without = imported(
      node + floats("input", "x", kOpen + "dim { dim_value: 1 } ") + floats("output", "y", ""), &warnings);
  EXPECT_EQ(without.main.outputs[0]->type.rank(), 0);
  EXPECT_TRUE(takes(without, 1) && !takes(without, 2));
  EXPECT_THAT(warnings, ElementsAre(::testing::HasSubstr("N is taken to be 1")));
  const Graph with =
      imported(node + floats("input", "x", kOpen + "dim { dim_value: 1 } ") + floats("output", "y", kOpen));
  EXPECT_EQ(with.main.outputs[0]->type.rank(), 1);
  EXPECT_TRUE(takes(with, 2) && !takes(with, 1));
}

// Nothing is declared of what Squeeze gives: that the output has no rank left tells.
TEST(Squeeze, DropsAnOpenDimensionWhereAnOutputBehindItHasARankWithoutIt) {
  const Graph graph = imported(
      "node { op_type: 'Squeeze' input: 'x' output: 's' } node { op_type: 'Abs' input: 's' output: 'y' } " +
      floats("input", "x", kOpen) + floats("output", "y", ""));
  EXPECT_EQ(graph.main.outputs[0]->type.rank(), 0);
  EXPECT_TRUE(takes(graph, 1) && !takes(graph, 2));
}

}  // namespace
}  // namespace gantry
