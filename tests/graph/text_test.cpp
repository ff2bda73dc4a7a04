// Printer, parser and verifier.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "host/graph/graph.h"
#include "tests/graph/small_ops.h"

namespace gantry {
namespace {

using testing::HasSubstr;

enum class Mode { kSum, kMean };
struct EveryAttrs : AttrsOf<EveryAttrs> {
  int64_t count = 1;
  double scale = 0.5;
  bool flag = false;
  std::string label;
  DType dtype = DType::kF32;
  Dim dim = 1;
  std::vector<int64_t> strides;
  std::vector<double> weights;
  Shape shape;
  Mode mode = Mode::kSum;
  void fields(AttrVisitor& visit) override {
    visit("count", count);
    visit("scale", scale);
    visit("flag", flag);
    visit("label", label);
    visit("dtype", dtype);
    visit("dim", dim);
    visit("strides", strides);
    visit("weights", weights);
    visit("shape", shape);
    visit.enumeration("mode", mode, {"sum", "mean"});
  }
};

struct WindowAttrs : AttrsOf<WindowAttrs> {
  std::vector<int64_t> kernel, strides;
  Shape padding;
  bool ceil = false;
  void fields(AttrVisitor& visit) override {
    visit("kernel", kernel);
    visit.filled("strides", strides, kernel.size(), 1);
    visit.filled("padding", padding, 2 * kernel.size(), 0);
    visit("ceil", ceil);
  }
};

struct ConvertAttrs : AttrsOf<ConvertAttrs> {
  Mode mode = Mode::kSum;
  DType to = DType::kF32;
  void fields(AttrVisitor& visit) override {
    visit.always("mode", mode, {"sum", "mean"});
    visit.always("to", to);
  }
};

struct ScaleForm {
  int64_t block = 0;
  Mode order = Mode::kSum;
};
struct ScaleAttrs : AttrsOf<ScaleAttrs> {
  int64_t axis = -1;
  bool exact = false;
  ScaleForm form;
  void fields(AttrVisitor& visit) override {
    visit("axis", axis);
    visit.choices([&] {
      visit("block", form.block);
      visit.enumeration("order", form.order, {"sum", "mean"});
    });
    visit("exact", exact);
  }
};

std::vector<TensorType> as_first(const Node& node, Function&) {
  if (node.inputs.empty() || node.inputs[0] == nullptr) user_error("the first input is missing");
  return {node.inputs[0]->type};
}

std::vector<TensorType> assume_equal(const Node& node, Function& function) {
  const Dim &a = node.inputs.at(0)->type.shape.at(0), &b = node.inputs.at(1)->type.shape.at(0);
  if (!(a == b)) function.constraints.push_back({a, b, node.origin.empty() ? "" : node.origin[0]});
  return {node.inputs[0]->type};
}

const SmallOpTable& ops() {
  static constexpr Op<NoAttrs> relu{"relu"}, clip{"clip"}, add{"add"}, halves{"halves"}, fused{"fused"};
  static constexpr Op<EveryAttrs> every{"every"};
  static constexpr Op<WindowAttrs> window{"window"};
  static constexpr Op<ConvertAttrs> convert{"convert"};
  static constexpr Op<ScaleAttrs> scale{"scale"};
  static const SmallOpTable table({{relu, as_first},
                                   {clip, as_first},
                                   {add, assume_equal},
                                   {every, as_first},
                                   {window, as_first},
                                   {convert, as_first},
                                   {scale, as_first},
                                   {halves,
                                    [](const Node& node, Function&) {
                                      TensorType half = node.inputs.at(0)->type;
                                      half.shape.at(0) = floordiv(half.shape[0], 2);
                                      return std::vector<TensorType>{half, half};
                                    }},
                                   {fused, [](const Node& node, Function&) {
                                      if (node.bodies.empty()) user_error("a body is missing");
                                      std::vector<TensorType> types;
                                      for (const Value* value : node.bodies[0]->outputs)
                                        types.push_back(value->type);
                                      return types;
                                    }}});
  return table;
}

void expect_round_trip(const std::string& text) {
  const Graph graph = parse_graph(text, ops());
  EXPECT_EQ(print(graph, ops()), text);
  Graph copy = clone_graph(graph);
  EXPECT_EQ(print(copy, ops()), text);
  verify(copy, ops(), "parsing");
}

TEST(Text, RoundTripsAPlainFunction) {
  expect_round_trip(R"(model "tiny"
fn @main(%x: Tensor[(N, 4), f32], %y: Tensor[(N, 4), f32]) -> Tensor[(N, 4), f32] {
  %0 = add(%x, %y)  // Add_0
  %1 = relu(%0)
  return %1 as "out"
}
)");
}

TEST(Text, RoundTripsConstantsInlineByNameAndByReference) {
  expect_round_trip(R"(fn @main(%x: Tensor[(2), f32]) -> (Tensor[(2), f32], Tensor[(), i64]) {
  %0 = add(%x, const(f32, [2], [1.5, -0.1]))
  %1 = add(%0, @shared: const(f32, [2], [1e-45, inf]))
  %2 = add(%1, @shared)
  %3 = add(%2, @conv1.weight: Tensor[(2, 3, 7, 7), f32])  // Conv_0, Add_1
  %4 = clip(%3, none, const(f32, [], [6]))
  %5 = clip(%4, const(bool, [2], [true, false]), const(f16, [1], [0x3c00]), const(i64, [0], []))
  return %5, const(i64, [], [-9223372036854775808])
}
)");
}

TEST(Text, RoundTripsEveryKindOfAttribute) {
  expect_round_trip(
      "fn @main(%x: Tensor[(N), f32]) -> Tensor[(N), f32] {\n"
      "  %0 = every(%x, count=-3, scale=1e-05, flag=true, label=\"a, \\\"b\\\"\\n)\", dtype=i64, dim=2*N+1, "
      "strides=[2, 2], weights=[0.1, inf], shape=(N, floordiv(N+1, 2)), mode=mean)\n"
      "  return %0\n}\n");
}

std::string with_node(const std::string& node) {
  return "fn @main(%x: Tensor[(N), f32]) -> Tensor[(N), f32] {\n  %0 = " + node + "\n  return %0\n}\n";
}
std::string reprinted(const std::string& node) {
  return print(parse_graph(with_node(node), ops()), ops());
}

TEST(Text, AttributesAtTheirDefaultAreNotPrintedAndMayBeGiven) {
  EXPECT_EQ(reprinted("every(%x, count=1, scale=0.5, flag=false, label=\"\", mode=sum)"),
            with_node("every(%x)"));
  EXPECT_EQ(reprinted("every(%x, count=2, dim=1)"), with_node("every(%x, count=2)"));
  const Graph graph = parse_graph(with_node("every(%x)"), ops());
  EXPECT_EQ(graph.main.nodes()[0]->attrs_as<EveryAttrs>().scale, 0.5);
}

TEST(Text, ListsWhoseLengthFollowsFromOthersHaveDefaultsToo) {
  const std::string plain = "window(%x, kernel=[3, 3])";
  EXPECT_EQ(reprinted("window(%x, kernel=[3, 3], strides=[1, 1], padding=(0, 0, 0, 0), ceil=false)"),
            with_node(plain));
  const Graph graph = parse_graph(with_node(plain), ops());
  const auto& attrs = graph.main.nodes()[0]->attrs_as<WindowAttrs>();
  EXPECT_EQ(attrs.strides, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(to_string(attrs.padding), "(0, 0, 0, 0)");
  for (const char* node :
       {"window(%x, kernel=[3, 3], strides=[2, 1])", "window(%x, kernel=[3, 3], strides=[])",
        "window(%x, kernel=[3, 3], padding=(N, 0, 0, 0))", "window(%x)", "window(%x, strides=[1])"})
    EXPECT_EQ(reprinted(node), with_node(node));
}

TEST(Text, AttributesWithoutAnObviousDefaultAreAlwaysPrinted) {
  EXPECT_EQ(reprinted("convert(%x)"), with_node("convert(%x, mode=sum, to=f32)"));
  EXPECT_EQ(reprinted("convert(%x, to=i8, mode=mean)"), with_node("convert(%x, mode=mean, to=i8)"));
}

TEST(Text, HowANodeIsComputedStandsBehindWhatItMeans) {
  for (const char* node :
       {"scale(%x, axis=1, exact=true) by (block=8, order=mean)", "scale(%x) by (order=mean)",
        "scale(%x, exact=true)", "scale(%x) by (block=8) on gpu {form=blocked, block=8}  // Mul_0"})
    EXPECT_EQ(reprinted(node), with_node(node));
  EXPECT_EQ(reprinted("scale(%x) by (block=0)"), with_node("scale(%x)"));
  EXPECT_EQ(reprinted("scale(%x) by ()"), with_node("scale(%x)"));
}

TEST(Text, HowANodeIsComputedMayStandAmongItsAttributes) {
  EXPECT_EQ(reprinted("scale(%x, block=8, axis=1, order=mean)"),
            with_node("scale(%x, axis=1) by (block=8, order=mean)"));
  EXPECT_EQ(reprinted("scale(%x, block=8) by (order=mean)"), with_node("scale(%x) by (block=8, order=mean)"));
}

TEST(Text, ChoicesCountAmongAllFields) {
  const Graph graph = parse_graph(with_node("scale(%x, axis=1) by (block=8)"), ops());
  const auto& attrs = graph.main.nodes()[0]->attrs_as<ScaleAttrs>();
  EXPECT_EQ(to_string(attrs), "axis=1, block=8, order=sum, exact=false");
  ScaleAttrs other = attrs;
  EXPECT_TRUE(equal(attrs, other));
  other.form.block = 16;
  EXPECT_FALSE(equal(attrs, other));
}

TEST(Text, RoundTripsSeveralResultsConstraintsAndBodies) {
  expect_round_trip(R"(fn @main(%x: Tensor[(N), f32], %y: Tensor[(M), f32]) -> Tensor[(floordiv(N, 2)), f32] {
  where N == M from "Add_0"
  %0 = add(%x, %y)  // Add_0
  %a, %b = halves(%0)
  %2 = fused(%a, %b) fn @add_relu(%p: Tensor[(floordiv(N, 2)), f32], %q: Tensor[(floordiv(N, 2)), f32]) -> Tensor[(floordiv(N, 2)), f32] {
    %0 = add(%p, %q)  // Add_1
    %1 = relu(%0)  // Relu_2
    return %1
  }  // Add_1, Relu_2
  return %2
}
)");
}

TEST(Text, RoundTripsNamesThatNeedQuotes) {
  expect_round_trip(R"(fn @main(%"my input": Tensor[(2), f32]) -> Tensor[(2), f32] {
  %"a \"b\"" = relu(%"my input")  // "node, with comma", plain name
  return %"a \"b\"" as "x:0"
}
)");
}

