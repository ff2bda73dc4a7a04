// Nodes with attributes that their ops have not.
#include "host/onnx/op_attributes.h"

#include <gmock/gmock.h>
#ifdef GANTRY_HAS_ONNX_SCHEMAS
#include <onnx/defs/schema.h>

#include <map>
#include <set>
#endif

#include "host/onnx/converters.h"
#include "host/onnx/unsupported.h"
#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string bytes_of(const std::string& nodes, int opset, const std::string& rest = "") {
  const std::string opsets = fmt::format(
      "opset_import {{ version: {} }} opset_import {{ domain: 'com.microsoft' version: 1 }} "
      "opset_import {{ domain: 'own' version: 1 }} ",
      opset);
  return parse(open_input("x", "2 3") + nodes, {}, "y", opsets, rest).SerializeAsString();
}
std::string error_of(const std::string& nodes, int opset, const std::string& rest = "") {
  try {
    import_onnx_bytes(bytes_of(nodes, opset, rest), ".");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(OpAttributes, OneThatTheOpHasNotIsAnErrorThatNamesTheNode) {
  EXPECT_THAT(
      error_of(node("Relu", "x", "y", "name: 'n' " + integer("alpha", 3)), 16),
      HasSubstr("node n (Relu): has the attribute 'alpha', which Relu of opset 16 has not: export the model"));
  EXPECT_THAT(error_of(node("Softmax", "x", "y", integer("axes", 1) + integer("dim", 1)), 16),
              HasSubstr("has the attributes 'axes', 'dim', which Softmax of opset 16 has not"));
}

// As an attribute that is passed over, it would be a sum over all axes.
TEST(OpAttributes, ThoseThatBecameInputsAreNoneFromThenOn) {
  const std::string sum = node("ReduceSum", "x", "y", integer("axes", 1));
  EXPECT_THAT(error_of(sum, 13), HasSubstr("has the attribute 'axes', which ReduceSum of opset 13 has not"));
  EXPECT_EQ(has_attribute("", "ReduceSum", 12, "axes"), true);
  EXPECT_EQ(has_attribute("", "ReduceSum", 13, "axes"), false);
  EXPECT_EQ(has_attribute("", "ReduceSum", 12, "noop_with_empty_axes"), false);
  EXPECT_EQ(has_attribute("", "ReduceSum", 13, "noop_with_empty_axes"), true);
  EXPECT_EQ(has_attribute("", "BatchNormalization", 5, "consumed_inputs"), true);
  EXPECT_EQ(has_attribute("", "BatchNormalization", 6, "consumed_inputs"), false);
  EXPECT_EQ(has_attribute("", "Fancy", 6, "axes"), std::nullopt);
}

// Another version of ONNX Runtime may have it.
TEST(OpAttributes, OfOnnxRuntimesOpsTheyAreNotSupported) {
  const std::string gelu =
      node("QuickGelu", "x", "y", "name: 'n' domain: 'com.microsoft' " + integer("tweak", 1));
  try {
    import_onnx_bytes(bytes_of(gelu, 16), ".");
    ADD_FAILURE() << "no error";
  } catch (const UnsupportedModel& error) {
    ASSERT_EQ(error.features().size(), 1u);
    EXPECT_EQ(error.features()[0].what, "QuickGelu: attribute 'tweak'");
    EXPECT_THAT(error.features()[0].nodes, ElementsAre("n"));
  }
}

TEST(OpAttributes, NotesOfExportersAndFunctionsAreLeftAlone) {
  EXPECT_EQ(error_of(node("Relu", "x", "y", integer("__note", 3)), 16), "no error");
  const std::string function =
      "functions { name: 'Relu' domain: 'own' input: 'a' output: 'c' attribute: 'depth' "
      "opset_import { version: 16 } " +
      node("Abs", "a", "c") + "} ";
  EXPECT_EQ(error_of(node("Relu", "x", "y", "domain: 'own' " + integer("depth", 3)), 16, function),
            "no error");
}

TEST(OpAttributes, AreKnownOfEveryOpThatIsTaken) {
  for (const Converter& converter : all_converters())
    EXPECT_TRUE(has_attribute(converter.domain, converter.op, converter.since, "x"))
        << converter.domain << " " << converter.op;
}

#ifdef GANTRY_HAS_ONNX_SCHEMAS
TEST(OpAttributes, AreThoseOfOnnxsSchemas) {
  const auto schemas = onnx::OpSchemaRegistry::get_all_schemas_with_history();
  std::map<std::pair<std::string, std::string>, std::set<std::string>> of_any_version;
  for (const onnx::OpSchema& schema : schemas) {
    for (const auto& [name, attribute] : schema.attributes())
      of_any_version[{schema.domain(), schema.Name()}].insert(name);
  }
  size_t compared = 0;
  for (const onnx::OpSchema& schema : schemas) {
    if (schema.Deprecated()) continue;
    for (const std::string& name : of_any_version[{schema.domain(), schema.Name()}]) {
      const auto known = has_attribute(schema.domain(), schema.Name(), schema.SinceVersion(), name);
      if (!known) continue;
      EXPECT_EQ(*known, schema.attributes().contains(name))
          << schema.domain() << " " << schema.Name() << " " << schema.SinceVersion() << " " << name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 500u);
}
#endif

}  // namespace
}  // namespace gantry
