// What the node Gradient differentiates: which part of the graph, at which values.
#include <gmock/gmock.h>

#include "host/support/error.h"
#include "tests/onnx/differentiated.h"

namespace gantry {
namespace {

using namespace differentiated;  // NOLINT
using model_text::attribute;
using model_text::expect_near;
using model_text::integer;
using model_text::node;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Values = std::vector<double>;

const Inputs64 kX{{"x", {{3}, {1, 2, -3}}}};
const Inputs64 kTwo{{"x", {{3}, {1, 2, -3}}}, {"v", {{3}, {5, 7, 11}}}};

std::string error_of(const std::string& nodes, const Inputs64& inputs, const std::string& outputs) {
  std::string graph;
  for (const auto& [name, tensor] : inputs) graph += declared(name, tensor);
  try {
    imported(graph + nodes, outputs);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Gradient, IsThatOfTheSumOfWhatIsDifferentiated) {
  const auto y = run(node("Mul", "x x", "y") + gradient("x", "y", "x", "d"), kX, "y d");
  EXPECT_EQ(y[0], (Values{1, 4, 9}));
  EXPECT_EQ(y[1], (Values{2, 4, -6}));
}

TEST(Gradient, IsTakenAtTheValuesOfItsInputs) {
  const auto y = run(node("Mul", "x x", "y") + gradient("x", "y", "v", "d"), kTwo, "y d");
  EXPECT_EQ(y[0], (Values{1, 4, 9}));
  EXPECT_EQ(y[1], (Values{10, 14, 22}));
}

TEST(Gradient, InputsMayHaveOtherShapesThanTheTensorsThatTheyStandFor) {
  const auto d =
      run(node("Mul", "x x", "y") + gradient("x", "y", "w", "d"), {kX[0], {"w", {{1, 2}, {5, 6}}}}, "d");
  EXPECT_EQ(d[0], (Values{10, 12}));
}

TEST(Gradient, OfATensorInTheMiddleDoesNotReachWhatItIsComputedFrom) {
  const std::string nodes = node("Mul", "x x", "h") + node("Mul", "h x", "y");
  EXPECT_EQ(run(nodes + gradient("h", "y", "h", "d"), kX, "d")[0], (Values{1, 2, -3}));
  // x and h are varied on their own; h is held.
  const auto both = run(nodes + gradient("x h", "y", "x h", "dx dh"), kX, "dx dh");
  EXPECT_EQ(both[0], (Values{1, 4, 9}));
  EXPECT_EQ(both[1], (Values{1, 2, -3}));
  EXPECT_EQ(run(nodes + gradient("x", "y", "x h", "d", "h"), kX, "d")[0], (Values{1, 4, 9}));
  // Without it in zs the way goes on.
  EXPECT_EQ(run(nodes + gradient("x", "y", "x", "d"), kX, "d")[0], (Values{3, 12, 27}));
  EXPECT_EQ(run(nodes + gradient("x", "y", "x v", "d", "h"), kTwo, "d")[0], (Values{5, 7, 11}));
}

TEST(Gradient, OfANameThatIsNothingButAnother) {
  // The reshape changes nothing, so that h and g are one value of the graph.
  const std::string nodes =
      integers("s", {3}) + node("Mul", "x x", "g") + node("Reshape", "g s", "h") + node("Mul", "h g", "y");
  const auto d = run(nodes + gradient("h", "y", "h", "d"), kX, "d");
  EXPECT_EQ(d[0], (Values{1, 4, 9}));
}

TEST(Gradient, OfConstantsIsNotLostInWhatIsComputedOfThemBeforehand) {
  const std::string nodes = doubles("w", {3}, {2, 3, 4}) + node("Mul", "w w", "s") + node("Mul", "s x", "y");
  const auto d =
      run(nodes + gradient("w", "y", "w", "d", "") + gradient("w", "y", "w x", "e", "x"), kX, "d e");
  EXPECT_EQ(d[0], (Values{4, 12, -24}));
  EXPECT_EQ(d[1], d[0]);
}

TEST(Gradient, DrawsTheNumbersOfWhatItDifferentiates) {
  const std::string nodes =
      doubles("w", {}, {3}) + "initializer { name: 'ratio' data_type: 1 float_data: 0.5 } " +
      "initializer { name: 'train' data_type: 9 int32_data: 1 } " + node("Mul", "w x", "p") +
      node("Dropout", "p ratio train", "y") + gradient("w", "y", "w", "d") + node("ReduceSum", "y", "total");
  const Inputs64 ones{{"x", {{64}, Values(64, 1)}}};
  const auto y = run(nodes, ones, "y d total");
  // Of those that stay each counts twice.
  EXPECT_EQ(std::ranges::count(y[0], 0) + std::ranges::count(y[0], 6), 64);
  EXPECT_GT(std::ranges::count(y[0], 0), 0);
  EXPECT_EQ(y[1][0] * 3, y[2][0]);
}

TEST(Gradient, ConstantsThatSteerShapesStayKnown) {
  const std::string nodes = integers("s", {3, 1}) + node("Mul", "x x", "q") + node("Reshape", "q s", "y");
  EXPECT_EQ(run(nodes + gradient("x", "y", "x s", "d", "s"), kX, "d")[0], (Values{2, 4, -6}));
}

TEST(Gradient, OfAGradientIsASecondDerivative) {
  const std::string nodes = node("Mul", "x x", "q") + node("Mul", "q x", "y") + gradient("x", "y", "x", "d") +
                            gradient("x", "d", "x", "dd") + gradient("x", "d", "v", "at_v");
  const auto y = run(nodes, kTwo, "d dd at_v");
  EXPECT_EQ(y[0], (Values{3, 12, 27}));
  EXPECT_EQ(y[1], (Values{6, 12, -18}));
  EXPECT_EQ(y[2], (Values{30, 42, 66}));
}

TEST(Gradient, SecondDerivativesOfActivationsAreFiniteWhereTheirBranchesOverflow) {
  const Inputs64 large{{"x", {{2}, {1000, -1}}}};
  const auto y =
      run(node("Elu", "x", "y") + gradient("x", "y", "x", "d") + gradient("x", "d", "x", "dd"), large, "dd");
  expect_near(y[0], {0, std::exp(-1.0)}, 1e-12);
}

TEST(Gradient, IsZeroWhereNothingDepends) {
  const auto d = run(node("Exp", "v", "y") + gradient("x", "y", "x", "d"), kTwo, "d");
  EXPECT_EQ(d[0], (Values{0, 0, 0}));
  EXPECT_EQ(run(node("Exp", "v", "y") + gradient("y", "y", "y", "d"), kTwo, "d")[0], (Values{1, 1, 1}));
}

TEST(Gradient, OutputsThatNobodyAsksForAreNotComputed) {
  const auto d = run(node("Mul", "x v", "y") + gradient("x v", "y", "x v", "- d"), kTwo, "d");
  EXPECT_EQ(d[0], (Values{1, 2, -3}));
  // What x goes through has no derivative, but nobody asks for it.
  const std::string nodes = node("Cast", "x", "i", integer("to", 7)) +
                            node("Cast", "i", "c", integer("to", 11)) + node("Mul", "c v", "y");
  EXPECT_EQ(run(nodes + gradient("x v", "y", "x v", "- d"), kTwo, "d")[0], (Values{1, 2, -3}));
}

TEST(Gradient, DoesNotPassIntegers) {
  const std::string nodes = node("Cast", "x", "i", integer("to", 7)) +
                            node("Cast", "i", "c", integer("to", 11)) + node("Mul", "c x", "y");
  EXPECT_EQ(run(nodes + gradient("x", "y", "x", "d"), kX, "d")[0], (Values{1, 2, -3}));
}

TEST(Gradient, HasTheTypeOfWhatIsVaried) {
  const std::string nodes = node("Cast", "x", "n", integer("to", 1)) + node("Mul", "n n", "m") +
                            node("Cast", "m", "y", integer("to", 11)) + gradient("n", "y", "n", "d") +
                            gradient("x", "y", "x", "e");
  const Graph graph = imported(declared("x", kX[0].second) + nodes, "d e");
  EXPECT_EQ(graph.main.outputs[0]->type.dtype, DType::kF32);
  EXPECT_EQ(graph.main.outputs[1]->type.dtype, DType::kF64);
  EXPECT_EQ(run(nodes, kX, "e")[0], (Values{2, 4, -6}));
}

TEST(Gradient, SumsOverDimensionsThatAreKnownWhenTheModelRuns) {
  const std::string x = declared("x", "dim { dim_param: 'N' } dim { dim_value: 2 }");
  const std::string graph = x + declared("w", "dim { dim_value: 2 } dim { dim_value: 3 }") +
                            declared("b", "dim { dim_value: 3 }") + node("MatMul", "x w", "p") +
                            node("Add", "p b", "s") + node("ReduceMean", "s", "y", integer("keepdims", 0)) +
                            gradient("x w b", "y", "x w b", "dx dw db");
  const Graph imported_graph = imported(graph, "dx dw db");
  EXPECT_EQ(imported_graph.main.outputs[0]->type.shape, (Shape{Dim::symbol("N"), 2}));
  EXPECT_EQ(imported_graph.main.outputs[1]->type.shape, (Shape{2, 3}));
  const auto d =
      run(imported_graph,
          {{"x", {{2, 2}, {1, 2, 3, 4}}}, {"w", {{2, 3}, {1, 2, 3, 4, 5, 6}}}, {"b", {{3}, {0, 0, 0}}}});
  expect_near(d[0], {1, 2.5, 1, 2.5}, 1e-12);
  expect_near(d[1], {4.0 / 6, 4.0 / 6, 4.0 / 6, 1, 1, 1}, 1e-12);
  expect_near(d[2], {1.0 / 3, 1.0 / 3, 1.0 / 3}, 1e-12);
}

/// A body that runs three times.
std::string loop(const std::string& body, const std::string& state) {
  const std::string value = "type { tensor_type { elem_type: 11 shape { dim { dim_value: 3 } } } } ";
  const std::string graph =
      "name: 'body' input { name: 'turn' type { tensor_type { elem_type: 7 shape { } } } } "
      "input { name: 'go' type { tensor_type { elem_type: 9 shape { } } } } input { name: 's' " +
      value + "} " + body +
      "output { name: 'again' type { tensor_type { elem_type: 9 shape { } } } } output { name: 'next' " +
      value + "} ";
  return integers("three", {}, {3}) +
         node("Loop", "three - " + state, "end", attribute("body", "type: GRAPH g { " + graph + "}"));
}

TEST(Gradient, InABodyDescends) {
  const std::string body = node("Identity", "go", "again") + node("Mul", "s s", "f") +
                           gradient("s", "f", "s", "d") + node("Mul", "d quarter", "step") +
                           node("Sub", "s step", "next");
  const auto y = run(doubles("quarter", {}, {0.25}) + loop(body, "x"), kX, "end");
  EXPECT_EQ(y[0], (Values{0.125, 0.25, -0.375}));
}

TEST(Gradient, InABodyMayBeOfTheGraphAroundIt) {
  const std::string body = node("Identity", "go", "again") + gradient("x", "y", "s", "next");
  // Three times the derivative of the square: 2 s.
  const auto y = run(node("Mul", "x x", "y") + loop(body, "x"), kX, "end");
  EXPECT_EQ(y[0], (Values{8, 16, -24}));
}

TEST(Gradient, MayComeBeforeWhatItDifferentiates) {
  const auto y = run(gradient("x", "y", "x", "d") + node("Mul", "x x", "y"), kX, "d y");
  EXPECT_EQ(y[0], (Values{2, 4, -6}));
  EXPECT_EQ(y[1], (Values{1, 4, 9}));
}

TEST(Gradient, NamesTheOpThatHasNoDerivative) {
  const std::string nodes =
      node("Det", "x", "t", "name: 'volume' ") + node("Mul", "t t", "y") + gradient("x", "y", "x", "d");
  EXPECT_THAT(error_of(nodes, {{"x", {{2, 2}, {1, 2, 3, 4}}}}, "d"),
              AllOf(HasSubstr("linalg.det"), HasSubstr("volume"), HasSubstr("node d")));
}

// Each would be a node.
TEST(Gradient, OfWindowsOverVeryManyChannelsIsRefused) {
  const std::string nodes =
      node("LRN", "x", "y", integer("size", int64_t{1} << 40)) + gradient("x", "y", "x", "d");
  EXPECT_THAT(error_of(nodes, {{"x", {{1, 2, 1, 1}, {1, 2}}}}, "d"),
              HasSubstr("over more than 1024 channels"));
}

TEST(Gradient, WithoutSenseIsRefused) {
  const std::string square = node("Mul", "x x", "y");
  EXPECT_THAT(error_of(square + gradient("x", "nothing", "x", "d"), kX, "d"), HasSubstr("'nothing'"));
  EXPECT_THAT(error_of(square + gradient("x", "y", "x x", "d"), kX, "d"),
              HasSubstr("2 inputs for the 1 tensors"));
  EXPECT_THAT(error_of(square + gradient("x", "y", "x x", "d", "x"), kX, "d"), HasSubstr("'x' twice"));
  EXPECT_THAT(error_of(square + gradient("x", "y", "x", "d e"), kX, "d"),
              HasSubstr("2 outputs for the 1 tensors"));
  EXPECT_THAT(error_of(gradient("x", "y", "x", "d") + node("Mul", "d x", "y"), kX, "d"),
              HasSubstr("'y' is computed from its own results"));
  const std::string whole = node("Cast", "x", "i", integer("to", 7));
  EXPECT_THAT(error_of(whole + gradient("x", "i", "x", "d"), kX, "d"), HasSubstr("which has no derivatives"));
  EXPECT_THAT(error_of(whole + square + gradient("i", "y", "i", "d"), kX, "d"),
              HasSubstr("by which nothing has a derivative"));
}

}  // namespace
}  // namespace gantry