TEST(Text, RoundTripsPlacements) {
  expect_round_trip(R"(fn @main(%x: Tensor[(N, 4), f32]) -> Tensor[(N, 4), f32] {
  %0 = relu(%x) on gpu  // Relu_0
  %1 = fused(%0) fn @relu(%a: Tensor[(N, 4), f32]) -> Tensor[(N, 4), f32] {
    %0 = relu(%a)
    return %0
  } on cpu  // Relu_1
  %2 = relu(%1)
  return %2
}
)");
}

TEST(Text, OriginsComeBackFromComments) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(2), f32]) -> Tensor[(2), f32] {\n"
      "  // a remark\n"
      "  %0 = relu(%x)  // Conv_0, Relu_1\n"
      "  return %0 }",
      ops());
  EXPECT_THAT(graph.main.nodes()[0]->origin, testing::ElementsAre("Conv_0", "Relu_1"));
}

TEST(Text, LargeConstantsAreLookedUpByName) {
  const std::vector<float> values(32, 2.5f);
  const TensorType type{DType::kF32, {32}};
  const Graph graph =
      parse_graph("fn @main() -> Tensor[(32), f32] { %0 = relu(@w: Tensor[(32), f32]) return %0 }", ops(),
                  {{"w", make_constant(type, values.data())}});
  EXPECT_EQ(graph.main.nodes()[0]->inputs[0]->constant->as<float>()[31], 2.5f);
}

