// Text of whole programs: what is checked beyond the form, where errors are, what a round trip keeps.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>

#include "host/graph/parse.h"
#include "host/graph/strings.h"
#include "host/graph/text.h"
#include "tests/graph/small_ops.h"

namespace gantry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

struct ScaleAttrs : AttrsOf<ScaleAttrs> {
  double factor = 1;
  std::vector<double> weights;
  std::string label;
  int64_t count = 1;
  Dim size = 1;
  void fields(AttrVisitor& visit) override {
    visit("factor", factor);
    visit("weights", weights);
    visit("label", label);
    visit("count", count);
    visit("size", size);
  }
};

std::vector<TensorType> as_first(const Node& node, Function&) {
  if (node.inputs.empty() || node.inputs[0] == nullptr) user_error("the first input is missing");
  return {node.inputs[0]->type};
}
std::vector<TensorType> same_sizes(const Node& node, Function& function) {
  const Dim &a = node.inputs.at(0)->type.shape.at(0), &b = node.inputs.at(1)->type.shape.at(0);
  if (provably_different(a, b)) user_error("{} and {} differ", a.str(), b.str());
  if (!(a == b)) function.constraints.push_back({a, b, node.origin.empty() ? "" : node.origin[0]});
  return {node.inputs[0]->type};
}
std::vector<TensorType> of_body(const Node& node, Function&) {
  if (node.bodies.empty()) user_error("a body is missing");
  return {node.bodies[0]->outputs.at(0)->type};
}

const SmallOpTable& ops() {
  static constexpr Op<NoAttrs> relu{"nn.relu"}, copy{"copy"}, add{"add"}, fused{"fused"};
  static constexpr Op<ScaleAttrs> scale{"scale"};
  static const SmallOpTable table(
      {{relu, as_first}, {copy, as_first}, {add, same_sizes}, {scale, as_first}, {fused, of_body}});
  return table;
}

/// Weights in memory.
class Weights : public WeightSource {
 public:
  void open(const std::string& file) override {
    if (file == "gone.weights") user_error("{}: there is no such file", file);
    opened = file;
  }
  ConstantPtr find(const std::string& entry, const TensorType& type) override {
    const auto found = entries.find(entry);
    if (found == entries.end()) user_error("no entry '{}'", entry);
    if (!(found->second->type == type)) user_error("'{}' is a {}", entry, found->second->type.str());
    return found->second;
  }

  std::string opened;
  std::map<std::string, ConstantPtr> entries;
};

Graph parse(const std::string& text, Weights weights = {}, const std::map<std::string, Dim>& sizes = {}) {
  ProgramSource source;
  source.name = "m.gir";
  source.weights = &weights;
  source.fix_sizes = [&](const std::vector<Value*>&) { return sizes; };
  return parse_program(text, ops(), {"simplify_inference", "fold_constant"}, source);
}

