#include "host/conformance/found_tests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <fstream>

#include "host/conformance/test_model.h"
#include "tests/support/message_of.h"
#include "tests/support/server_process.h"

namespace gantry::conformance {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

class FoundTests : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  fs::path write(const std::string& name, const std::string& bytes) const {
    fs::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  static std::vector<std::string> names_of(const std::vector<FoundTest>& tests) {
    std::vector<std::string> names;
    for (const FoundTest& test : tests) names.push_back(test.name);
    return names;
  }

  testing::TemporaryDirectory folder_;
};

TEST_F(FoundTests, LieAtAnyDepthAndTheLaterFolderCounts) {
  for (const char* name :
       {"old/node/test_b", "old/test_a", "old/deep/er/test_c", "new/node/test_a", "new/test_d/inner"})
    write(std::string(name) + "/model.onnx", "");
  write("new/test_d/model.onnx", "");
  fs::create_directories(path("old/empty"));
  const auto tests = find_tests({path("old"), path("new")});
  EXPECT_THAT(names_of(tests), ElementsAre("test_a", "test_b", "test_c", "test_d"));
  EXPECT_EQ(tests[0].folder, path("new/node/test_a"));
  EXPECT_EQ(find_tests({path("new"), path("old")})[0].folder, path("old/test_a"));
  EXPECT_THAT(names_of(find_tests({path("old/test_a/")})), ElementsAre("test_a"));
}

TEST_F(FoundTests, TwoOfANameInOneFolderAreSaid) {
  write("all/a/test_x/model.onnx", "");
  write("all/b/test_x/model.onnx", "");
  std::vector<std::string> warnings;
  const auto tests = find_tests({path("all")}, [&](const std::string& text) { warnings.push_back(text); });
  EXPECT_THAT(names_of(tests), ElementsAre("test_x"));
  EXPECT_EQ(tests[0].folder, path("all/b/test_x"));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("in place of")));
}

TEST_F(FoundTests, DataWithoutAModelAreATestThatCannotPass) {
  write("all/test_x/test_data_set_0/input_0.pb", "");
  write("all/test_y/model.onnx", "");
  EXPECT_THAT(names_of(find_tests({path("all")})), ElementsAre("test_x", "test_y"));
}

TEST_F(FoundTests, LinksAreFollowedAndCirclesEnd) {
  write("real/test_x/model.onnx", "");
  fs::create_directories(path("all"));
  fs::create_directory_symlink(path("real"), path("all/linked"));
  fs::create_directory_symlink(path("all"), path("all/circle"));
  EXPECT_THAT(names_of(find_tests({path("all")})), ElementsAre("test_x"));
}

TEST_F(FoundTests, FoldersWithoutTestsAreErrors) {
  write("file", "");
  fs::create_directories(path("empty"));
  for (const char* name : {"file", "empty", "absent"})
    EXPECT_THAT(message_of([&] { find_tests({path(name)}); }), HasSubstr(path(name).string()));
}

TEST_F(FoundTests, DataSetsComeByNumber) {
  for (const char* name :
       {"test_data_set_10", "test_data_set_2", "test_data_set_0", "test_data_set_x", "other"})
    fs::create_directories(path(std::string("t/") + name));
  write("t/test_data_set_3", "a file");
  EXPECT_THAT(data_sets(path("t")),
              ElementsAre(path("t/test_data_set_0"), path("t/test_data_set_2"), path("t/test_data_set_10")));
  for (const char* name : {"input_0.pb", "input_1.pb", "input_3.pb", "output_0.pb"})
    write(std::string("t/test_data_set_0/") + name, "");
  EXPECT_EQ(values_of(path("t/test_data_set_0"), "input").size(), 2u);
  EXPECT_EQ(values_of(path("t/test_data_set_0"), "output").size(), 1u);
  EXPECT_EQ(values_of(path("t/test_data_set_2"), "input").size(), 0u);
}

