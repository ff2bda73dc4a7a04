// Ifs on data whose branches give tensors of different ranks.
#include <gmock/gmock.h>

#include <cmath>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT
using ::testing::AllOf;
using ::testing::HasSubstr;
using Values = std::vector<double>;

const std::string kOpsets = "opset_import { version: 20 } ";

std::string graph(const std::string& nodes, const std::string& outputs) {
  return "type: GRAPH g { name: 'b' " + nodes + output_list(outputs) + "}";
}
/// An If by the name of its first output; a branch gives the value of that name.
std::string branches(const std::string& condition, const std::string& outputs, const std::string& then_nodes,
                     const std::string& then_outputs, const std::string& else_nodes,
                     const std::string& else_outputs) {
  return node("If", condition, outputs,
              attribute("then_branch", graph(then_nodes, then_outputs)) +
                  attribute("else_branch", graph(else_nodes, else_outputs)));
}
std::string condition(const std::string& name, const std::string& number) {
  return node("Cast", number, name, integer("to", 9));
}
std::string two(const std::string& name) {
  return node("Constant", "", name, attribute("value_float", "type: FLOAT f: 2"));
}

Inputs inputs(double first, double second = 0) {
  return {{"k", {{}, {first}, DType::kI64}}, {"j", {{}, {second}, DType::kI64}}, {"x", {{3}, {1, 2, -3}}}};
}
Values run(const std::string& nodes, const Inputs& given) {
  return results(parse(nodes, given, "y", kOpsets), given)[0];
}

/// A scalar or a vector.
const std::string kNumber =
    condition("c", "k") + branches("c", "s", two("a"), "a", node("Neg", "x", "b"), "b");

TEST(BranchesOfDifferentRanks, WhatReadsThemIsComputedBehindEach) {
  const std::string nodes = kNumber + node("Mul", "x s", "m") + node("Relu", "m", "y");
  EXPECT_EQ(run(nodes, inputs(1)), (Values{2, 4, 0}));
  EXPECT_EQ(run(nodes, inputs(0)), (Values{0, 0, 0}));
  // Up to where ranks are the same again.
  const Graph imported = import_onnx_bytes(parse(nodes, inputs(1), "y", kOpsets).SerializeAsString(), ".");
  const std::vector<Node*>& all = imported.main.nodes();
  ASSERT_GE(all.size(), 2u);
  EXPECT_EQ(all[all.size() - 2]->op->name, "if");
  EXPECT_EQ(all.back()->op->name, "nn.relu");
}

TEST(BranchesOfDifferentRanks, PassThroughOthers) {
  const std::string nodes = kNumber + node("Exp", "s", "e") + node("Neg", "e", "n") + node("Add", "n x", "y");
  expect_near(run(nodes, inputs(1)), {1 - std::exp(2), 2 - std::exp(2), -3 - std::exp(2)}, 1e-5);
  expect_near(run(nodes, inputs(0)), {1 - std::exp(-1), 2 - std::exp(-2), -3 - std::exp(3)}, 1e-5);
}

TEST(BranchesOfDifferentRanks, OtherResultsAreOfBothBranches) {
  const std::string nodes = condition("c", "k") +
                            branches("c", "s r", two("a") + node("Exp", "x", "e"), "a e",
                                     node("Neg", "x", "b") + node("Abs", "x", "f"), "b f") +
                            node("Mul", "x s", "m") + node("Sub", "m r", "y");
  expect_near(run(nodes, inputs(1)), {2 - std::exp(1), 4 - std::exp(2), -6 - std::exp(-3)}, 1e-5);
  expect_near(run(nodes, inputs(0)), {-2, -6, -12}, 1e-6);
}

TEST(BranchesOfDifferentRanks, MayStandInABranchThatIsAlwaysTaken) {
  // Negative x stands behind the branches, and is read beside what they give.
  const std::string always = "initializer { name: 'yes' data_type: 9 int32_data: 1 } ";
  const std::string nodes =
      always + condition("c", "k") +
      branches("yes", "t", branches("c", "s", two("a"), "a", node("Exp", "x", "b"), "b"), "s",
               node("Neg", "x", "o"), "o") +
      node("Neg", "x", "z") + node("Mul", "z t", "y");
  EXPECT_EQ(run(nodes, inputs(1)), (Values{-2, -4, 6}));
  expect_near(run(nodes, inputs(0)), {-std::exp(1), -2 * std::exp(2), 3 * std::exp(-3)}, 1e-5);
}

