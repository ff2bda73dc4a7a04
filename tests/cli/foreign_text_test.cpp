// Names in models and modules that would move a terminal's cursor, and what the program prints of them.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "tests/cli/gantry_process.h"
#include "tests/support/test_module.h"

namespace gantry::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Arguments = std::vector<std::string>;

constexpr char kEscape[] = "\x1b";
constexpr char kVisible[] = "\\u001b[31m";

std::string model_of(const std::string& nodes) {
  onnx::ModelProto model;
  const std::string text =
      R"(ir_version: 8 opset_import { version: 16 } graph { name: "g\033[31m"
         input { name: "x\033[31m" type { tensor_type { elem_type: 1 shape {
           dim { dim_value: 2 } dim { dim_value: 3 } } } } }
         output { name: "y\033[31m" type { tensor_type { elem_type: 1 } } } )" +
      nodes + " }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  return model.SerializeAsString();
}

std::string node(const std::string& op) {
  return "node { op_type: '" + op + R"(' name: "node\033[31m" input: "x\033[31m" output: "y\033[31m" })";
}

class ForeignText : public ::testing::Test {
 protected:
  /// Runs it with colours and without, and finds the name in what it prints, made visible.
  void expect_visible(Arguments arguments, int code) {
    const testing::Outcome outcome = folders_.run(arguments);
    EXPECT_EQ(outcome.code, code) << arguments.front() << "\n" << outcome.err;
    const std::string all = outcome.out + outcome.err;
    EXPECT_THAT(all, Not(HasSubstr(kEscape))) << arguments.front();
    EXPECT_THAT(all, HasSubstr(kVisible)) << arguments.front();
    arguments.insert(arguments.end(), {"--color", "always"});
    const testing::Outcome coloured = folders_.run(arguments);
    EXPECT_THAT(coloured.out + coloured.err, Not(HasSubstr("node\x1b"))) << arguments.front();
  }
  testing::GantryFolders folders_;
};

TEST_F(ForeignText, NamesOfAModelAreVisibleInTablesAndListings) {
  folders_.write("m.onnx", model_of(node("Relu")));
  const Arguments quick{"--processes", "1", "--warmup", "1", "--repeat", "3"};
  for (const Arguments& command : {Arguments{"bench", "m.onnx"}, Arguments{"profile", "m.onnx"}}) {
    Arguments arguments = command;
    arguments.insert(arguments.end(), quick.begin(), quick.end());
    expect_visible(arguments, 0);
    arguments.push_back("--json");
    expect_visible(arguments, 0);
  }
  expect_visible({"inspect", "m.onnx"}, 0);
  expect_visible({"ir", "--list", "m.onnx"}, 0);
  expect_visible({"run", "m.onnx", "--random"}, 0);
}

TEST_F(ForeignText, NamesOfAModelAreVisibleInErrors) {
  folders_.write("bad.onnx", model_of(node("NoSuchOp")));
  expect_visible({"compile", "bad.onnx", "-o", "bad.gmod"}, 1);
  expect_visible({"compile", "bad.onnx", "-o", "bad.gmod", "--shape", "z=1"}, 1);
  expect_visible({"inspect", "bad.onnx"}, 1);
}

TEST_F(ForeignText, NamesOfAModuleAreVisible) {
  const std::vector<std::byte> module =
      testing::build({.kernel_name = "kernel\x1b[31m", .origin = "node\x1b[31m"});
  folders_.write("m.gmod", {reinterpret_cast<const char*>(module.data()), module.size()});
  expect_visible({"inspect", "m.gmod", "--steps"}, 0);
  expect_visible({"profile", "m.gmod", "--processes", "1", "--warmup", "1", "--repeat", "3"}, 0);
}

TEST_F(ForeignText, ACrashInAModuleNamesItsNodesVisibly) {
  const std::vector<std::byte> module =
      testing::build({.body = "*(volatile int*)0 = 1; return 0;", .origin = "node\x1b[31m"});
  folders_.write("m.gmod", {reinterpret_cast<const char*>(module.data()), module.size()});
  expect_visible({"run", "m.gmod", "--random"}, 2);
}

}  // namespace
}  // namespace gantry::cli
