// Functions of the model.
#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT

const std::string kOpsets = "opset_import { version: 16 } opset_import { domain: 'local' version: 1 } ";

std::string function(const std::string& name, const std::string& inputs, const std::string& outputs,
                     const std::string& rest) {
  return fmt::format(
      "functions {{ domain: 'local' name: '{}' {}{} opset_import {{ version: 16 }} "
      "opset_import {{ domain: 'local' version: 1 }} {} }} ",
      name, names("input", inputs), names("output", outputs), rest);
}
const std::string kLocal = "domain: 'local' ";

/// r = a * factor + b
const std::string kScaled =
    function("Scaled", "a b", "r",
             "attribute: 'factor' " +
                 node("Constant", "", "f", attribute("value_float", "type: FLOAT ref_attr_name: 'factor'")) +
                 node("Mul", "a f", "m") + node("Add", "m b", "r"));

const Inputs kTwo{{"x", {{3}, {1, 2, -3}}}, {"y", {{3}, {10, 20, 30}}}};

TEST(Function, ABodyTakesTheNodesInputsAndAttributes) {
  const std::string nodes = node("Scaled", "x y", "p", kLocal + attribute("factor", "type: FLOAT f: 3")) +
                            node("Scaled", "p x", "q", kLocal + attribute("factor", "type: FLOAT f: -0.5"));
  expect_near(results(parse(nodes, kTwo, "q", kOpsets, kScaled), kTwo)[0], {-5.5, -11, -13.5}, 1e-6);
}

TEST(Function, CallsOthersAndPassesItsAttributesOn) {
  const std::string twice = function(
      "Twice", "x y", "z",
      "attribute: 'scale' " +
          node("Scaled", "x y", "t", kLocal + attribute("factor", "type: FLOAT ref_attr_name: 'scale'")) +
          node("Scaled", "t y", "z", kLocal + attribute("factor", "type: FLOAT ref_attr_name: 'scale'")));
  // Its names x, y and t are its own.
  const std::string nodes = node("Neg", "x", "t") +
                            node("Twice", "y t", "u", kLocal + attribute("scale", "type: FLOAT f: 2")) +
                            node("Add", "u t", "z");
  const auto actual = results(parse(nodes, kTwo, "z", kOpsets, kScaled + twice), kTwo)[0];
  expect_near(actual, {2 * (2 * 10 - 1) - 1 - 1, 2 * (2 * 20 - 2) - 2 - 2, 2 * (2 * 30 + 3) + 3 + 3}, 1e-6);
}

TEST(Function, AnAttributeThatTheNodeDoesNotGiveHasItsDefaultOrIsAbsent) {
  onnx::ModelProto proto = parse(node("Scaled", "x y", "q", kLocal), kTwo, "q", kOpsets, kScaled);
  onnx::AttributeProto value;
  value.set_name("factor");
  value.set_type(onnx::AttributeProto::FLOAT);
  value.set_f(4);
  // The field attribute_proto, which older releases of onnx do not know.
  auto* known = proto.mutable_functions(0);
  known->clear_attribute();
  known->GetReflection()->MutableUnknownFields(known)->AddLengthDelimited(11, value.SerializeAsString());
  onnx::ModelProto read;
  ASSERT_TRUE(read.ParseFromString(proto.SerializeAsString()));
  expect_near(results(read, kTwo)[0], {14, 28, 18}, 1e-6);

  // Without a value, HardSigmoid has its own default: 0.2.
  const std::string soft =
      function("Soft", "x", "r",
               "attribute: 'alpha' " +
                   node("HardSigmoid", "x", "r", attribute("alpha", "type: FLOAT ref_attr_name: 'alpha'")));
  expect_near(results(parse(node("Soft", "x", "q", kLocal), kTwo, "q", kOpsets, soft), kTwo)[0],
              {0.7, 0.9, 0}, 1e-6);
}