TEST(Text, NanKeepsItsBits) {
  const float nan = -std::numeric_limits<float>::quiet_NaN();
  Graph graph;
  Value* c = graph.main.add_constant("c", make_constant({DType::kF32, {}}, &nan));
  graph.main.outputs = {c};
  const Graph again = parse_graph(print(graph, ops()), ops());
  uint32_t bits = 0;
  std::memcpy(&bits, again.main.outputs[0]->constant->bytes, 4);
  EXPECT_EQ(bits, 0xffc00000u);
}

TEST(Text, ConstraintsOfTypeRulesStayWhereTheTextStatesNone) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(N), f32], %y: Tensor[(M), f32]) -> Tensor[(N), f32] {\n"
      "  %0 = add(%x, %y)  // Add_0\n  return %0 }",
      ops());
  ASSERT_EQ(graph.main.constraints.size(), 1u);
  EXPECT_EQ(graph.main.constraints[0].origin, "Add_0");
}

std::string error_of(const std::string& text) {
  try {
    parse_graph(text, ops());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "no error";
}

TEST(Text, ErrorsNameTheLineAndTheReason) {
  const std::string head = "fn @main(%x: Tensor[(2), f32]) -> Tensor[(2), f32] {\n";
  EXPECT_THAT(error_of(head + "  %0 = nosuch(%x)\n"), HasSubstr("no op 'nosuch'"));
  EXPECT_THAT(error_of(head + "  %0 = relu(%y)\n"), HasSubstr("line 2"));
  EXPECT_THAT(error_of(head + "  %0 = relu(%x)\n  %0 = relu(%x)\n return %0 }"), HasSubstr("defined twice"));
  EXPECT_THAT(error_of(head + "  %0 = relu(%x) on npu\n return %0 }"), HasSubstr("'on cpu' or 'on gpu'"));
  EXPECT_THAT(error_of(head + "  %0 = every(%x, nosuch=1)\n return %0 }"), HasSubstr("'nosuch'"));
  EXPECT_THAT(error_of(head + "  %0 = every(%x, count=a)\n return %0 }"), HasSubstr("'count'"));
  EXPECT_THAT(error_of(head + "  %0 = every(%x, mode=max)\n return %0 }"), HasSubstr("sum, mean"));
  EXPECT_THAT(error_of(head + "  %0 = scale(%x) by (axis=1)\n return %0 }"),
              HasSubstr("line 2, column 22 of the graph text: attribute 'axis' says what the op means"));
  EXPECT_THAT(error_of(head + "  %0 = scale(%x) by (nosuch=1)\n return %0 }"),
              HasSubstr("no attribute 'nosuch'"));
  EXPECT_THAT(error_of(head + "  %0 = scale(%x, block=8) by (block=8)\n return %0 }"),
              HasSubstr("'block' is given twice"));
  EXPECT_THAT(error_of(head + "  %0 = scale(%x) by (%x)\n return %0 }"), HasSubstr("expected an attribute"));
  EXPECT_THAT(error_of(head + "  %0 = scale(%x) by block=8\n return %0 }"), HasSubstr("expected '('"));
  EXPECT_THAT(error_of(head + "  %0 = relu(none)\n return %0 }"), HasSubstr("line 2"));
  EXPECT_THAT(error_of(head + "  %0, %1 = relu(%x)\n return %0 }"), HasSubstr("1 results, not 2"));
  EXPECT_THAT(error_of(head + "  return const(f32, [3], [1, 2]) }"), HasSubstr("2 elements"));
  EXPECT_THAT(error_of(head + "  return const(i8, [1], [300]) }"), HasSubstr("300"));
  EXPECT_THAT(error_of(head + "  return const(f64, [2], [1, 2]) }"), HasSubstr("declares"));
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(2), f99])"), HasSubstr("f99"));
  EXPECT_THAT(error_of("fn @main(%x: Tensor[(2**), f32])"), HasSubstr("line 1"));
}