std::string error_of(const std::string& text, const std::map<std::string, Dim>& sizes = {}) {
  try {
    parse(text, {}, sizes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "no error";
}

const std::string kHead = "fn @main(%x: Tensor[(N, 4), f32]) -> Tensor[(N, 4), f32] {\n";

/// The error in a program whose only node is that.
std::string error_of_node(const std::string& node) {
  return error_of(kHead + "  %0 = " + node + "\n  return %0\n}\n");
}

/// Prints, parses, prints: both prints and all constants must be the same.
void expect_same_again(const Graph& graph) {
  WeightEntries entries, again;
  const std::string text = print_program(graph, ops(), "m.gir.weights", entries);
  Weights weights;
  for (const auto& [entry, constant] : entries) weights.entries[entry] = constant;
  const Graph copy = parse(text, weights);
  EXPECT_EQ(print_program(copy, ops(), "m.gir.weights", again), text);
  EXPECT_EQ(again, entries);
  EXPECT_EQ(copy.main.constants().size(), graph.main.constants().size());
}

// --- where errors are

TEST(ProgramText, ErrorsShowFileLineColumnAndACaret) {
  EXPECT_EQ(error_of_node("nn.rleu(%x)"),
            "m.gir:2:8: there is no op 'nn.rleu'; did you mean 'nn.relu'?\n"
            "    %0 = nn.rleu(%x)\n"
            "         ^");
}

TEST(ProgramText, ColumnsCountCharactersNotBytes) {
  EXPECT_EQ(error_of(kHead + "  %\"größe\" = nn.relu(%y)\n  return %x\n}"),
            "m.gir:2:22: %y is not defined before this; did you mean 'x'?\n"
            "    %\"größe\" = nn.relu(%y)\n"
            "                       ^")
      << "of two characters that take two bytes each";
}

TEST(ProgramText, LongLinesAreCutAroundThePlace) {
  const std::string error = error_of_node("nn.relu(%x, " + std::string(500, ' ') + "4)" + std::string(500, ' ') + "// c");
  EXPECT_THAT(error, StartsWith("m.gir:2:521: expected '=', not ')'"));
  EXPECT_LT(error.size(), 400u);
  EXPECT_THAT(error, HasSubstr("…"));
}

TEST(ProgramText, ErrorsSayWhatWasExpectedAndWhatIsThere) {
  EXPECT_THAT(error_of("module \"m\"\n"), StartsWith("m.gir:1:1: expected the function ('fn @main(…) -> … { … }'), not 'module'"));
  EXPECT_THAT(error_of(kHead), HasSubstr("expected a node ('%name = op(…)'), 'where' or 'return', but the text ends here"));
  EXPECT_THAT(error_of(kHead + "  %0 = nn.relu(%x]\n"), StartsWith("m.gir:2:18: expected ',' or ')', not ']'"));
  EXPECT_THAT(error_of(kHead + "  %0 = nn.relu(%x, [3)\n"), HasSubstr("expected an input, an attribute or ')', not '['"));
  EXPECT_THAT(error_of(kHead + "  return %x } more"), StartsWith("m.gir:2:15: expected nothing behind the function"));
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(2), f99]) "),
              HasSubstr("m.gir:1:26: 'f99' is no element type; there are f32, f64, f16,"));
  for (const char* name : {"bf16, ", "bool, ", "f8e4m3fn, ", "i4, ", " and string"}) {
    EXPECT_THAT(error_of("fn @main(%x: Tensor[(2), f99]) "), HasSubstr(name));
  }
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(2, N+*3), f32]) "), StartsWith("m.gir:1:25: 'N+*3' is not a dimension"));
  EXPECT_THAT(error_of("gir 2\n" + kHead), StartsWith("m.gir:1:5: this is version 2"));
  EXPECT_EQ(error_of(std::string("// a\n\0\x01", 7)),
            "m.gir:2:1: a byte of 0 stands here, which no text has");
  EXPECT_EQ(error_of(kHead + std::string("  %0 =\0", 7)),
            "m.gir:2:7: a byte of 0 stands here, which no text has\n    %0 =\n        ^");
}

TEST(ProgramText, APassThatIsNoneIsAnError) {
  EXPECT_EQ(error_of("passes fold_constant, simplify_inferense\n" + kHead),
            "m.gir:1:23: there is no pass 'simplify_inferense'; did you mean 'simplify_inference'?\n"
            "  passes fold_constant, simplify_inferense\n"
            "                        ^");
  EXPECT_THAT(error_of("passes dead\n" + kHead), StartsWith("m.gir:1:8: there is no pass 'dead'\n"));
}

TEST(ProgramText, LinesBeforeTheFunctionStandOnceAndInTheirOrder) {
  const std::string second =
      "stands here a second time, or too late: before fn there may be gir, model, weights and "
      "passes, each once and in this order\n";
  EXPECT_THAT(error_of("model \"a\"\nmodel \"b\"\n" + kHead), StartsWith("m.gir:2:1: 'model' " + second));
  EXPECT_THAT(error_of("weights \"a\"\n weights \"b\"\n" + kHead),
              StartsWith("m.gir:2:2: 'weights' " + second));
  EXPECT_THAT(error_of("passes fold_constant\nweights \"a\"\n" + kHead),
              StartsWith("m.gir:2:1: 'weights' " + second));
  EXPECT_THAT(error_of("passes fold_constant\npasses fold_constant\n" + kHead),
              StartsWith("m.gir:2:1: 'passes' " + second));
}

