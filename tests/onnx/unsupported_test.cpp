// A model that gantry does not support is told everything at once.
#include "host/onnx/unsupported.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <sstream>

#include "host/onnx/import.h"

namespace gantry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string model(const std::string& graph, const std::string& more = "opset_import { version: 16 }") {
  onnx::ModelProto proto;
  const std::string text = "ir_version: 8 " + more + " graph { name: 'g' " + graph + " }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return proto.SerializeAsString();
}
std::string tensor(const std::string& kind, const std::string& name, int type) {
  return kind + " { name: '" + name + "' type { tensor_type { elem_type: " + std::to_string(type) +
         " shape { dim { dim_param: 'N' } dim { dim_value: 4 } } } } } ";
}
std::string node(const std::string& op, const std::string& name, const std::string& in,
                 const std::string& out, const std::string& more = "") {
  std::string text = "node { op_type: '" + op + "' name: '" + name + "' ";
  std::stringstream inputs(in), outputs(out);
  for (std::string value; inputs >> value;) text += "input: '" + value + "' ";
  for (std::string value; outputs >> value;) text += "output: '" + value + "' ";
  return text + more + " } ";
}
std::string attribute(const std::string& name, const std::string& value) {
  return "attribute { name: '" + name + "' " + value + " } ";
}