TEST(Text, EveryPrefixOfATextIsAnErrorAndNoCrash) {
  const std::string text =
      "fn @main(%x: Tensor[(N), f32]) -> Tensor[(N), f32] {\n  where N == 2 from \"A\"\n"
      "  %0 = every(%x, label=\"q\\\"\", shape=(N, 2))  // \"o\"\n"
      "  %1 = scale(%0, axis=1) by (block=8, order=mean)\n"
      "  %2 = add(%1, @c: const(f32, [1], [1]))\n  return %2 as \"y\"\n}";
  for (size_t n = 0; n < text.size(); ++n) EXPECT_THAT(error_of(text.substr(0, n)), HasSubstr("line "));
  EXPECT_EQ(error_of(text), "no error");
}

// --- functions

Graph chain() {
  return parse_graph(R"(fn @main(%x: Tensor[(2), f32]) -> Tensor[(2), f32] {
  %0 = relu(%x)
  %1 = add(%0, @c: const(f32, [2], [1, 2]))
  %2 = add(%1, %0)
  return %2
})",
                     ops());
}

TEST(Function, ReplacingUsesAndRemovingNodesLeavesAValidFunction) {
  Graph graph = chain();
  Function& main = graph.main;
  main.replace_uses(main.nodes()[1]->result(), main.parameters[0]);
  main.remove_nodes([&](const Node& node) { return &node == main.nodes()[1]; });
  main.drop_unused_constants();
  EXPECT_EQ(print(graph, ops()), R"(fn @main(%x: Tensor[(2), f32]) -> Tensor[(2), f32] {
  %0 = relu(%x)
  %2 = add(%x, %0)
  return %2
}
)");
  EXPECT_TRUE(main.constants().empty());
  verify(graph, ops(), "editing");
}