TEST(ProgramText, UnknownAttributesAreAnsweredWithThoseThatThereAre) {
  EXPECT_THAT(error_of_node("scale(%x, factr=2)"),
              StartsWith("m.gir:2:18: scale has no attribute 'factr'; did you mean 'factor'? it has factor, weights, "
                         "label, count, size\n"));
  EXPECT_THAT(error_of_node("nn.relu(%x, slope=2)"),
              StartsWith("m.gir:2:20: nn.relu has no attribute 'slope'; it has none\n"));
  EXPECT_THAT(error_of_node("scale(%x, factor=two)"),
              StartsWith("m.gir:2:25: attribute 'factor' is 'two' but must be a number\n"));
  EXPECT_THAT(error_of_node("scale(%x, count=99999999999999999999)"), HasSubstr("a number that fits into 64 bits"));
  EXPECT_THAT(error_of_node("scale(%x, label=\"a\" \"b\")"),
              StartsWith("m.gir:2:24: \"a\" \"b\" is more than one quoted text\n"));
  EXPECT_THAT(error_of_node("scale(%x, count=1, count=2)"), StartsWith("m.gir:2:27: 'count' is given twice"));
}

TEST(ProgramText, ATypeThatContradictsTheRuleIsShownBesideIt) {
  EXPECT_THAT(error_of(kHead + "  %0: Tensor[(N, 5), f32] = nn.relu(%x)\n  return %0\n}"),
              StartsWith("m.gir:2:7: %0 is declared a Tensor[(N, 5), f32], but nn.relu gives a Tensor[(N, 4), f32]\n"));
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(2), f32]) -> Tensor[(3), f32] {\n  %0 = nn.relu(%x)\n  return %0\n}"),
              StartsWith("m.gir:1:35: the function declares its result 0 to be a Tensor[(3), f32], but returns a "
                         "Tensor[(2), f32]\n"));
}

TEST(ProgramText, ErrorsOfTypeRulesStandAtTheOp) {
  EXPECT_THAT(error_of_node("add(%x, const(f32, [7, 4], [0]))"), HasSubstr("1 elements are given for a constant"));
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(2), f32], %y: Tensor[(3), f32]) -> Tensor[(2), f32] {\n"
                       "  %0 = add(%x, %y)\n  return %0\n}"),
              StartsWith("m.gir:2:8: add: 2 and 3 differ\n"));
}

// --- what a program must be

TEST(ProgramText, OutputsHaveNamesOfTheirOwn) {
  const std::string two = "fn @main(%x: Tensor[(2), f32]) -> (Tensor[(2), f32], Tensor[(2), f32]) {\n  %0 = nn.relu(%x)\n";
  EXPECT_THAT(error_of(two + "  return %0, %0\n}"), HasSubstr("two returned values are called \"0\""));
  EXPECT_THAT(error_of(two + "  %1 = nn.relu(%0)\n  return %0 as \"a\", %1\n}"), HasSubstr("some of the returned values have names"));
  EXPECT_THAT(error_of(two + "  %1 = nn.relu(%0)\n  return %0 as \"a\", %1 as \"a\"\n}"), HasSubstr("two returned values are called \"a\""));
  EXPECT_THAT(error_of("fn @main() -> () {\n  return\n}"), HasSubstr("returns at least one value"));
}

const std::string kUnequal =
    "fn @main(%x: Tensor[(N), f32], %y: Tensor[(M), f32]) -> Tensor[(N), f32] {\n";

TEST(ProgramText, WhatTypeRulesAssumeIsAConstraintWhateverTheTextStates) {
  const Graph graph = parse(kUnequal + "  where K == K from \"a lie\"\n  %0 = add(%x, %y)  // Add_0\n  return %0\n}");
  ASSERT_EQ(graph.main.constraints.size(), 2u);
  EXPECT_EQ(graph.main.constraints[1].left, Dim::symbol("N"));
  EXPECT_EQ(graph.main.constraints[1].right, Dim::symbol("M"));
  const Graph stated = parse(kUnequal + "  where M == N from \"mine\"\n  %0 = add(%x, %y)\n  return %0\n}");
  ASSERT_EQ(stated.main.constraints.size(), 1u) << "once, also the other way round";
  EXPECT_EQ(stated.main.constraints[0].origin, "mine");
}

