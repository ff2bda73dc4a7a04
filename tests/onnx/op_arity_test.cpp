// Nodes with more inputs or outputs than their ops have.
#include "host/onnx/op_arity.h"

#include <gmock/gmock.h>
#ifdef GANTRY_HAS_ONNX_SCHEMAS
#include <onnx/defs/schema.h>
#endif

#include "host/onnx/converters.h"
#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;
using ::testing::HasSubstr;

std::string error_of(const std::string& nodes, int opset, const std::string& rest = "") {
  const std::string opsets = fmt::format(
      "opset_import {{ version: {} }} opset_import {{ domain: 'com.microsoft' version: 1 }} "
      "opset_import {{ domain: 'own' version: 1 }} ",
      opset);
  const onnx::ModelProto model =
      parse(open_input("x", "2 3") + open_input("z", "2 3") + nodes, {}, "y", opsets, rest);
  try {
    import_onnx_bytes(model.SerializeAsString(), ".");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(OpArity, MoreThanTheOpHasIsAnErrorThatNamesTheNode) {
  EXPECT_THAT(error_of(node("Relu", "x z", "y", "name: 'n' "), 16),
              HasSubstr("node n (Relu): has 2 inputs, but Relu of opset 16 has at most 1"));
  EXPECT_THAT(error_of(node("Add", "x z", "y more", "name: 'n' "), 16),
              HasSubstr("node n (Add): has 2 outputs, but Add of opset 16 has at most 1"));
  EXPECT_THAT(
      error_of(node("FastGelu", "x z z", "y", "name: 'n' domain: 'com.microsoft' "), 16),
      HasSubstr("node n (FastGelu): has 3 inputs, but com.microsoft::FastGelu of opset 1 has at most 2"));
}

TEST(OpArity, OfOnnxRuntimesOpsWithTheirChannelsLastIsKnown) {
  const std::string microsoft = "name: 'n' domain: 'com.microsoft' ";
  EXPECT_THAT(
      error_of(node("NhwcMaxPool", "x z", "y", microsoft), 16),
      HasSubstr(
          "node n (NhwcMaxPool): has 2 inputs, but com.microsoft::NhwcMaxPool of opset 1 has at most 1"));
  EXPECT_THAT(
      error_of(node("QLinearConv", "x x x x x x x x x x", "y", microsoft), 16),
      HasSubstr(
          "node n (QLinearConv): has 10 inputs, but com.microsoft::QLinearConv of opset 1 has at most 9"));
  EXPECT_THAT(error_of(node("QLinearConv", "x x x x x x x x", "y z", microsoft), 16),
              HasSubstr("has 2 outputs, but com.microsoft::QLinearConv of opset 1 has at most 1"));
}

TEST(OpArity, IsKnownOfEveryOpThatIsTaken) {
  for (const Converter& converter : all_converters())
    EXPECT_TRUE(largest_arity(converter.domain, converter.op, converter.since))
        << converter.domain << " " << converter.op << " " << converter.since;
}

TEST(OpArity, IsThatOfTheModelsOpset) {
  const std::string low = "initializer { name: 'low' data_type: 1 float_data: 0 } ";
  EXPECT_THAT(error_of(low + node("Clip", "x low", "y"), 10), HasSubstr("Clip of opset 10 has at most 1"));
  EXPECT_EQ(error_of(low + node("Clip", "x low", "y"), 11), "no error");
  EXPECT_EQ(error_of(low + node("Clip", "x low", "y"), 99), "no error") << "as the newest that is known";
}

TEST(OpArity, LeavesNamesOutAndVariadicOpsAlone) {
  EXPECT_EQ(error_of(node("Relu", "x - -", "y"), 16), "no error");
  EXPECT_EQ(error_of(node("Concat", "x z x z x z x", "y", integer("axis", 0)), 16), "no error");
  EXPECT_EQ(error_of(node("Split", "x", "y b c", integer("axis", 1)), 11), "no error");
}

TEST(OpArity, AFunctionOfThatNameHasItsOwn) {
  const std::string function =
      "functions { name: 'Relu' domain: 'own' input: 'a' input: 'b' output: 'c' opset_import { version: 16 "
      "} " +
      node("Add", "a b", "c") + "} ";
  EXPECT_EQ(error_of(node("Relu", "x z", "y", "domain: 'own' "), 16, function), "no error");
}

#ifdef GANTRY_HAS_ONNX_SCHEMAS
TEST(OpArity, IsThatOfOnnxsSchemas) {
  size_t compared = 0;
  for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
    const auto known = largest_arity(schema.domain(), schema.Name(), schema.SinceVersion());
    if (!known || schema.Deprecated()) continue;
    EXPECT_EQ(*known, (OpArity{schema.max_input(), schema.max_output()}))
        << schema.domain() << " " << schema.Name() << " " << schema.SinceVersion();
    ++compared;
  }
  EXPECT_GT(compared, 300u);
}
#endif

}  // namespace
}  // namespace gantry