TEST(Function, AnInputThatTheNodeLeavesOutIsAbsentInTheBody) {
  const std::string bounded = function("Bounded", "x low high", "r", node("Clip", "x low high", "r"));
  const std::string nodes = node("Constant", "", "two", attribute("value_float", "type: FLOAT f: 1.5")) +
                            node("Bounded", "x - two", "q", kLocal);
  expect_near(results(parse(nodes, kTwo, "q", kOpsets, bounded), kTwo)[0], {1, 1.5, -3}, 1e-6);
  const std::string fewer = node("Constant", "", "two", attribute("value_float", "type: FLOAT f: 1.5")) +
                            node("Bounded", "x two", "q", kLocal);
  expect_near(results(parse(fewer, kTwo, "q", kOpsets, bounded), kTwo)[0], {1.5, 2, 1.5}, 1e-6);
}

TEST(Function, OfSeveralOfANameTheOneOfTheNodesOverloadIsCalled) {
  onnx::ModelProto proto =
      parse(node("Signed", "x", "p", kLocal) + node("Signed", "p", "q", kLocal), kTwo, "q", kOpsets,
            function("Signed", "x", "r", node("Neg", "x", "r")) +
                function("Signed", "x", "r", node("Abs", "x", "r")));
  // The fields overload, which older releases of onnx do not know.
  const auto name = [](auto* message, int field, const std::string& overload) {
    message->GetReflection()->MutableUnknownFields(message)->AddLengthDelimited(field, overload);
  };
  name(proto.mutable_functions(0), 13, "negative");
  name(proto.mutable_functions(1), 13, "positive");
  name(proto.mutable_graph()->mutable_node(0), 8, "positive");
  name(proto.mutable_graph()->mutable_node(1), 8, "negative");
  onnx::ModelProto read;
  ASSERT_TRUE(read.ParseFromString(proto.SerializeAsString()));
  expect_near(results(read, kTwo)[0], {-1, -2, -3}, 1e-6);
}

void expect_refused_call(const onnx::ModelProto& model, const std::string& message) {
  try {
    results(model, kTwo);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(Function, AFunctionThatCallsItselfIsAnError) {
  const std::string once = function("Self", "x", "r", node("Self", "x", "r", kLocal));
  const std::string twice =
      function("Self", "x", "r", node("Self", "x", "t", kLocal) + node("Self", "t", "r", kLocal));
  const std::string through_another =
      function("Self", "x", "r", node("Other", "x", "t", kLocal) + node("Other", "t", "r", kLocal)) +
      function("Other", "x", "r", node("Self", "x", "t", kLocal) + node("Self", "t", "r", kLocal));
  for (const std::string& functions : {once, twice, through_another}) {
    expect_refused_call(
        parse(node("Self", "x", "q", "name: 'n' " + kLocal), kTwo, "q", kOpsets, functions),
        "node n: its function, with those that it calls, has more than 250000 nodes, calls itself, or");
  }
}

// Each calls the one after it.
TEST(Function, AChainOfMoreFunctionsThanAnyStackHoldsIsAnError) {
  onnx::ModelProto model = parse(node("F0", "x", "q", "name: 'n' " + kLocal), kTwo, "q", kOpsets,
                                 function("F0", "x", "r", node("F1", "x", "r", kLocal)));
  const onnx::FunctionProto first = model.functions(0);
  for (int i = 1; i <= 100'000; ++i) {
    onnx::FunctionProto& next = *model.add_functions();
    next = first;
    next.set_name(fmt::format("F{}", i));
    next.mutable_node(0)->set_op_type(fmt::format("F{}", i + 1));
  }
  expect_refused_call(model, "or is more than 64 deep");
}

// 40 functions, each of which calls the one before it twice: 2^40 nodes.
TEST(Function, FunctionsOfMoreNodesThanAnyMemoryHoldsAreAnError) {
  std::string functions = function("F0", "x", "r", node("Neg", "x", "r"));
  for (int i = 1; i <= 40; ++i) {
    const std::string inner = fmt::format("F{}", i - 1);
    functions +=
        function(fmt::format("F{}", i), "x", "r", node(inner, "x", "t", kLocal) + node(inner, "t", "r", kLocal));
  }
  expect_refused_call(parse(node("F40", "x", "q", "name: 'n' " + kLocal), kTwo, "q", kOpsets, functions),
                      "node n: its function, with those that it calls, has more than");
}

}  // namespace
}  // namespace gantry
