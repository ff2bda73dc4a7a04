// Models whose nodes are custom ops.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "host/custom_ops/custom_ops.h"
#include "host/graph/structural_equal.h"
#include "host/onnx/import.h"
#include "host/ops/custom.h"
#include "host/ops/op.h"
#include "host/passes/pass.h"
#include "tests/support/interpreted.h"
#include "tests/support/message_of.h"

namespace gantry {
namespace {

using testing::message_of;

const std::string kExamples = GANTRY_EXAMPLES;

std::string model_bytes(const std::string& text) {
  onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model));
  return model.SerializeAsString();
}

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string tensor(const std::string& kind, const std::string& name, const std::string& dims) {
  return kind + " { name: '" + name + "' type { tensor_type { elem_type: 1 shape { " + dims + " } } } } ";
}

/// A model of nodes of the domain "d" between x, of N rows of three, and y.
std::string model(const std::string& nodes, const std::string& more = "") {
  return model_bytes("ir_version: 8 opset_import { version: 17 } opset_import { domain: 'd' version: 2 } " +
                     more + "graph { name: 'g' " + nodes +
                     tensor("input", "x", "dim { dim_param: 'N' } dim { dim_value: 3 }") +
                     tensor("output", "y", "dim { dim_param: 'N' } dim { dim_value: 3 }") + " }");
}

std::shared_ptr<const CustomOps> ops(const std::string& toml,
                                     const std::map<std::string, std::string>& files) {
  return std::make_shared<const CustomOps>(
      parse_custom_ops(toml, "ops.toml", [&](const std::string& name) { return files.at(name); }),
      graph_pass_names());
}

/// "d::Op", with the rest of its description.
std::string op(const std::string& rest, const std::string& name = "Op", const std::string& domain = "d") {
  return "[[op]]\ndomain = \"" + domain + "\"\nname = \"" + name + "\"\n" + rest;
}
const std::string kKernel =
    "inputs = [\"x: f32[N, C]\", \"b: f32[C]?\"]\noutputs = [\"y: f32[N, C]\", \"rows: i64[N]\"]\n"
    "attributes = [\"beta: float = 1\", \"pads: ints?\", \"mode: string\"]\nscratch = \"4 * N\"\n"
    "kernel = { function = \"f\", x86-64 = \"a.o\" }\n";
std::shared_ptr<const CustomOps> kernel_ops() {
  return ops(op(kKernel), {{"a.o", "code"}});
}

std::string node(const std::string& rest) {
  return "node { name: 'n' domain: 'd' op_type: 'Op' " + rest + " } ";
}
const std::string kMode = "attribute { name: 'mode' type: STRING s: 'fast' } ";

Graph import(const std::string& bytes, std::shared_ptr<const CustomOps> custom) {
  ImportOptions options;
  options.custom_ops = std::move(custom);
  return import_onnx_bytes(bytes, "", options);
}

const Node& only_node(const Graph& graph) {
  EXPECT_EQ(graph.main.nodes().size(), 1u);
  return *graph.main.nodes().front();
}

TEST(CustomNode, IsACallOfTheKernelWithTheTypesOfTheRule) {
  const auto custom = kernel_ops();
  const Graph graph = import(model(node("input: 'x' output: 'y' " + kMode)), custom);
  const Node& call = only_node(graph);
  const CustomAttrs* attrs = call.match(op::custom);
  ASSERT_NE(attrs, nullptr);
  EXPECT_EQ(attrs->op, "d::Op");
  EXPECT_EQ(attrs->attributes, "beta=1.0, mode='fast'");
  EXPECT_EQ(attrs->code, custom->all()[0].kernel);
  EXPECT_EQ(attrs->scratch.str(), "4*N");
  ASSERT_EQ(call.inputs.size(), 2u);
  EXPECT_EQ(call.inputs[1], nullptr);
  ASSERT_EQ(call.results.size(), 2u);
  EXPECT_EQ(call.results[0]->type.str(), "Tensor[(N, 3), f32]");
  EXPECT_EQ(call.results[1]->type.str(), "Tensor[(N), i64]");
  EXPECT_EQ(call.origin, std::vector<std::string>{"n"});
}