TEST(Function, RemovingAUsedValueIsABugThatIsCaught) {
  Graph graph = chain();
  EXPECT_THROW(graph.main.remove_nodes([&](const Node& n) { return &n == graph.main.nodes()[0]; }), Error);
}

TEST(Function, UsersAndUseCountsAgree) {
  Graph graph = chain();
  const Value* relu = graph.main.nodes()[0]->result();
  EXPECT_EQ(graph.main.use_counts().at(relu), 2);
  EXPECT_EQ(graph.main.users().at(relu).size(), 2u);
  EXPECT_EQ(graph.main.use_counts().at(graph.main.outputs[0]), 1);
}

TEST(Function, NamesAreMadeUnique) {
  Function function;
  const TensorType type{DType::kF32, {}};
  EXPECT_EQ(function.add_parameter("x", type)->name, "x");
  EXPECT_EQ(function.add_parameter("x_1", type)->name, "x_1");
  EXPECT_EQ(function.add_parameter("x", type)->name, "x_2");
}

// --- verifier

std::string verifier_message(Graph& graph) {
  try {
    verify(graph, ops(), "some_pass");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    return error.what();
  }
  return "no error";
}

TEST(Verifier, NamesThePassAndTheNodeThatUsesAValueTooEarly) {
  Graph graph = chain();
  auto order = graph.main.nodes();
  std::swap(order[0], order[1]);
  order[0]->origin = {"Add_7"};
  graph.main.reorder(order);
  EXPECT_THAT(verifier_message(graph), testing::AllOf(HasSubstr("some_pass"), HasSubstr("Add_7")));
}

TEST(Verifier, FindsATypeThatContradictsTheTypeRule) {
  Graph graph = chain();
  graph.main.nodes()[1]->result()->type.shape[0] = 3;
  EXPECT_THAT(verifier_message(graph), HasSubstr("%1"));
}

TEST(Verifier, FindsOutputsOfAnotherFunctionAndMissingNames) {
  Graph graph = chain();
  graph.main.output_names = {"a", "b"};
  EXPECT_THAT(verifier_message(graph), HasSubstr("output names"));
  Graph other = chain();
  graph.main.output_names.clear();
  graph.main.outputs[0] = other.main.outputs[0];
  EXPECT_THAT(verifier_message(graph), HasSubstr("not its own"));
}

}  // namespace
}  // namespace gantry