TEST(ProgramText, WhatBodiesAndDeclaredTypesAssumeIsAConstraintToo) {
  const Graph body = parse(kUnequal +
                           "  %0 = fused(%x, %y) fn @f(%a: Tensor[(N), f32], %b: Tensor[(M), f32]) -> Tensor[(N), f32] {\n"
                           "    %0 = add(%a, %b)\n    return %0\n  }\n  return %0\n}");
  EXPECT_EQ(body.main.constraints.size(), 1u);
  const Graph declared = parse("fn @main(%x: Tensor[(N), f32]) -> Tensor[(M), f32] {\n"
                               "  %0: Tensor[(M), f32] = nn.relu(%x)  // Relu_0\n  return %0\n}");
  ASSERT_EQ(declared.main.constraints.size(), 1u);
  EXPECT_EQ(declared.main.constraints[0].origin, "Relu_0");
}

TEST(ProgramText, ConstantsBesideItComeFromTheWeightsUnderTheirNameOrAnother) {
  const std::vector<float> values(32, 2.5f);
  Weights weights;
  weights.entries["w"] = make_constant({DType::kF32, {32}}, values.data());
  const std::string text = "weights \"m.weights\"\nfn @main() -> Tensor[(32), f32] {\n"
                           "  %0 = add(@w: Tensor[(32), f32], @again: Tensor[(32), f32] from \"w\")\n  return %0\n}";
  const Graph graph = parse(text, weights);
  EXPECT_EQ(graph.main.nodes()[0]->inputs[0]->constant, graph.main.nodes()[0]->inputs[1]->constant);
  EXPECT_THAT(error_of(text), StartsWith("m.gir:3:12: no entry 'w'\n"));
  EXPECT_THAT(error_of("weights \"gone.weights\"\n" + kHead), StartsWith("m.gir:1:9: gone.weights: there is no such file\n"));
}

TEST(ProgramText, SizesTakeThePlaceOfSymbolsEverywhere) {
  const std::map<std::string, Dim> sizes = {{"N", 6}};
  const std::string node = "  %0 = scale(%x, size=2*N)\n  return %0\n}";
  const Graph graph = parse(kHead + "  where N == 6 from \"A\"\n" + node, {}, sizes);
  EXPECT_EQ(graph.main.outputs[0]->type.str(), "Tensor[(6, 4), f32]");
  EXPECT_EQ(graph.main.nodes()[0]->attrs_as<ScaleAttrs>().size, Dim(12));
  EXPECT_TRUE(graph.main.constraints.empty()) << "it holds";
  EXPECT_THAT(error_of(kHead + "  where N == 7 from \"A\"\n" + node, sizes),
              StartsWith("m.gir:2:9: the sizes given do not fit: 6 is not 7 here, for A\n"));
}

TEST(ProgramText, RangesAreThoseOfTheInputsSymbolsAndMeetSizesThatAreGiven) {
  const std::string text = kHead + "  where N in 2..8\n  %0 = scale(%x, size=2*N)\n  return %0\n}";
  const Graph graph = parse(text);
  EXPECT_EQ(graph.main.ranges(), (std::map<std::string, DimRange>{{"N", {2, 8}}}));
  EXPECT_EQ(graph.main.nodes()[0]->attrs_as<ScaleAttrs>().size.lower_bound(), 4);
  EXPECT_EQ(parse(kHead + "  where N  in 2..8\n  return %x\n}").main.ranges(), graph.main.ranges());
  EXPECT_TRUE(parse(text, {}, {{"N", 6}}).main.ranges().empty());
  EXPECT_THAT(error_of(text, {{"N", 9}}), HasSubstr("the size 9 that N is given is not in 2..8"));
  EXPECT_EQ(parse(kHead + "  where N in 1..\n  return %x\n}").main.ranges().at("N"), (DimRange{1, DimRange().high}));
  for (const char* bad : {"8..2", "-1..2", "M..8", "2..8x"})
    EXPECT_THAT(error_of(kHead + "  where N in " + bad + "\n  return %x\n}"), StartsWith("m.gir:2:9: ")) << bad;
  EXPECT_THAT(error_of(kHead + "  where M in 2..8\n  return %x\n}"),
              StartsWith("m.gir:2:9: no input has a dimension M"));
  EXPECT_THAT(error_of(kHead + "  where N in 2..8\n  where N in 3..9\n  return %x\n}"),
              StartsWith("m.gir:3:9: N has a range already"));
}