TEST(CustomNode, TextRoundTripsAndFindsItsCodeAgain) {
  const auto custom = kernel_ops();
  const Graph graph = import(model(node("input: 'x' output: 'y' " + kMode)), custom);
  const std::string text = print(graph, op_set());
  Graph read = parse_graph(text, op_set());
  EXPECT_EQ(print(read, op_set()), text);
  EXPECT_EQ(only_node(read).match(op::custom)->code, nullptr);
  EXPECT_EQ(
      message_of([&] { bind_custom_ops(read, nullptr); }),
      "node n calls the custom op d::Op: give the folder or library that has its kernel with --custom-ops");
  const auto other = ops(op(kKernel), {{"a.o", "other code"}});
  EXPECT_EQ(message_of([&] { bind_custom_ops(read, other.get()); }),
            "node n calls the custom op d::Op with the code " + short_digest(*custom->all()[0].kernel) +
                ", and what --custom-ops gives is other code: write the text anew, or give the code that it "
                "was written with");
  bind_custom_ops(read, custom.get());
  EXPECT_EQ(only_node(read).match(op::custom)->code, custom->all()[0].kernel);
}

TEST(CustomNode, ATextCallsItsCodeWithWhatItTakes) {
  const auto custom = kernel_ops();
  const Graph graph = import(model(node("input: 'x' output: 'y' " + kMode)), custom);
  Graph read = parse_graph(print(graph, op_set()), op_set());
  Node& call = *read.main.nodes().front();
  const size_t listed = custom->all()[0].signature.inputs.size();
  call.inputs.resize(listed - 1);
  EXPECT_EQ(message_of([&] { bind_custom_ops(read, custom.get()); }),
            fmt::format("node n calls the custom op d::Op with {} inputs for {} results, and ops.toml lists {} and {}",
                        listed - 1, call.results.size(), listed, custom->all()[0].signature.outputs.size()));
}

TEST(CustomNode, CannotBeInterpreted) {
  const Graph graph = import(model(node("input: 'x' output: 'y' " + kMode)), kernel_ops());
  EXPECT_EQ(message_of([&] { testing::interpret_node(only_node(graph), {}); }),
            "custom[d::Op] has no tensor expression, so that it cannot be interpreted");
}

TEST(CustomNode, WhatDoesNotFitNamesTheNode) {
  const auto error = [&](const std::string& rest) {
    return message_of([&] { import(model(node(rest)), kernel_ops()); });
  };
  EXPECT_EQ(error("input: 'x' output: 'y'"), "the model: node n (Op): lacks the attribute mode");
  EXPECT_EQ(error("input: 'x' output: 'y' attribute { name: 'm' type: INT i: 1 } " + kMode),
            "the model: node n (Op): has the attribute m, which ops.toml does not list for d::Op");
  EXPECT_EQ(error("output: 'y' " + kMode), "the model: node n (Op): lacks its input x");
  EXPECT_EQ(
      error("input: 'x' input: 'x' output: 'y' " + kMode),
      "the model: node n (Op): its input b is Tensor[(N, 3), f32], of 2 dimensions, and 1 are asked for");
  EXPECT_EQ(error("input: 'x' input: '' input: 'x' output: 'y' " + kMode),
            "the model: node n (Op): has 3 inputs, and ops.toml lists 2 for d::Op");
  EXPECT_EQ(error("input: 'x' output: 'y' output: 'z' output: 'u' " + kMode),
            "the model: node n (Op): has 3 outputs, and ops.toml lists 2");
}

TEST(CustomNode, AnOpThatGantryHasIsNoneOfTheUsers) {
  const auto gelu =
      ops(op("outputs = [\"y\"]\ncomposition = \"c.gir\"\n", "Gelu", "com.microsoft"), {{"c.gir", ""}});
  EXPECT_EQ(message_of([&] { import(model(node("input: 'x' output: 'y'")), gelu); }),
            "the model: ops.toml: com.microsoft::Gelu is an op that gantry has itself, or of ONNX's own "
            "domain: give yours a "
            "domain of its own");
}

TEST(CustomNode, TakesThePlaceOfAFunctionOfTheModel) {
  const std::string function =
      "functions { domain: 'd' name: 'Op' input: 'a' output: 'r' opset_import { version: 17 } "
      "node { op_type: 'Neg' input: 'a' output: 'r' } } ";
  const auto custom = ops(op("inputs = [\"a\"]\noutputs = [\"r\"]\ncomposition = \"c.gir\"\n"),
                          {{"c.gir", "fn @main(%a: $a.type) -> $a.type { %r = abs(%a) return %r }"}});
  const std::string bytes = model(node("input: 'x' output: 'y'"), function);
  EXPECT_EQ(only_node(import(bytes, custom)).op->name, "abs");
  EXPECT_EQ(only_node(import(bytes, nullptr)).op->name, "negative");
}