struct Refusal {
  std::vector<UnsupportedFeature> features;
  std::string text;
  /// The one feature of that name.
  UnsupportedFeature of(const std::string& what) const {
    const auto found = std::ranges::find(features, what, &UnsupportedFeature::what);
    EXPECT_NE(found, features.end()) << "no " << what << " in " << text;
    return found == features.end() ? UnsupportedFeature{} : *found;
  }
};
Refusal refusal(const std::string& bytes) {
  try {
    import_onnx_bytes(bytes, ".");
  } catch (const UnsupportedModel& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return {error.features(), error.what()};
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
  return {};
}

const std::string kFloats = tensor("input", "x", 1) + tensor("output", "y", 1);

TEST(Unsupported, ThingsOfEveryKindAreNamedInOneMessage) {
  const Refusal r = refusal(
      model(kFloats + tensor("input", "words", 15) +
            "input { name: 'list' type { sequence_type { elem_type { tensor_type { elem_type: 1 } } } } } "
            "input { name: 'shape' type { tensor_type { elem_type: 7 shape { dim { dim_param: 'R' } } } } } "
            "input { name: 'flag' type { tensor_type { elem_type: 9 shape { } } } } "
            "sparse_initializer { values { name: 'thin' dims: 1 data_type: 8 string_data: 'a' } "
            "  indices { dims: 1 data_type: 7 int64_data: 0 } dims: 4 } " +
            node("Transmogrify", "nz", "x", "a") +
            node("GridSample", "grid", "x x", "b", attribute("mode", "type: STRING s: 'area'")) +
            node("Cast", "narrow", "x", "c", attribute("to", "type: INT i: 14")) +
            node("Reshape", "r", "x shape", "d") +
            node("If", "choice", "flag", "e",
                 attribute("then_branch",
                           "type: GRAPH g { " + node("Relu", "t", "x", "q") + "output { name: 'q' } }") +
                     attribute("else_branch", "type: GRAPH g { " + node("Shape", "u", "x", "q") +
                                                  "output { name: 'q' } }")) +
            node("Relu", "last", "x", "y")));
  EXPECT_THAT(r.of("Transmogrify (opset 16)").nodes, ElementsAre("nz"));
  EXPECT_THAT(r.of("GridSample: mode 'area'").nodes, ElementsAre("grid"));
  EXPECT_THAT(r.of("COMPLEX128").places, ElementsAre("input 'words'"));
  EXPECT_THAT(r.of("sequence of tensors of unknown rank").places, ElementsAre("input 'list'"));
  EXPECT_THAT(r.of("sparse tensor of strings").places, ElementsAre("initialiser 'thin'"));
  EXPECT_EQ(r.of("Reshape: shape of a length that is only known when the model runs").kind, UnsupportedKind::kRunTimeValue);
  EXPECT_EQ(r.of("If: branches whose results differ in rank or element type").kind, UnsupportedKind::kControlFlow);
  EXPECT_EQ(std::ranges::count(r.features, UnsupportedKind::kElementType, &UnsupportedFeature::kind), 2);
  EXPECT_EQ(r.features.size(), 8u) << r.text;
  for (const char* part : {"Transmogrify (opset 16), node nz", "COMPLEX128, input 'words'", "narrow (Cast)",
                           "Reshape: shape of a length that is only known when the model runs, node r",
                           "--shape NAME=", "docs/onnx-support.md"}) {
    EXPECT_THAT(r.text, HasSubstr(part));
  }
}

TEST(Unsupported, AListOfTooManySizesIsNotSaidToBeOfUnknownLength) {
  const Refusal r = refusal(
      model(kFloats +
            "input { name: 'long' type { tensor_type { elem_type: 7 shape { dim { dim_value: 300 } } } } } " +
            node("Reshape", "r", "x long", "y")));
  EXPECT_THAT(
      r.of("Reshape: shape of 300 elements, more than 256, that are only known when the model runs").nodes,
      ElementsAre("r"));
}

TEST(Unsupported, NodesBehindSomethingUnsupportedAreNoFurtherErrors) {
  const Refusal r = refusal(model(kFloats + node("Transmogrify", "nz", "x", "a") + node("Add", "sum", "a x", "b") +
                                  node("Conv", "c", "b x", "d") + node("Clip", "cut", "d", "y")));
  EXPECT_EQ(r.features.size(), 1u) << r.text;
}

TEST(Unsupported, NodesThatDoNotDependOnItAreStillLookedAt) {
  const Refusal r = refusal(model(kFloats + node("Transmogrify", "nz", "x", "a") +
                                      node("Pad", "p", "x", "y",
                                           attribute("mode", "type: STRING s: 'mirror'") +
                                               attribute("pads", "type: INTS ints: [0, 0, 0, 0]")),
                                  "opset_import { version: 2 }"));
  EXPECT_THAT(r.of("Pad: mode 'mirror'").nodes, ElementsAre("p"));
}

TEST(Unsupported, OfManyNodesAllAreNamed) {
  std::string graph = kFloats;
  for (int i = 0; i < 12; ++i) {
    const std::string n = std::to_string(i);
    graph += node("Cast", "c" + n, "x", "v" + n, attribute("to", "type: INT i: 15"));
  }
  const Refusal r = refusal(model(graph + node("Relu", "last", "x", "y")));
  EXPECT_EQ(r.of("COMPLEX128").nodes.size(), 12u);
  for (const std::string& node : r.of("COMPLEX128").nodes) EXPECT_THAT(r.text, HasSubstr(node));
}

TEST(Unsupported, OptionalOutputsThatAreReadNameTheirNode) {
  const std::string norm = "initializer { name: 'one' dims: 1 data_type: 1 float_data: 1 } " +
                           node("BatchNormalization", "norm", "image one one one one", "p mean");
  const std::string image =
      "input { name: 'image' type { tensor_type { elem_type: 1 shape { dim { dim_value: 1 } "
      "dim { dim_value: 1 } dim { dim_value: 4 } dim { dim_value: 4 } } } } } "
      "output { name: 'y' type { tensor_type { elem_type: 1 } } } ";
  const Refusal r =
      refusal(model(image + norm + node("Abs", "reader", "mean", "z") + node("Relu", "last", "p", "y")));
  EXPECT_THAT(r.of("BatchNormalization: output 1").nodes, ElementsAre("norm"));
  EXPECT_NO_THROW(import_onnx_bytes(model(image + norm + node("Relu", "last", "p", "y")), "."));
}

TEST(Unsupported, DomainsFunctionsAndOpsetsAreTold) {
  const std::string graph = kFloats + node("Fancy", "f", "x", "a", "domain: 'com.example'") +
                            node("Mine", "m", "x", "b", "domain: 'local'") + node("Mish", "old", "x", "c") +
                            node("Lost", "l", "x", "d", "domain: 'nowhere'") + node("Relu", "last", "x", "y");
  const Refusal r =
      refusal(model(graph,
                    "opset_import { version: 16 } opset_import { domain: 'com.example' version: "
                    "3 } functions { name: 'Mine' domain: 'local' input: 'p' output: 'q' opset_import { version: 16 } " +
                        node("Transmogrify", "deep", "p", "r") + node("Relu", "top", "r", "q") + "}"));
  EXPECT_THAT(r.of("com.example::Fancy (opset 3)").nodes, ElementsAre("f"));
  EXPECT_THAT(r.of("Transmogrify (opset 16)").nodes, ElementsAre("Mine/deep"));
  EXPECT_THAT(r.of("nowhere::Lost (of no declared opset)").nodes, ElementsAre("l"));
  EXPECT_THAT(r.of("Mish (opset 16; gantry knows it since opset 18)").nodes, ElementsAre("old"));
}

// ONNX Runtime's layout for one machine: there is nothing to replace in an exporter.
TEST(Unsupported, OpsThatOnnxRuntimeMadeForACpuAreToldWithTheWayBack) {
  const std::string imports =
      "opset_import { version: 16 } opset_import { domain: 'com.microsoft.nchwc' version: 1 }";
  const Refusal r =
      refusal(model(kFloats + node("ReorderInput", "r", "x", "y", "domain: 'com.microsoft.nchwc'"), imports));
  EXPECT_THAT(r.of("com.microsoft.nchwc::ReorderInput (opset 1)").nodes, ElementsAre("r"));
  EXPECT_THAT(r.text, HasSubstr("ORT_ENABLE_EXTENDED"));
  EXPECT_THAT(r.text, Not(HasSubstr("Cut off")));
}

TEST(Unsupported, BranchesOfAnUnknownConditionAreLookedIntoToo) {
  const auto branch = [](const std::string& nodes) {
    return "type: GRAPH g { " + nodes + "output { name: 'q' } }";
  };
  const Refusal r = refusal(
      model(kFloats + "input { name: 'flag' type { tensor_type { elem_type: 9 shape { } } } } " +
            node("If", "choice", "flag", "y",
                 attribute("then_branch",
                           branch(node("Cast", "inner", "x", "q", attribute("to", "type: INT i: 15")))) +
                     attribute("else_branch", branch(node("Transmogrify", "deep", "x", "q"))))));
  EXPECT_THAT(r.of("COMPLEX128").nodes, ElementsAre("inner (Cast)"));
  EXPECT_THAT(r.of("Transmogrify (opset 16)").nodes, ElementsAre("deep"));
  EXPECT_EQ(r.features.size(), 2u) << r.text;
}

TEST(Unsupported, AMalformedModelIsToldItsListToo) {
  const Refusal r =
      refusal(model(kFloats + node("Transmogrify", "nz", "x", "a") + node("Add", "sum", "x gone", "y")));
  EXPECT_THAT(r.text, HasSubstr("sum uses 'gone', which nothing before it defines"));
  EXPECT_THAT(r.of("Transmogrify (opset 16)").nodes, ElementsAre("nz"));
}

/// The message of a model that is wrong, and uses only what is supported.
std::string message(const std::string& bytes) {
  try {
    import_onnx_bytes(bytes, ".");
  } catch (const UnsupportedModel& error) {
    ADD_FAILURE() << error.what();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  ADD_FAILURE() << "the model is imported";
  return "";
}

TEST(Malformed, EachNodeThatIsWrongIsNamedInOneMessage) {
  const std::string weight =
      "initializer { name: 'w' dims: 3 dims: 2 data_type: 1 float_data: [1, 2, 3, 4, 5, 6] } ";
  const std::string text =
      message(model(kFloats + weight + node("Conv", "alone", "x", "a") + node("Relu", "lost", "gone", "b") +
                    node("MatMul", "misfit", "x w", "c") +
                    node("Concat", "beyond", "x x", "d", attribute("axis", "type: INT i: 9")) +
                    node("Add", "behind", "c d", "e") + node("Relu", "last", "x", "y")));
  EXPECT_THAT(text, HasSubstr("4 nodes are wrong:"));
  for (const char* name : {"alone", "lost", "misfit", "beyond"}) EXPECT_THAT(text, HasSubstr(name));
  for (const char* name : {"behind", "last"}) EXPECT_THAT(text, Not(HasSubstr(name)));
}

TEST(Malformed, OneNodeIsToldWithoutAList) {
  const std::string text = message(model(kFloats + node("Relu", "lost", "gone", "y")));
  EXPECT_THAT(text, HasSubstr("lost uses 'gone', which nothing before it defines"));
  EXPECT_THAT(text, Not(HasSubstr("nodes are wrong")));
}

TEST(Malformed, ANodeIsNamedWhateverItsNameIs) {
  // Each of these stands in the message without the node's name, too.
  for (const char* name : {"s", "i", "axis"}) {
    const std::string text =
        message(model(kFloats + node("Concat", name, "x x", "y", attribute("axis", "type: INT i: 9"))));
    EXPECT_THAT(text, HasSubstr(std::string("node ") + name));
  }
}

TEST(Malformed, NodesOfFunctionsAreToldWithTheirCallers) {
  const std::string graph = kFloats + node("Mine", "m", "x", "a", "domain: 'local'") +
                            node("Relu", "lost", "gone", "b") + node("Relu", "last", "x", "y");
  const std::string text = message(model(
      graph,
      "opset_import { version: 16 } opset_import { domain: 'local' version: 1 } functions { name: 'Mine' "
      "domain: 'local' input: 'p' output: 'q' opset_import { version: 16 } " +
          node("Conv", "deep", "p", "r") + node("Relu", "deeper", "missing", "s") +
          node("Relu", "top", "r", "q") + "}"));
  EXPECT_THAT(text, HasSubstr("3 nodes are wrong:"));
  for (const char* name : {"m/deep", "m/deeper", "lost"}) EXPECT_THAT(text, HasSubstr(name));
}

TEST(Malformed, WhatIsNotSupportedIsToldBesideAllNodesThatAreWrong) {
  const Refusal r =
      refusal(model(kFloats + node("Relu", "lost", "gone", "a") + node("Transmogrify", "nz", "x", "b") +
                    node("Conv", "alone", "x", "c") + node("Relu", "last", "x", "y")));
  EXPECT_THAT(r.of("Transmogrify (opset 16)").nodes, ElementsAre("nz"));
  EXPECT_THAT(r.text, testing::AllOf(HasSubstr("2 nodes are wrong:"), HasSubstr("lost"), HasSubstr("alone")));
}

TEST(Malformed, InputsWithoutShapesAreNamedTogether) {
  const auto shapeless = [](const std::string& name) {
    return "input { name: '" + name + "' type { tensor_type { elem_type: 1 } } } ";
  };
  const std::string text = message(model(shapeless("a") + tensor("input", "x", 1) + shapeless("b") +
                                         tensor("output", "y", 1) + node("Relu", "last", "x", "y")));
  EXPECT_THAT(text, testing::AllOf(HasSubstr("2 inputs are wrong:"), HasSubstr("--shape a="),
                                   HasSubstr("--shape b=")));
  EXPECT_THAT(text, Not(HasSubstr("--shape x=")));
}

std::string flag() {
  return "input { name: 'flag' type { tensor_type { elem_type: 9 shape { } } } } ";
}
std::string graph(const std::string& name, const std::string& inputs, const std::string& nodes,
                  const std::string& outputs) {
  std::string text;
  std::stringstream in(inputs), out(outputs);
  for (std::string value; in >> value;) text += "input { name: '" + value + "' } ";
  for (std::string value; out >> value;) text += "output { name: '" + value + "' } ";
  return attribute(name, "type: GRAPH g { " + text + nodes + " }");
}

TEST(Malformed, InputsOfOneNameAreToldBesideOthersThatAreWrong) {
  const std::string text =
      message(model(tensor("input", "x", 1) + tensor("input", "x", 1) +
                    "input { name: 'a' type { tensor_type { elem_type: 1 } } } " + tensor("output", "y", 1) +
                    node("Add", "sum", "x a", "z") + node("Relu", "last", "x", "y")));
  EXPECT_THAT(text, testing::AllOf(HasSubstr("2 inputs are wrong:"), HasSubstr("two inputs called 'x'"),
                                   HasSubstr("--shape a="), Not(HasSubstr("sum"))));
}

TEST(Malformed, OutputsThatNothingDefinesAreNamedTogether) {
  const std::string text = message(model(kFloats + tensor("output", "gone", 1) + tensor("output", "lost", 1) +
                                         node("Relu", "last", "x", "y")));
  EXPECT_THAT(text, testing::AllOf(HasSubstr("2 outputs are wrong:"), HasSubstr("uses 'gone'"),
                                   HasSubstr("uses 'lost'"), Not(HasSubstr("'y'"))));
}

TEST(Malformed, InitialisersThatAreWrongAreNamedTogether) {
  const auto short_of = [](const std::string& name) {
    return "initializer { name: '" + name + "' dims: 4 data_type: 1 raw_data: 'abc' } ";
  };
  const std::string sound = "initializer { name: 'w' data_type: 1 float_data: 1 } ";
  const std::string text =
      message(model(kFloats + short_of("a") + sound + sound + short_of("b") +
                    "initializer { name: 'far' dims: 4 data_type: 1 data_location: EXTERNAL "
                    "external_data { key: 'location' value: 'not-there' } } " +
                    node("Add", "sum", "a b", "c") + node("Mul", "product", "c far", "d") +
                    node("Add", "last", "x w", "y")));
  EXPECT_THAT(text, HasSubstr("4 initialisers are wrong:"));
  for (const char* part : {"'a' has 3 bytes", "'b' has 3 bytes", "defines 'w'", "not-there"})
    EXPECT_THAT(text, HasSubstr(part));
  for (const char* name : {"sum", "product", "last"}) EXPECT_THAT(text, Not(HasSubstr(name)));
}

TEST(Malformed, WhateverIsWrongIsToldInOneMessage) {
  const Refusal r = refusal(model(
      kFloats + tensor("output", "gone", 1) + "input { name: 'a' type { tensor_type { elem_type: 1 } } } " +
      "initializer { name: 'w' dims: 4 data_type: 1 raw_data: 'abc' } " + node("Conv", "alone", "x", "b") +
      node("Transmogrify", "nz", "x", "c") + node("Relu", "last", "x", "y")));
  EXPECT_THAT(r.of("Transmogrify (opset 16)").nodes, ElementsAre("nz"));
  for (const char* part : {"4 parts of the model are wrong:", "initialiser 'w'", "input 'a'", "node alone (Conv)",
                           "uses 'gone'"})
    EXPECT_THAT(r.text, HasSubstr(part));
}

TEST(Malformed, AllNodesOfACycleAreNamed) {
  const std::string text =
      message(model(kFloats + node("Add", "into", "x b", "a") + node("Relu", "round", "a", "b") +
                    node("Neg", "itself", "c", "c") + node("Abs", "behind", "b", "d") +
                    node("Exp", "before", "x", "e") + node("Sub", "between", "b e", "f") +
                    node("Mul", "other", "f g", "h") + node("Relu", "back", "h", "g") +
                    node("Relu", "last", "x", "y")));
  for (const char* name : {"into (Add)", "round (Relu)", "itself (Neg)", "other (Mul)", "back (Relu)"})
    EXPECT_THAT(text, HasSubstr(std::string("node ") + name + ": is in a cycle"));
  for (const char* name : {"behind", "before", "between", "last"}) EXPECT_THAT(text, Not(HasSubstr(name)));
}

TEST(Malformed, ABranchThatIsNeverTakenMayBeWrong) {
  const auto branch = [](const std::string& nodes) {
    return "type: GRAPH g { " + nodes + "output { name: 'q' } }";
  };
  const std::string misfit = "node { op_type: 'Concat' input: 'x' input: 'x' output: 'q' name: 'beyond' " +
                             attribute("axis", "type: INT i: 9") + "} ";
  EXPECT_NO_THROW(import_onnx_bytes(
      model(kFloats + "input { name: 'flag' type { tensor_type { elem_type: 9 shape { } } } } " +
            node("If", "choice", "flag", "y",
                 attribute("then_branch", branch(node("Relu", "fine", "x", "q"))) +
                     attribute("else_branch", branch(misfit)))),
      "."));
}

/// Two nodes that are wrong, and one that reads them: "PREFIXbeyond" and "PREFIXlost".
std::string wrong_nodes(const std::string& prefix, const std::string& in, const std::string& out) {
  return node("Concat", prefix + "beyond", in + " " + in, prefix + "a", attribute("axis", "type: INT i: 9")) +
         node("Relu", prefix + "lost", "gone", prefix + "b") +
         node("Add", prefix + "behind", prefix + "a " + prefix + "b", out);
}

TEST(Malformed, ABranchThatIsWrongForAllShapesIsAnErrorHoweverDeepItIs) {
  const std::string sound = graph("then_branch", "", node("Relu", "fine", "x", "q"), "q");
  const auto with_else = [&](const std::string& nodes) {
    return message(model(kFloats + flag() +
                         "input { name: 'count' type { tensor_type { elem_type: 7 shape { } } } } " +
                         node("If", "choice", "flag", "y", sound + graph("else_branch", "", nodes, "q"))));
  };
  const std::string lost = "lost uses 'gone', which nothing before it defines";
  const std::string again =
      "initializer { name: 'a' data_type: 1 float_data: 1 } "
      "initializer { name: 'a' data_type: 1 float_data: 1 } ";
  EXPECT_THAT(with_else(node("Relu", "lost", "gone", "q")), HasSubstr(lost));
  EXPECT_THAT(with_else(again + node("Add", "sum", "x a", "q")),
              HasSubstr("defines 'a', which is defined already"));
  EXPECT_THAT(with_else(node("Relu", "wide", "x x", "q")), HasSubstr("node wide (Relu): has 2 inputs"));
  EXPECT_THAT(with_else(node("If", "inner", "flag", "q",
                             sound + graph("else_branch", "", node("Relu", "lost", "gone", "r"), "r"))),
              HasSubstr(lost));
  EXPECT_THAT(with_else(node("Loop", "turns", "count flag x", "q",
                             graph("body", "i c s", node("Relu", "lost", "gone", "t"), "c t"))),
              HasSubstr(lost));
}

TEST(Malformed, AllNodesOfALoopsBodyAreNamedWithIt) {
  const std::string text = message(
      model(kFloats + flag() + "input { name: 'count' type { tensor_type { elem_type: 7 shape { } } } } " +
            node("Loop", "turns", "count flag x", "a",
                 graph("body", "i c s", wrong_nodes("in_", "s", "t"), "c t")) +
            node("Relu", "lost", "nowhere", "b") + node("Relu", "last", "x", "y")));
  EXPECT_THAT(text, HasSubstr("3 nodes are wrong:"));
  EXPECT_THAT(text, HasSubstr("node turns (Loop): in its body: node in_beyond (Concat): "));
  EXPECT_THAT(
      text,
      HasSubstr("node turns (Loop): in its body: in_lost uses 'gone', which nothing before it defines"));
  EXPECT_THAT(text, HasSubstr("\n  lost uses 'nowhere'"));
  EXPECT_THAT(text, Not(HasSubstr("behind")));
}

TEST(Malformed, AllNodesOfBothBranchesAreNamedWithTheirs) {
  const std::string text =
      message(model(kFloats + flag() +
                    node("If", "choice", "flag", "y",
                         graph("then_branch", "", wrong_nodes("then_", "x", "q"), "q") +
                             graph("else_branch", "", wrong_nodes("else_", "x", "q"), "q"))));
  EXPECT_THAT(text, HasSubstr("4 nodes are wrong:"));
  for (const char* branch : {"then", "else"}) {
    const std::string place = std::string("node choice (If): in its ") + branch + "_branch: ";
    EXPECT_THAT(text, HasSubstr(place + "node " + branch + "_beyond (Concat): "));
    EXPECT_THAT(text, HasSubstr(place + branch + "_lost uses 'gone'"));
  }
}

TEST(Malformed, AllNodesOfABranchThatIsTakenAreNamedWithIt) {
  const std::string text =
      message(model(kFloats + "initializer { name: 'yes' data_type: 9 int32_data: 1 } " +
                    node("If", "choice", "yes", "y",
                         graph("then_branch", "", wrong_nodes("then_", "x", "q"), "q") +
                             graph("else_branch", "", wrong_nodes("else_", "x", "q"), "q"))));
  EXPECT_THAT(text, HasSubstr("2 nodes are wrong:"));
  EXPECT_THAT(text, HasSubstr("node choice (If): in its then_branch: node then_beyond (Concat): "));
  EXPECT_THAT(text, HasSubstr("in its then_branch: then_lost uses 'gone'"));
}

TEST(Malformed, AllNodesOfAScansBodyInABranchAreNamedWithBoth) {
  const std::string scan = node(
      "Scan", "steps", "x", "q",
      attribute("num_scan_inputs", "type: INT i: 1") + graph("body", "e", wrong_nodes("in_", "e", "o"), "o"));
  const std::string text =
      message(model(kFloats + flag() +
                    node("If", "choice", "flag", "y",
                         graph("then_branch", "", scan, "q") +
                             graph("else_branch", "", node("Relu", "also", "gone", "q"), "q"))));
  EXPECT_THAT(text, HasSubstr("3 nodes are wrong:"));
  const std::string place = "node choice (If): in its then_branch: node steps (Scan): in its body: ";
  EXPECT_THAT(text, HasSubstr(place + "node in_beyond (Concat): "));
  EXPECT_THAT(text, HasSubstr(place + "in_lost uses 'gone'"));
  EXPECT_THAT(text, HasSubstr("node choice (If): in its else_branch: also uses 'gone'"));
}

TEST(Malformed, NamesOfABranchAreWrongWhateverTheShapes) {
  const auto told = [&](const std::string& other) {
    return message(model(kFloats + flag() +
                         node("If", "choice", "flag", "y",
                              graph("then_branch", "", node("Relu", "fine", "x", "q"), "q") + other)));
  };
  const std::string place = "node choice (If): in its else_branch: ";
  EXPECT_THAT(told(graph("else_branch", "", node("Relu", "lost", "gone", "q"), "q")),
              HasSubstr(place + "lost uses 'gone', which nothing before it defines"));
  const std::string twice = node("Relu", "first", "x", "q") + node("Neg", "second", "x", "q");
  EXPECT_THAT(told(graph("else_branch", "", twice, "q")), HasSubstr(place + "second defines 'q'"));
  const std::string scan = node("Scan", "steps", "x", "q",
                                attribute("num_scan_inputs", "type: INT i: 1") +
                                    graph("body", "e", node("Add", "inner", "e gone", "o"), "o"));
  EXPECT_THAT(told(graph("else_branch", "", scan, "q")),
              HasSubstr(place + "node steps (Scan): in its body: inner uses 'gone'"));
  EXPECT_THAT(told(""), HasSubstr("node choice (If): its attribute else_branch is missing"));
}

TEST(Malformed, WhatIsNotSupportedBehindAWrongNodeOfABranchThatIsNeverTakenDoesNotMatter) {
  const std::string bad =
      node("Concat", "else_beyond", "x x", "else_a", attribute("axis", "type: INT i: 9")) +
      node("Relu", "else_behind", "else_a", "p") +
      node("Cast", "odd", "x", "q", attribute("to", "type: INT i: 15"));
  const auto with = [&](const std::string& more) {
    return model(kFloats + flag() +
                 node("If", "choice", "flag", "y",
                      graph("then_branch", "", node("Relu", "fine", "x", "q"), "q") +
                          graph("else_branch", "", bad, "q")) +
                 more);
  };
  EXPECT_NO_THROW(import_onnx_bytes(with(""), "."));
  EXPECT_THAT(message(with(node("Relu", "lost", "nowhere", "z"))), HasSubstr("lost uses 'nowhere'"));
}

TEST(Malformed, SizesBelowZeroAreToldWithTheirNode) {
  const std::string text = message(
      model("input { name: 'theta' type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } dim { dim_value: 2 } "
            "dim { dim_value: 3 } } } } } "
            "input { name: 'q' type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } dim { dim_value: 3 } "
            "dim { dim_value: 4 } dim { dim_value: 8 } } } } } "
            "initializer { name: 'size' dims: 4 data_type: 7 int64_data: [2, 3, -2, 5] } " +
                tensor("output", "y", 1) + node("AffineGrid", "grid", "theta size", "y") +
                node("Attention", "look", "q q q q", "z"),
            "opset_import { version: 23 }"));
  EXPECT_THAT(text, HasSubstr("2 nodes are wrong:"));
  EXPECT_THAT(text, HasSubstr("node grid (arange): its result Tensor[(-2), i64] would have a negative size"));
  EXPECT_THAT(text, HasSubstr("node look (Attention): its mask Tensor[(2, 3, 4, 8), f32] is of 8 keys, and there are 4"));
}

TEST(Unsupported, ElementTypesThatAnOpDoesNotComputeInAreCollected) {
  const Refusal r = refusal(model(tensor("input", "x", 9) + tensor("output", "y", 9) +
                                  node("Neg", "minus", "x", "a") + node("Not", "last", "x", "y")));
  EXPECT_EQ(r.of("bool").kind, UnsupportedKind::kElementType);
  EXPECT_THAT(r.of("bool").nodes, ElementsAre("minus (Neg)"));
  EXPECT_THAT(r.of("bool").places, IsEmpty());
}

}  // namespace
}  // namespace gantry