TEST(ProgramText, BeginsBehindAByteOrderMark) {
  const std::string mark = "\xef\xbb\xbf", text = kHead + "  return %x\n}";
  EXPECT_EQ(parse(mark + text).main.parameters.size(), parse(text).main.parameters.size());
  EXPECT_TRUE(is_graph_text(mark + text));
  EXPECT_THAT(error_of(mark + "fm"), StartsWith("m.gir:1:1: expected the function"));
}

TEST(ProgramText, OutputsHaveNames) {
  EXPECT_THAT(error_of(kHead + "  return %x as \"\"\n}"), StartsWith("m.gir:2:16: a name cannot be empty"));
}

// --- what a round trip keeps

TEST(ProgramText, KeepsRangesOfSymbols) {
  expect_same_again(parse(kHead + "  where N in 2..8\n  %0 = scale(%x, size=2*N)\n  return %0\n}"));
}

TEST(ProgramText, KeepsNamesOfConstantsAndEntriesOfTheSameBytes) {
  const std::vector<float> values(32, 1.0f);
  Graph graph;
  graph.model_name = "a \"model\"\n";
  graph.passes = {"simplify_inference", "fold_constant"};
  Function& main = graph.main;
  const ConstantPtr shared = make_constant({DType::kF32, {32}}, values.data());
  const float six = 6;
  std::vector<Value*> inputs = {main.add_constant("w", shared), main.add_constant("v", shared),
                                main.add_constant("__metadata__", make_constant({DType::kF32, {32}}, values.data())),
                                main.add_constant("\xff\x01", make_constant({DType::kF32, {32}}, values.data())),
                                main.add_constant("six", make_constant({DType::kF32, {}}, &six))};
  Node* node = main.add_node(ops().find("copy"), nullptr, inputs, {shared->type}, {"// a, \"b\"", " c ", ""});
  main.outputs = {node->result()};
  main.output_names = {"y\t\x7f"};
  expect_same_again(graph);
  WeightEntries entries;
  const std::string text = print_program(graph, ops(), "m.gir.weights", entries);
  ASSERT_EQ(entries.size(), 3u) << "two constants share theirs";
  EXPECT_EQ(entries[1].first, "__metadata___1") << "safetensors has that name for itself";
  EXPECT_EQ(entries[2].first, "__");
  EXPECT_THAT(text, StartsWith("gir 1\nmodel \"a \\\"model\\\"\\n\"\nweights \"m.gir.weights\"\n"
                               "passes simplify_inference, fold_constant\nfn @main("));
  EXPECT_THAT(text, HasSubstr("@v: Tensor[(32), f32] from \"w\""));
  EXPECT_THAT(text, HasSubstr("@six: const(f32, [], [6])"));
}

TEST(ProgramText, KeepsNamesThatLookLikeSomethingElse) {
  Graph graph;
  Value* value = graph.main.add_parameter("a//b", {DType::kF32, {2}});
  for (const char* name : {"//", "none", "const", "return", "x y", "\"", "\\", "a\nb", "größe", "%x", "1"}) {
    Node* node = graph.main.add_node(ops().find("nn.relu"), nullptr, {value}, {value->type}, {name}, nullptr, name);
    value = node->result();
    EXPECT_EQ(value->name, name);
  }
  graph.main.outputs = {value};
  expect_same_again(graph);
}