TEST(Composition, IsTheNodesOfItsTextWithSymbolsOfTheModel) {
  const std::string text =
      "fn @main(%x: Tensor[(M, K), f32]) -> Tensor[(M, K), f32] {\n"
      "  %0 = multiply(%x, const(f32, [], [$factor]))\n  %1 = sum(%0, axes=$axes)\n  %2 = add(%0, %1)\n  "
      "return %2\n}\n";
  const auto custom = ops(op("inputs = [\"x\"]\noutputs = [\"y\"]\ncomposition = \"c.gir\"\n"
                             "attributes = [\"factor: float = 2\", \"axes: ints = [1]\"]\n"),
                          {{"c.gir", text}});
  const Graph graph = import(model(node("input: 'x' output: 'y'")), custom);
  Graph expected = parse_graph(
      "fn @main(%x: Tensor[(N, 3), f32]) -> Tensor[(N, 3), f32] {\n  %0 = multiply(%x, const(f32, [], [2]))  "
      "// n\n"
      "  %1 = sum(%0, axes=[1])  // n\n  %2 = add(%0, %1)  // n\n  return %2 as \"y\"\n}\n",
      op_set());
  const auto difference = structural_difference(graph.main, expected.main, op_set());
  EXPECT_FALSE(difference) << difference->str();
}

TEST(Composition, TheOneWhoseParametersTheInputsAreIsTaken) {
  ImportOptions options;
  options.custom_ops = CustomOps::load({kExamples + "/custom_op_composition"}, graph_pass_names());
  options.sizes["batch"] = 1;
  options.sizes["length"] = 2;
  const Graph graph = import_onnx_bytes(
      model_bytes(file_text(kExamples + "/custom_op_composition/rms_scale.txtpb")), "", options);
  const std::vector<float> x = {1, 2, 3, 4, -1, 0, 2, 0.5};
  const auto results =
      testing::interpret_function(graph.main, {make_constant({DType::kF32, {1, 2, 4}}, x.data())});
  const double scale[] = {1, 2, 0.5, -1}, bias[] = {0, 1, 0, 0.25};
  for (size_t row = 0; row < 2; ++row) {
    std::vector<double> v(x.begin() + static_cast<long>(4 * row), x.begin() + static_cast<long>(4 * row + 4));
    for (const bool first : {true, false}) {
      double squares = 0;
      for (const double value : v) squares += value * value;
      const double factor = 1 / std::sqrt(squares / 4 + (first ? 1e-3 : 1e-5));
      for (size_t i = 0; i < 4; ++i) v[i] = v[i] * factor * scale[i] + (first ? bias[i] : 0);
    }
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(results[0]->as<float>()[4 * row + i], v[i], 1e-5);
  }
}

/// The model of a node of an op whose composition is `text`, between inputs with dimensions of these names
/// and y.
Graph composed(const std::string& text,
               const std::vector<std::pair<std::string, std::vector<std::string>>>& inputs) {
  std::string listed, given, tensors, dims;
  for (const auto& [name, symbols] : inputs) {
    dims.clear();
    for (const std::string& symbol : symbols) dims += "dim { dim_param: '" + symbol + "' } ";
    listed += (listed.empty() ? "\"" : ", \"") + name + "\"";
    given += "input: '" + name + "' ";
    tensors += tensor("input", name, dims);
  }
  const std::string bytes = model_bytes(
      "ir_version: 8 opset_import { version: 17 } opset_import { domain: 'd' version: 2 } "
      "graph { name: 'g' " +
      node(given + "output: 'y'") + tensors + tensor("output", "y", dims) + " }");
  return import(bytes, ops(op("inputs = [" + listed + "]\noutputs = [\"y\"]\ncomposition = \"c.gir\"\n"),
                           {{"c.gir", text}}));
}

std::string result_type(const Graph& graph) {
  return graph.main.outputs.at(0)->type.str();
}

TEST(Composition, NamesOfDimensionsInATextAreNoneOfTheModels) {
  const Graph other = composed(
      "fn @main(%x: Tensor[(N, C), f32], %table: $table.type) -> $table.type {\n"
      "  %y = abs(%table)\n  return %y\n}\n",
      {{"x", {"batch", "C"}}, {"table", {"N"}}});
  EXPECT_EQ(result_type(other), "Tensor[(N), f32]");
  EXPECT_TRUE(other.main.constraints.empty());
  const Graph same = composed(
      "fn @main(%x: Tensor[(N, C), f32]) -> $x.type {\n  %y = reshape(%x, shape=$x.shape)\n  return %y\n}\n",
      {{"x", {"C", "N"}}});
  EXPECT_EQ(result_type(same), "Tensor[(C, N), f32]");
  EXPECT_TRUE(same.main.constraints.empty());
}

