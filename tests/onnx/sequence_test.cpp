// Sequences and optionals: which tensors they are is known when a model is read.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Inputs kThree = {{"a", {{2}, {1, 2}}}, {"b", {{2}, {3, 4}}}, {"c", {{2}, {5, 6}}}};
const std::string kNumbers = [] {
  std::string text;
  for (int i = -3; i <= 3; ++i)
    text += fmt::format("initializer {{ name: 'n{}{}' data_type: 7 int64_data: {} }} ", i < 0 ? "m" : "", std::abs(i), i);
  return text;
}();

std::vector<std::vector<double>> run(const std::string& nodes, const std::string& outputs, const Inputs& inputs = kThree) {
  return results(parse(kNumbers + nodes, inputs, outputs, kNewest), inputs);
}
std::string graph(const std::string& name, const std::string& inputs, const std::string& nodes, const std::string& outputs) {
  std::string text = "type: GRAPH g { name: 'body' " + nodes + output_list(outputs);
  std::istringstream words(inputs);
  for (std::string word; words >> word;) text += fmt::format("input {{ name: '{}' }} ", word);
  return attribute(name, text + "}");
}

TEST(Sequence, ElementsAreInsertedErasedAndTaken) {
  const std::string nodes = node("SequenceConstruct", "a b", "s") + node("SequenceInsert", "s c n1", "t") +
                            node("SequenceAt", "t n1", "second") + node("SequenceAt", "t nm1", "last") +
                            node("SequenceErase", "t n0", "u") + node("SequenceAt", "u n0", "first") +
                            node("SequenceErase", "u", "v") + node("SequenceLength", "v", "length");
  EXPECT_THAT(run(nodes, "second last first length"),
              ElementsAre(ElementsAre(5, 6), ElementsAre(3, 4), ElementsAre(5, 6), ElementsAre(1)));
}

TEST(Sequence, GoesBehindTheLastOrBeforeAPositionFromTheEnd) {
  const std::string nodes = node("SequenceEmpty", "", "s") + node("SequenceInsert", "s a", "t") +
                            node("SequenceInsert", "t b n1", "u") + node("SequenceInsert", "u c nm1", "v") +
                            node("ConcatFromSequence", "v", "all", integer("axis", 0));
  EXPECT_THAT(run(nodes, "all"), ElementsAre(ElementsAre(1, 2, 5, 6, 3, 4)));
}

TEST(Sequence, IsStackedAlongANewAxis) {
  const std::string nodes = node("SequenceConstruct", "a b c", "s") +
                            node("ConcatFromSequence", "s", "y", integer("axis", 1) + integer("new_axis", 1));
  EXPECT_THAT(run(nodes, "y"), ElementsAre(ElementsAre(1, 3, 5, 2, 4, 6)));
}

TEST(Sequence, IsIndexedByDataWhereItsTensorsAreAlike) {
  const std::string nodes = node("SequenceConstruct", "a b c", "s") + node("SequenceAt", "s at", "y");
  for (const auto& [at, expected] : std::map<double, std::vector<double>>{{0, {1, 2}}, {2, {5, 6}}, {-2, {3, 4}}}) {
    Inputs inputs = kThree;
    inputs.push_back({"at", {{}, {at}, DType::kI64}});
    EXPECT_THAT(run(nodes, "y", inputs), ElementsAre(expected));
  }
}

TEST(Sequence, PositionsOutsideNameTheNode) {
  for (const char* position : {"n2", "nm3"}) {
    try {
      run(node("SequenceConstruct", "a b", "s") + node("SequenceAt", fmt::format("s {}", position), "y"), "y");
      FAIL() << position;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("in a sequence of 2"));
    }
  }
}

TEST(Sequence, OfPartsOfATensor) {
  const Inputs inputs = {{"x", random({5, 2}, 1)}, {"y", random({3, 4}, 2)}};
  const auto& x = inputs[0].second.values;
  const std::string nodes = "initializer { name: 'sizes' dims: 2 data_type: 7 int64_data: [1, 4] } " +
                            node("SplitToSequence", "x n2", "s") + node("SequenceAt", "s n2", "rest") +
                            node("SplitToSequence", "x sizes", "t") + node("SequenceAt", "t n1", "four") +
                            node("SplitToSequence", "y", "u", integer("axis", 1) + integer("keepdims", 0)) +
                            node("SequenceLength", "u", "columns") + node("SequenceAt", "u n3", "column") +
                            node("Shape", "column", "shape");
  const auto all = run(nodes, "rest four columns shape", inputs);
  EXPECT_EQ(all[0], std::vector<double>(x.begin() + 8, x.end()));
  EXPECT_EQ(all[1], std::vector<double>(x.begin() + 2, x.end()));
  EXPECT_THAT(all[2], ElementsAre(4));
  EXPECT_THAT(all[3], ElementsAre(3));
}

TEST(Sequence, PartsThatDoNotMakeTheTensorAreRefused) {
  const Inputs inputs = {{"x", random({5}, 1)}};
  EXPECT_THROW(run("initializer { name: 'sizes' dims: 2 data_type: 7 int64_data: [1, 3] } " +
                       node("SplitToSequence", "x sizes", "s") + node("SequenceAt", "s n0", "y"),
                   "y", inputs),
               Error);
}

TEST(Sequence, IsMappedElementByElement) {
  const std::string body = graph("body", "e f", node("Add", "e f", "g") + node("Mul", "e e", "h"), "g h");
  const std::string nodes = node("SequenceConstruct", "a b", "s") + node("SequenceMap", "s c", "sums squares", body) +
                            node("ConcatFromSequence", "sums", "y", integer("axis", 0)) +
                            node("ConcatFromSequence", "squares", "z", integer("axis", 0));
  EXPECT_THAT(run(nodes, "y z"), ElementsAre(ElementsAre(6, 8, 8, 10), ElementsAre(1, 4, 9, 16)));
}