TEST(ProgramText, KeepsNumbersAndStringsOfAttributesExactly) {
  Graph graph;
  Value* x = graph.main.add_parameter("x", {DType::kF32, {2}});
  auto attrs = std::make_shared<ScaleAttrs>();
  attrs->factor = std::bit_cast<double>(uint64_t{0xfff8000000000123});
  attrs->weights = {-0.0, 1e-310, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), 0.1};
  attrs->label = std::string("\0\x01\"\\\n\r\t,)]\x7f//", 13) + "ü";
  attrs->count = std::numeric_limits<int64_t>::min();
  attrs->size = Dim::parse("floordiv(2*N+3, M)*K-max(N, 7)");
  Node* node = graph.main.add_node(ops().find("scale"), attrs, {x}, {x->type}, {});
  graph.main.outputs = {node->result()};
  expect_same_again(graph);
  WeightEntries none;
  const Graph again = parse(print_program(graph, ops(), "", none));
  const auto& read = again.main.nodes()[0]->attrs_as<ScaleAttrs>();
  EXPECT_EQ(std::bit_cast<uint64_t>(read.factor), std::bit_cast<uint64_t>(attrs->factor));
  EXPECT_TRUE(std::signbit(read.weights[0]));
  EXPECT_EQ(read.label, attrs->label);
}

TEST(ProgramText, KeepsBitsOfEveryElementType) {
  Graph graph;
  std::vector<Value*> inputs;
  const uint8_t bytes[16] = {0x01, 0x00, 0xc0, 0x7f, 0x00, 0x00, 0xc0, 0xff, 0xff, 0x7e, 0x00, 0x80, 0x01, 0x00, 0xf8, 0x7f};
  const uint8_t truth[2] = {0, 1};
  for (const char* dtype : {"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}) {
    const DType type = *parse_dtype(dtype);
    inputs.push_back(graph.main.add_constant(dtype, make_constant({type, {16 / byte_width(type)}}, bytes)));
  }
  inputs.push_back(graph.main.add_constant("bool", make_constant({DType::kBool, {2, 1}}, truth)));
  inputs.push_back(graph.main.add_constant("empty", make_constant({DType::kF32, {0, 3}}, truth)));
  Node* node = graph.main.add_node(ops().find("copy"), nullptr, inputs, {inputs[0]->type}, {});
  graph.main.outputs = {node->result()};
  WeightEntries none;
  const Graph again = parse(print_program(graph, ops(), "", none));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ConstantData &before = *inputs[i]->constant, &after = *again.main.nodes()[0]->inputs[i]->constant;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(before.bytes), before.size),
              std::string(reinterpret_cast<const char*>(after.bytes), after.size))
        << inputs[i]->name;
  }
}

TEST(ProgramText, KeepsTypesThatTheRuleWouldNotInfer) {
  Graph graph;
  Value* x = graph.main.add_parameter("x", {DType::kF32, {Dim::parse("N*2")}});
  Node* node = graph.main.add_node(ops().find("nn.relu"), nullptr, {x}, {{DType::kF32, {Dim::parse("M")}}}, {});
  graph.main.outputs = {node->result()};
  graph.main.constraints = {{Dim::parse("M"), Dim::parse("2*N"), "Reshape_0"}};
  expect_same_again(graph);
}

// --- text made to do harm