TEST(BranchesOfDifferentRanks, MayBeReadTogether) {
  const std::string nodes = kNumber + condition("d", "j") +
                            branches("d", "r", node("Exp", "x", "p"), "p", two("q"), "q") +
                            node("Add", "s r", "t") + node("Mul", "t x", "y");
  expect_near(run(nodes, inputs(1, 1)), {2 + std::exp(1), 2 * (2 + std::exp(2)), -3 * (2 + std::exp(-3))},
              1e-5);
  EXPECT_EQ(run(nodes, inputs(1, 0)), (Values{4, 8, -12}));
  expect_near(run(nodes, inputs(0, 1)), {std::exp(1) - 1, 2 * (std::exp(2) - 2), -3 * (std::exp(-3) + 3)},
              1e-5);
  EXPECT_EQ(run(nodes, inputs(0, 0)), (Values{1, 0, -15}));
}

TEST(BranchesOfDifferentRanks, InABodyAreOfItsOwn) {
  const std::string inner =
      branches("d", "s", two("a"), "a", node("Neg", "x", "b"), "b") + node("Mul", "x s", "m");
  const std::string nodes =
      condition("c", "k") + condition("d", "j") + branches("c", "y", inner, "m", node("Abs", "x", "o"), "o");
  EXPECT_EQ(run(nodes, inputs(1, 1)), (Values{2, 4, -6}));
  EXPECT_EQ(run(nodes, inputs(1, 0)), (Values{-1, -4, -9}));
  EXPECT_EQ(run(nodes, inputs(0, 1)), (Values{1, 2, 3}));
}

TEST(BranchesOfDifferentRanks, ABranchBehindWhichNothingFitsEndsTheRun) {
  const Inputs one{{"k", {{}, {1}, DType::kI64}}, {"x", {{1, 3}, {1, 2, -3}}}};
  Inputs none = one;
  none[0].second.values = {0};
  const std::string nodes =
      "initializer { name: 'first' dims: 1 data_type: 7 int64_data: 0 } " + condition("c", "k") +
      branches("c", "s", node("Squeeze", "x first", "a"), "a", node("Neg", "x", "b"), "b") +
      node("Transpose", "s", "t", attribute("perm", "type: INTS ints: [1, 0]")) + node("Relu", "t", "y");
  EXPECT_EQ(run(nodes, none), (Values{0, 0, 3}));
  try {
    run(nodes, one);
    ADD_FAILURE() << "the squeezed tensor has been transposed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("node s"), HasSubstr("then_branch")));
  }
}

TEST(BranchesWithNamesAlike, HaveTheRanksThatEachDeclares) {
  const auto reshaped = [](const std::string& dims) {
    return node("Reshape", "x s", "t") +
           fmt::format("value_info {{ name: 't' type {{ tensor_type {{ elem_type: 1 shape {{ {} }} }} }} }} ",
                       dims);
  };
  const std::string all = integer("keepdims", 0);
  const Graph graph = imported_graph(
      open_input("k", "", 7) + open_input("x", "4") + open_input("s", "S", 7) + condition("c", "k") +
          branches("c", "y", reshaped("dim { }") + node("ReduceSum", "t", "a", all), "a",
                   reshaped("dim { } dim { }") + node("ReduceMax", "t", "b", all), "b"),
      "y");
  const auto of = [&](double chosen, const Given& shape) {
    const Given k{{}, {chosen}, DType::kI64}, x{{4}, {1, 2, 3, 4}};
    const std::vector<ConstantPtr> data{k.constant(), x.constant(), shape.constant()};
    return testing::interpret_function(graph.main, data).at(0)->as<float>()[0];
  };
  EXPECT_EQ(of(1, {{1}, {4}, DType::kI64}), 10);
  EXPECT_EQ(of(0, {{2}, {2, 2}, DType::kI64}), 4);
}

TEST(BranchesOfDifferentRanks, AreNoResultsOfAModel) {
  const onnx::ModelProto model = parse(kNumber + node("Mul", "x s", "y"), inputs(1), "y s", kOpsets);
  try {
    import_onnx_bytes(model.SerializeAsString(), ".");
    ADD_FAILURE() << "an output has two ranks";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("branches whose results differ in rank"), HasSubstr("node s")));
  }
}

}  // namespace
}  // namespace gantry
