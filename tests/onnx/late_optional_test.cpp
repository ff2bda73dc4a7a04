// Optionals of which only the running model knows whether they have a value.
#include <gmock/gmock.h>

#include "tests/onnx/late_models.h"
#include "tests/support/message_of.h"

namespace gantry {
namespace {

using namespace late_models;  // NOLINT
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// maybe: a if m > 0
const std::string kMaybe =
    kMore + node("If", "more", "maybe",
                 branches(node("Optional", "a", "some"), "some",
                          node("Optional", "", "none", optional_type(kOfFloats)), "none"));

TEST(LateOptional, SaysWhetherItHasAValueAndGivesIt) {
  const std::string has =
      kMaybe + node("OptionalHasElement", "maybe", "p") + node("Cast", "p", "has", integer("to", 7));
  EXPECT_THAT(run(has, "has", three_and(1)), ElementsAre(ElementsAre(1)));
  EXPECT_THAT(run(has, "has", three_and(0)), ElementsAre(ElementsAre(0)));
  const std::string gives = kMaybe + node("OptionalGetElement", "maybe", "value") + node("Neg", "value", "y");
  EXPECT_THAT(run(gives, "y", three_and(1)), ElementsAre(ElementsAre(-1, -2)));
  EXPECT_THAT(error_of(gives, "y", three_and(0)), HasSubstr("0 is not 1 for value"));
}

TEST(LateOptional, IsReadWhereItHasAValueAlone) {
  const std::string nodes =
      kMaybe + node("OptionalHasElement", "maybe", "p") +
      node("If", "p", "y",
           branches(node("OptionalGetElement", "maybe", "value") + node("Neg", "value", "q"), "q",
                    node("Neg", "c", "r"), "r"));
  EXPECT_THAT(run(nodes, "y", three_and(1)), ElementsAre(ElementsAre(-1, -2)));
  EXPECT_THAT(run(nodes, "y", three_and(0)), ElementsAre(ElementsAre(-4, -5, -6)));
}

TEST(LateOptional, HoldsASequence) {
  const std::string none = optional_type("sequence_type { elem_type { " + kOfFloats + " } }");
  const std::string nodes =
      kMore +
      node("If", "more", "maybe",
           branches(node("Optional", "", "none", none), "none",
                    node("SequenceConstruct", "a c", "s") + node("Optional", "s", "some"), "some")) +
      node("OptionalGetElement", "maybe", "given");
  EXPECT_THAT(run(nodes + node("SequenceAt", "given nm1", "y"), "y", three_and(0)),
              ElementsAre(ElementsAre(4, 5, 6)));
  EXPECT_EQ(run(nodes, "given", three_and(0)), packed({kThree[0].second, kThree[2].second}));
  EXPECT_THAT(error_of(nodes, "given", three_and(1)), HasSubstr("0 is not 1 for given"));
}

TEST(LateOptional, GetsAValueInALoop) {
  // The first turn has none, later ones add to it.
  const std::string body =
      node("OptionalHasElement", "o", "p") +
      node("If", "p", "sum",
           branches(node("OptionalGetElement", "o", "value") + node("Add", "value a", "added"), "added",
                    node("Neg", "a", "q"), "q")) +
      node("Optional", "sum", "next") + node("Identity", "d", "again");
  const std::string nodes = node("Optional", "", "none", optional_type(kOfFloats)) +
                            node("Loop", "m - none", "last", graph("body", "i d o", body, "again next")) +
                            node("OptionalGetElement", "last", "y");
  EXPECT_THAT(run(nodes, "y", three_and(1)), ElementsAre(ElementsAre(-1, -2)));
  EXPECT_THAT(run(nodes, "y", three_and(3)), ElementsAre(ElementsAre(1, 2)));
  EXPECT_THAT(error_of(nodes, "y", three_and(0)), HasSubstr("0 is not 1 for y"));
}

TEST(LateOptional, IsNoTensor) {
  const std::string nodes = kMaybe + node("Neg", "maybe", "y");
  EXPECT_THAT(error_of(nodes, "y", three_and(1)), HasSubstr("optional that may have no value"));
}

TEST(LateOptional, IsTwoOutputsOfTheModel) {
  const Graph graph =
      import_onnx_bytes(parse(kNumbers + kMaybe, three_and(1), "maybe", kNewest).SerializeAsString(), ".");
  EXPECT_THAT(graph.main.output_names, ElementsAre("maybe?", "maybe"));
}

TEST(LateOptional, SharesTheNamesOfItsOutputsWithNone) {
  onnx::ModelProto model =
      parse(kNumbers + kMaybe + node("Neg", "c", "maybe?"), three_and(1), "maybe", kNewest);
  onnx::ValueInfoProto tensor;
  tensor.set_name("maybe?");
  tensor.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  *model.mutable_graph()->add_output() = tensor;
  const auto import = [&] { import_onnx_bytes(model.SerializeAsString(), "."); };
  EXPECT_THAT(testing::message_of(import), HasSubstr("two of the module's outputs would be called 'maybe?'"));
  model.mutable_graph()->mutable_output()->SwapElements(0, 1);
  EXPECT_THAT(testing::message_of(import), HasSubstr("two of the module's outputs would be called 'maybe?'"));
}

}  // namespace
}  // namespace gantry