TEST(ProgramText, HugeAndDeepThingsAreRefusedWithoutTheMemoryThatTheyNeed) {
  const std::string huge = "4611686018427387904";
  EXPECT_THAT(error_of_node("add(%x, @w: Tensor[(" + huge + "), f32])"), HasSubstr("does not fit into 64 bits"));
  EXPECT_THAT(error_of_node("add(%x, @w: Tensor[(1099511627776), f32])"), HasSubstr("no entry 'w'"));
  EXPECT_THAT(error_of_node("add(%x, const(f32, [" + huge + ", " + huge + "], []))"), HasSubstr("does not fit into 64 bits"));
  EXPECT_THAT(error_of_node("add(%x, const(f32, [" + huge + "], [1]))"), HasSubstr("1 elements are given"));
  EXPECT_THAT(error_of_node("add(%x, const(f32, [-1], []))"), HasSubstr("cannot be -1"));
  EXPECT_THAT(error_of_node("add(%x, const(f32, [N], [1]))"), HasSubstr("no symbolic dimensions"));
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(99999999999999999999), f32])"), HasSubstr("does not fit into 64 bits"));
  EXPECT_THAT(
      error_of("fn @main(%x: Tensor[(2), f32],\n %y: Tensor[(" + huge + ", 3), f32]) -> Tensor[(2), f32] {"),
      StartsWith("m.gir:2:3: a dimension does not fit into 64 bits"));
  EXPECT_THAT(
      error_of("fn @main(%x: Tensor[(N, 4), f32]) -> Tensor[(N, 4), f32] {", {{"N", Dim::parse(huge)}}),
      StartsWith("m.gir:1:11: a dimension does not fit into 64 bits"));
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(N, M), f32]) -> Tensor[(N, M), f32] {\n  %0: Tensor[(N, " +
                       huge + "*K), f32] = nn.relu(%x)\n"),
              StartsWith("m.gir:2:4: a dimension does not fit into 64 bits"));
  std::string many = "1";
  for (int i = 0; i < 100; ++i) many += ", 1";
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(" + many + "), f32])"), HasSubstr("64 dimensions at most"));
  std::string deep = "N", power = "N";
  for (int i = 0; i < 100000; ++i) deep = "(" + deep;
  for (int i = 0; i < 100000; ++i) power += "*N";
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(" + deep + "), f32])"), HasSubstr("closes nothing"));
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(" + deep + std::string(100000, ')') + "), f32])"), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(" + power + "), f32])"), HasSubstr("factors"));
  std::string bodies = kHead;
  for (int i = 0; i < 100; ++i) bodies += "  %0 = fused(%x) fn @f(%x: Tensor[(N, 4), f32]) -> Tensor[(N, 4), f32] {\n";
  EXPECT_THAT(error_of(bodies), HasSubstr("nested too deeply"));
}

TEST(ProgramText, NamesAndQuotesThatAreWrongAreErrors) {
  EXPECT_THAT(error_of(kHead + "  %\"open = nn.relu(%x)\n  return %0\n}"), StartsWith("m.gir:2:4: this quote is not closed in its line\n"));
  EXPECT_THAT(error_of("fn @main(%\"\": Tensor[(2), f32]"), HasSubstr("a name cannot be empty"));
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(2), f32], %x: Tensor[(2), f32]"), StartsWith("m.gir:1:33: 'x' is defined twice\n"));
  EXPECT_THAT(error_of("model \"\\q\"\n" + kHead), HasSubstr("hexadecimal digits"));
  EXPECT_THAT(error_of(kHead + "  %x = nn.relu(%x)\n"), StartsWith("m.gir:2:4: 'x' is defined twice\n"));
}

TEST(ProgramText, IsToldFromOtherBytes) {
  EXPECT_TRUE(is_graph_text("gir 1\nfn"));
  EXPECT_TRUE(is_graph_text("\n // by hand\n\tfn @main"));
  EXPECT_TRUE(is_graph_text("model \"m\""));
  EXPECT_FALSE(is_graph_text(""));
  EXPECT_FALSE(is_graph_text("fnord"));
  EXPECT_FALSE(is_graph_text(std::string("\x08\x08\x12\x04", 4)));
}

TEST(ProgramText, StringsStandInQuotesHoweverManyThereAre) {
  const auto constant = make_strings({3}, {"a \"b\", c]", "", std::string("\0\n", 2)});
  EXPECT_EQ(print_constant(*constant), R"(const(string, [3], ["a \"b\", c]", "", "\x00\n"]))");
  const Graph graph = parse_graph(
      "fn @main() -> Tensor[(3), string] {\n  %0 = copy(" + print_constant(*constant) + ")\n  return %0\n}\n",
      ops());
  EXPECT_EQ(strings_of(*graph.main.nodes()[0]->inputs[0]->constant), strings_of(*constant));
}

}  // namespace
}  // namespace gantry