TEST(Sequence, GrowsInALoopOfAKnownNumberOfTurns) {
  const std::string body =
      graph("body", "i c s", node("Identity", "c", "d") + node("Add", "a b", "e") + node("SequenceInsert", "s e", "t") +
                                 node("SequenceLength", "t", "length"),
            "d t length");
  const std::string nodes = node("SequenceConstruct", "a", "s") + node("Loop", "n3 - s", "t lengths", body) +
                            node("ConcatFromSequence", "t", "y", integer("axis", 0));
  EXPECT_THAT(run(nodes, "y lengths"), ElementsAre(ElementsAre(1, 2, 4, 6, 4, 6, 4, 6), ElementsAre(2, 3, 4)));
}

TEST(Sequence, ComesOfABranchThatDataChoose) {
  const std::string branches = graph("then_branch", "", node("SequenceConstruct", "a b", "p"), "p") +
                               graph("else_branch", "", node("SequenceConstruct", "c a", "q"), "q");
  const std::string nodes = node("ReduceSum", "a", "sum", integer("keepdims", 0)) +
                            "initializer { name: 'zero' data_type: 1 float_data: 0 } " + node("Greater", "sum zero", "more") +
                            node("If", "more", "s", branches) + node("ConcatFromSequence", "s", "y", integer("axis", 0));
  EXPECT_THAT(run(nodes, "y"), ElementsAre(ElementsAre(1, 2, 3, 4)));
  Inputs less = kThree;
  less[0].second.values = {-1, -2};
  EXPECT_THAT(run(nodes, "y", less), ElementsAre(ElementsAre(5, 6, -1, -2)));
}

TEST(Sequence, AnInputsElementsAreInputsAndAnOutputsOutputs) {
  const std::string text =
      "ir_version: 8 " + kNewest +
      " graph { name: 'g' input { name: 'x' type { sequence_type { elem_type { tensor_type { elem_type: 1 shape { dim { "
      "dim_param: 'N' } } } } } } } " +
      node("SequenceMap", "x", "y", graph("body", "e", node("Neg", "e", "f"), "f")) + output_list("y") + "}";
  onnx::ModelProto proto;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  ImportOptions options;
  options.shapes["x"] = {2};
  options.shapes["x[1]"] = {3};
  const Graph graph = import_onnx_bytes(proto.SerializeAsString(), ".", options);
  ASSERT_EQ(graph.main.parameters.size(), 2u);
  EXPECT_EQ(graph.main.parameters[1]->name, "x[1]");
  EXPECT_THAT(graph.main.output_names, ElementsAre("y[0]", "y[1]"));
  // The elements may be of other sizes.
  EXPECT_FALSE(graph.main.outputs[0]->type.shape[0].is_constant());
  EXPECT_EQ(graph.main.outputs[1]->type.shape, (Shape{3}));
}

TEST(Optional, SaysWhetherItHasAValueAndGivesIt) {
  const std::string type = attribute("type", "type: TYPE_PROTO tp { tensor_type { elem_type: 1 } }");
  const std::string nodes = node("Optional", "a", "some") + node("Optional", "", "none", type) +
                            node("OptionalHasElement", "some", "p") + node("OptionalHasElement", "none", "q") +
                            node("OptionalGetElement", "some", "y") + node("Cast", "p", "has", integer("to", 7)) +
                            node("Cast", "q", "lacks", integer("to", 7));
  EXPECT_THAT(run(nodes, "y has lacks"), ElementsAre(ElementsAre(1, 2), ElementsAre(1), ElementsAre(0)));
  EXPECT_THROW(run(node("Optional", "", "none", type) + node("OptionalGetElement", "none", "y"), "y"), Error);
}

/// has = whether the input x has a value, whose type is that.
std::string model_of_optional(const std::string& type) {
  onnx::ModelProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 10 opset_import { version: 18 } graph { name: 'g' " + node("OptionalHasElement", "x", "p") +
          node("Cast", "p", "has", integer("to", 7)) + output_list("has") + "input { name: 'x' type { " + type + " } } }",
      &proto));
  return proto.SerializeAsString();
}
const std::string kTensorType = "tensor_type { elem_type: 1 shape { dim { dim_value: 2 } } }";

TEST(Optional, InputsHaveNoValueWhereThatIsSaid) {
  for (const std::string& type : {kTensorType, "sequence_type { elem_type { " + kTensorType + " } }"}) {
    const std::string model = model_of_optional("optional_type { elem_type { " + type + " } }");
    ImportOptions options;
    options.shapes["x"] = {kNoValue};
    const Graph graph = import_onnx_bytes(model, ".", options);
    EXPECT_TRUE(graph.main.parameters.empty());
    EXPECT_EQ(*testing::interpret_function(graph.main, {}).at(0)->as<int64_t>(), 0);
  }
  const Graph with_value = import_onnx_bytes(model_of_optional("optional_type { elem_type { " + kTensorType + " } }"), ".");
  EXPECT_EQ(with_value.main.parameters.size(), 1u);
  EXPECT_EQ(*testing::interpret_function(with_value.main, {make_constant({DType::kF32, {2}}, std::vector<float>{1, 2}.data())})
                 .at(0)
                 ->as<int64_t>(),
            1);
}

TEST(Optional, InputsOfOtherTypesNeedAValue) {
  ImportOptions options;
  options.shapes["x"] = {kNoValue};
  try {
    import_onnx_bytes(model_of_optional(kTensorType), ".", options);
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("input 'x' is no optional"));
  }
}

}  // namespace
}  // namespace gantry