TEST(Composition, SymbolsThatATextBindsAreNoneOfTheModels) {
  const Graph graph = composed(
      "fn @main(%x: $x.type) -> Tensor[(N), f32] {\n"
      "  %n = bind_dims(const(i64, [1], [2]), symbols=(N))\n"
      "  %y = broadcast_to(const(f32, [], [1]), shape=(N))\n  return %y\n}\n",
      {{"x", {"N"}}});
  EXPECT_EQ(result_type(graph), "Tensor[(N_), f32]");
}

TEST(Composition, ASymbolWithoutAValueIsNoneOfTheModels) {
  const auto error = [&](const std::string& text) {
    return message_of([&] { composed(text, {{"x", {"N"}}}); });
  };
  EXPECT_EQ(error("fn @main(%x: Tensor[(2*N), f32]) -> Tensor[(2*N), f32] { %y = abs(%x) return %y }"),
            "the model: node n (Op): c.gir of ops.toml: nothing says what N is: no parameter has it for a "
            "dimension, and no node binds it");
  EXPECT_EQ(error("fn @main(%x: Tensor[(K), f32]) -> Tensor[(K), f32] {\n"
                  "  %n = bind_dims(const(i64, [1], [2]), symbols=(K))\n  %y = abs(%x)\n  return %y\n}\n"),
            "the model: node n (Op): c.gir of ops.toml: a node binds N, which is a dimension of an input");
}

TEST(Composition, ErrorsShowDimensionsAsTheModelCallsThem) {
  const std::string error = message_of([&] {
    composed("fn @main(%x: $x.type) -> $x.type { return %z }", {{"x", {"M", "N"}}});
  });
  const std::string line = "  fn @main(%x: Tensor[(M, N), f32]) -> Tensor[(M, N), f32] { return %z }";
  const size_t place = line.find("%z");
  const std::string start =
      fmt::format("the model: node n (Op): c.gir of ops.toml:1:{}: %z is not", place - 1);
  EXPECT_TRUE(error.starts_with(start)) << error;
  EXPECT_TRUE(error.ends_with("\n" + line + "\n" + std::string(place, ' ') + "^")) << error;
}

TEST(Composition, ATextThatIsWrongIsSoWithItsPlace) {
  const auto custom = ops(
      op("inputs = [\"x\"]\noutputs = [\"p\"]\ncomposition = \"c.gir\"\n"),
      {{"c.gir",
        "fn @main(%x: $x.type) -> Tensor[(Found), i64] {\n  %n = const(i64, [1], [2])\n  return %n\n}\n"}});
  EXPECT_EQ(message_of([&] {
              import(model(node("input: 'x' output: 'y'")), custom);
            }).substr(0, std::string("the model: node n (Op): c.gir of ops.toml:2:8: ").size()),
            "the model: node n (Op): c.gir of ops.toml:2:8: ");
}

TEST(Composition, WhatDoesNotFitIsNamed) {
  const auto error = [&](const std::string& text) {
    const auto custom =
        ops(op("inputs = [\"x\"]\noutputs = [\"y\"]\ncomposition = \"c.gir\"\n"), {{"c.gir", text}});
    return message_of([&] { import(model(node("input: 'x' output: 'y'")), custom); });
  };
  EXPECT_EQ(error("fn @main(%a: $x.type) -> $x.type { return %a }"),
            "the model: node n (Op): ops.toml: d::Op has no composition of the inputs (x): c.gir of ops.toml "
            "takes (a)");
  EXPECT_EQ(error("fn @main(%x: Tensor[(N, 3), f32]) -> $x.shape { return %z }").substr(0, 44),
            "the model: node n (Op): c.gir of ops.toml:1:");
  EXPECT_EQ(error("fn @main(%x: $y.type) -> $x.type { return %x }"),
            "the model: node n (Op): ops.toml: d::Op has no composition of the inputs (x): c.gir of "
            "ops.toml: $y.type: there "
            "is no input y");
  EXPECT_EQ(error("fn @main(%x: Tensor[(N, 4), f32]) -> Tensor[(N, 4), f32] { %0 = abs(%x) return %0 }"),
            "the model: node n (Op): c.gir of ops.toml: takes Tensor[(N, 4), f32] as %x, and the node has "
            "Tensor[(N, 3), f32]");
  EXPECT_EQ(error("fn @main(%x: $x.type) -> ($x.type, $x.type) { %0 = abs(%x) return %0, %x }"),
            "the model: node n (Op): c.gir of ops.toml: returns 2 values, and d::Op has 1 outputs");
  EXPECT_EQ(error("passes fold_constants\nfn @main(%x: $x.type) -> $x.type { %0 = abs(%x) return %0 }").substr(0, 77),
            "the model: node n (Op): c.gir of ops.toml:1:8: there is no pass 'fold_constan");
}

}  // namespace
}  // namespace gantry