TEST_F(FoundTests, TolerancesAreTheTestsOwn) {
  EXPECT_EQ(tolerance_of(path("none")).relative, 1e-3);
  EXPECT_EQ(tolerance_of(path("none")).absolute, 1e-7);
  write("a/data.json", R"({"rtol": 0.01, "atol": 1e-5, "url": "x"})");
  EXPECT_EQ(tolerance_of(path("a")).relative, 0.01);
  EXPECT_EQ(tolerance_of(path("a")).absolute, 1e-5);
  write("a/test_data.json", R"({"rtol": 0.5})");
  EXPECT_EQ(tolerance_of(path("a")).relative, 0.5);
  EXPECT_EQ(tolerance_of(path("a")).absolute, 1e-7);
  for (const char* wrong : {"", "[]", "{", R"({"rtol": "1"})", R"({"atol": -1})", R"({"atol": null})"}) {
    write("b/data.json", wrong);
    EXPECT_THAT(message_of([&] { tolerance_of(path("b")); }), HasSubstr("b/data.json")) << wrong;
  }
}

TEST(Filters, ArePartsOfNamesOrPatterns) {
  EXPECT_TRUE(is_like("test_conv_pads", "conv"));
  EXPECT_FALSE(is_like("test_pool", "conv"));
  EXPECT_TRUE(is_like("test_conv_pads", "test_*_pads"));
  EXPECT_FALSE(is_like("test_conv_pads", "conv*"));
  EXPECT_TRUE(is_like("test_x1", "test_x?"));
}

onnx::ValueInfoProto* value(google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>* list,
                            const std::string& name) {
  auto* added = list->Add();
  added->set_name(name);
  return added;
}

TEST_F(FoundTests, ModelsSayWhatTheyTestAndWhatTheirDataAre) {
  onnx::ModelProto model;
  auto* graph = model.mutable_graph();
  graph->add_node()->set_op_type("Constant");
  graph->add_node()->set_op_type("Softmax");
  graph->add_initializer()->set_name("w");
  value(graph->mutable_input(), "x")->mutable_type()->mutable_tensor_type();
  value(graph->mutable_input(), "w")->mutable_type()->mutable_tensor_type();
  value(graph->mutable_input(), "s")->mutable_type()->mutable_sequence_type();
  value(graph->mutable_output(), "o")->mutable_type()->mutable_optional_type();
  auto* other = model.add_opset_import();
  other->set_domain("ai.onnx.ml");
  other->set_version(3);
  model.add_opset_import()->set_version(18);
  const auto read = [&] { return read_test_model(write("m.onnx", model.SerializeAsString())); };
  TestModel facts = read();
  EXPECT_EQ(facts.operator_name, "Softmax");
  EXPECT_EQ(facts.opset, 18);
  ASSERT_EQ(facts.inputs.size(), 2u);
  EXPECT_EQ(facts.inputs[1].name, "s");
  EXPECT_EQ(facts.inputs[1].kind, ValueKind::kSequence);
  ASSERT_EQ(facts.outputs.size(), 1u);
  EXPECT_EQ(facts.outputs[0].kind, ValueKind::kOptional);
  auto* node = graph->add_node();
  node->set_op_type("Scaler");
  node->set_domain("ai.onnx.ml");
  EXPECT_EQ(read().operator_name, "several");
  graph->clear_node();
  *graph->add_node() = onnx::NodeProto();
  graph->mutable_node(0)->set_op_type("Scaler");
  graph->mutable_node(0)->set_domain("ai.onnx.ml");
  EXPECT_EQ(read().operator_name, "ai.onnx.ml.Scaler");
  EXPECT_THAT(message_of([&] { read_test_model(write("bad.onnx", "\xff\xff")); }), HasSubstr("bad.onnx"));
  fs::resize_file(write("large.onnx", model.SerializeAsString()), uintmax_t{1} << 31);  // of holes
  EXPECT_THAT(message_of([&] { read_test_model(path("large.onnx")); }), HasSubstr("larger than 2 GB"));
}

}  // namespace
}  // namespace gantry::conformance
