// `gantry conformance` on tests that are made here: what it finds of each, what it writes, and how it goes
// on.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx-data_pb.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/gantry_process.h"

namespace gantry::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

onnx::TensorProto tensor(const std::vector<float>& values, const std::vector<int64_t>& shape) {
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t size : shape) proto.add_dims(size);
  for (const float value : values) proto.add_float_data(value);
  return proto;
}

/// A model of one node from x to y, both f32 of 2x3.
std::string model_of(const std::string& op) {
  const std::string type =
      "type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } dim { dim_value: 3 } } } }";
  onnx::ModelProto model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 8 opset_import { version: 13 } graph { name: 'g' node { input: 'x' output: 'y' op_type: "
      "'" +
          op + "' } input { name: 'x' " + type + " } output { name: 'y' " + type + " } }",
      &model));
  return model.SerializeAsString();
}

class ConformanceCommand : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories(folders_.path(name).parent_path());
    folders_.write(name, bytes);
  }
  /// A test of that operator on -1, 0, …, 4.
  void write_test(const std::string& folder, const std::string& op, const std::vector<float>& expected,
                  const std::vector<int64_t>& shape = {2, 3}) const {
    write(folder + "/model.onnx", model_of(op));
    write(folder + "/test_data_set_0/input_0.pb", tensor({-1, 0, 1, 2, 3, 4}, {2, 3}).SerializeAsString());
    write(folder + "/test_data_set_0/output_0.pb", tensor(expected, shape).SerializeAsString());
  }
  void write_all() const {
    write_test("all/node/test_abs", "Abs", {1, 0, 1, 2, 3, 4});
    write_test("all/node/test_abs_wrong", "Abs", {1, 0, 1, 2, 5, 9});
    write_test("all/node/test_abs_shape", "Abs", {1, 0, 1}, {3});
    write_test("all/node/test_none", "NoSuchOperator", {1, 0, 1, 2, 3, 4});
    write_test("all/deep/down/test_relu", "Relu", {0, 0, 1, 2, 3, 4});
    write_test("all/node/test_cut", "Relu", {0, 0, 1, 2, 3, 4});
    write("all/node/test_cut/model.onnx", model_of("Relu").substr(0, 40));
  }

  Outcome conformance(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "conformance");
    return folders_.run(arguments);
  }
  json document(const std::string& name = "r.json") const {
    return json::parse(contents(folders_.path(name)));
  }
  static std::map<std::string, std::string> statuses(const json& document) {
    std::map<std::string, std::string> map;
    for (const json& test : document.at("tests")) map[test.at("name")] = test.at("status");
    return map;
  }
  static json test_of(const json& document, const std::string& name) {
    for (const json& test : document.at("tests")) {
      if (test.at("name") == name) return test;
    }
    ADD_FAILURE() << name;
    return {};
  }

  GantryFolders folders_;
};

TEST_F(ConformanceCommand, SaysOfEachTestWhatBecameOfIt) {
  write_all();
  const Outcome outcome = conformance({"all", "--json", "r.json"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const json result = document();
  EXPECT_EQ(statuses(result), (std::map<std::string, std::string>{{"test_abs", "pass"},
                                                                  {"test_abs_shape", "wrong"},
                                                                  {"test_abs_wrong", "wrong"},
                                                                  {"test_cut", "unsupported"},
                                                                  {"test_none", "unsupported"},
                                                                  {"test_relu", "pass"}}));
  EXPECT_EQ(result["complete"], true);
  EXPECT_EQ(result["counts"],
            (json{{"pass", 2}, {"wrong", 2}, {"unsupported", 2}, {"crash", 0}, {"timeout", 0}}));
  const json wrong = test_of(result, "test_abs_wrong");
  EXPECT_EQ(wrong["operator"], "Abs");
  EXPECT_EQ(wrong["opset"], 13);
  EXPECT_EQ(wrong["wrong"]["output"], "y");
  EXPECT_EQ(wrong["wrong"]["worst_element"],
            (json{{"index", {1, 2}}, {"expected", 9.0}, {"got", 4.0}, {"differing", 2}, {"elements", 6}}));
  EXPECT_EQ(test_of(result, "test_abs_shape")["wrong"]["worst_element"], nullptr);
  EXPECT_THAT(test_of(result, "test_none")["features"][0], HasSubstr("NoSuchOperator"));
  EXPECT_EQ(test_of(result, "test_none")["phase"], "import");
  for (const json& row : result["operators"]) {
    if (row["operator"] == "Abs") {
      EXPECT_EQ(row, (json{{"operator", "Abs"},
                           {"pass", 1},
                           {"wrong", 2},
                           {"unsupported", 0},
                           {"crash", 0},
                           {"timeout", 0}}));
    }
  }
  EXPECT_THAT(outcome.out, HasSubstr("output 'y' [1, 2]: 4 instead of 9 (2 of 6 elements differ)"));
  EXPECT_THAT(outcome.out, HasSubstr("2 of 6 tests pass; 2 wrong, 2 unsupported"));
}

/// Whether an optional input has a value: it has none.
TEST_F(ConformanceCommand, CompilesForOptionalsWithoutAValue) {
  onnx::ModelProto model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 8 opset_import { version: 18 } graph { name: 'g' "
      "node { input: 'x' output: 'y' op_type: 'OptionalHasElement' } "
      "input { name: 'x' type { optional_type { elem_type { tensor_type { elem_type: 1 shape { } } } } } } "
      "output { name: 'y' type { tensor_type { elem_type: 9 shape { } } } } }",
      &model));
  onnx::OptionalProto nothing;
  nothing.set_name("x");
  onnx::TensorProto expected;
  expected.set_data_type(onnx::TensorProto::BOOL);
  expected.add_int32_data(0);
  write("optional/test_nothing/model.onnx", model.SerializeAsString());
  write("optional/test_nothing/test_data_set_0/input_0.pb", nothing.SerializeAsString());
  write("optional/test_nothing/test_data_set_0/output_0.pb", expected.SerializeAsString());
  const Outcome outcome = conformance({"optional"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 of 1 tests pass"));
}

TEST_F(ConformanceCommand, ExitsWithZeroWhereAllPass) {
  write_all();
  EXPECT_EQ(conformance({"all", "--filter", "test_abs", "--filter", "*relu", "--filter", "none"}).code, 1);
  const Outcome outcome =
      conformance({"all", "--filter", "test_ab?", "--filter", "*relu", "--json", "r.json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  EXPECT_EQ(statuses(document()).size(), 2u);
  EXPECT_EQ(conformance({"all", "--filter", "nothing-like-it"}).code, 1);
  EXPECT_EQ(conformance({"absent"}).code, 1);
}

TEST_F(ConformanceCommand, TheLaterFolderCounts) {
  write_test("old/test_x", "Abs", {0, 0, 0, 0, 0, 0});
  write_test("new/deeper/test_x", "Abs", {1, 0, 1, 2, 3, 4});
  EXPECT_EQ(conformance({"old", "new"}).code, 0);
  EXPECT_EQ(conformance({"new", "old"}).code, 1);
}

TEST_F(ConformanceCommand, TestsHaveTheirOwnTolerance) {
  write_test("all/test_x", "Abs", {1.1f, 0, 1, 2, 3, 4});
  EXPECT_EQ(conformance({"all"}).code, 1);
  write("all/test_x/test_data.json", R"({"rtol": 0.2})");
  EXPECT_EQ(conformance({"all"}).code, 0);
}

TEST_F(ConformanceCommand, EveryDataSetIsTried) {
  write_test("all/test_x", "Abs", {1, 0, 1, 2, 3, 4});
  write("all/test_x/test_data_set_1/input_0.pb", tensor({0, 0, 0, 0, 0, -9}, {2, 3}).SerializeAsString());
  write("all/test_x/test_data_set_1/output_0.pb", tensor({0, 0, 0, 0, 0, 8}, {2, 3}).SerializeAsString());
  EXPECT_EQ(conformance({"all", "--json", "r.json"}).code, 1);
  EXPECT_EQ(test_of(document(), "test_x")["wrong"]["data_set"], "test_data_set_1");
}

TEST_F(ConformanceCommand, ResumeRunsOnlyWhatHasNoResult) {
  write_all();
  ASSERT_EQ(conformance({"all", "--filter", "abs", "--json", "r.json"}).code, 1);
  const json before = document();
  write_test("all/node/test_abs_wrong", "Abs", {1, 0, 1, 2, 3, 4});  // would pass now
  ASSERT_EQ(conformance({"all", "--json", "r.json", "--resume"}).code, 1);
  const json after = document();
  EXPECT_EQ(statuses(after).size(), 6u);
  EXPECT_EQ(test_of(after, "test_abs_wrong"), test_of(before, "test_abs_wrong"));
  const Outcome other = conformance({"all", "--json", "r.json", "--resume", "--opt", "0"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("opt_level: 3 and 0"));
  EXPECT_THAT(conformance({"all", "--resume"}).err, HasSubstr("--json FILE"));
}

TEST_F(ConformanceCommand, ResumeKnowsItsTestsHoweverTheirFolderIsSpelt) {
  write_all();
  ASSERT_EQ(conformance({"all", "--json", "r.json"}).code, 1);
  write_test("all/node/test_abs_wrong", "Abs", {1, 0, 1, 2, 3, 4});  // would pass now
  fs::create_directory_symlink("all", folders_.path("link"));
  const std::string absolute = folders_.path("all");
  for (const std::string& folder : {absolute, std::string("./all/"), std::string("link")}) {
    ASSERT_EQ(conformance({folder, "--json", "r.json", "--resume"}).code, 1) << folder;
    EXPECT_EQ(test_of(document(), "test_abs_wrong")["status"], "wrong") << folder;
    EXPECT_EQ(statuses(document()).size(), 6u) << folder;
  }
}

TEST_F(ConformanceCommand, ResumeLosesNoResultsThatItIsNotAskedFor) {
  write_all();
  ASSERT_EQ(conformance({"all", "--json", "r.json"}).code, 1);
  const std::string before = contents(folders_.path("r.json"));
  using Words = std::vector<std::string>;
  for (const Words& asked : {Words{"all", "--filter", "abs"}, Words{"all/deep"}}) {
    Words arguments = asked;
    arguments.insert(arguments.end(), {"--json", "r.json", "--resume"});
    const Outcome outcome = conformance(arguments);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("which would be lost"));
    EXPECT_EQ(contents(folders_.path("r.json")), before);
  }
}

TEST_F(ConformanceCommand, WhatTakesTooLongIsATimeoutOfItsPhase) {
  write_all();
  ASSERT_EQ(conformance({"all", "--json", "r.json", "--timeout", "1ms"}).code, 1);
  for (const json& test : document()["tests"])
    EXPECT_THAT(test["status"], ::testing::AnyOf("timeout", "unsupported"));
  EXPECT_EQ(test_of(document(), "test_abs")["status"], "timeout");
}

TEST_F(ConformanceCommand, CtrlCLeavesAWholeResultThatCanBeGoneOnFrom) {
  for (int i = 0; i < 40; ++i) write_test("all/test_" + std::to_string(i), "Abs", {1, 0, 1, 2, 3, 4});
  const int pid = folders_.start({"conformance", "all", "--json", "r.json", "--jobs", "1"});
  const auto tests = [&] {
    const json now = json::parse(contents(folders_.path("r.json")), nullptr, false);
    return now.is_object() ? now["tests"].size() : 0;
  };
  for (int i = 0; i < 3000 && tests() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(pid, SIGINT);
  EXPECT_EQ(folders_.wait(pid).signal, SIGINT);
  const json partial = document();
  EXPECT_GT(partial["tests"].size(), 0u);
  EXPECT_EQ(partial["tests_found"], 40);
  EXPECT_EQ(partial["complete"], partial["tests"].size() == 40u);
  EXPECT_EQ(conformance({"all", "--json", "r.json", "--resume"}).code, 0);
  EXPECT_EQ(document()["tests"].size(), 40u);
  EXPECT_EQ(document()["complete"], true);
}

TEST_F(ConformanceCommand, PipesAndStdoutTakeTheWholeResultAlone) {
  write_all();
  const Outcome shown = conformance({"all", "--filter", "abs", "--verbose", "--json", "/dev/stdout"});
  EXPECT_EQ(shown.code, 1) << shown.err;
  const json result = json::parse(shown.out, nullptr, false);
  ASSERT_TRUE(result.is_object()) << shown.out;
  EXPECT_EQ(result["complete"], true);
  ASSERT_EQ(::mkfifo(folders_.path("pipe").c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = contents(folders_.path("pipe")); });
  const Outcome piped = conformance({"all", "--filter", "abs", "--json", "pipe"});
  reader.join();
  EXPECT_EQ(piped.code, 1) << piped.err;
  EXPECT_THAT(piped.out, HasSubstr("1 of 3 tests pass"));
  EXPECT_EQ(statuses(json::parse(received)), statuses(result));
  const Outcome resumed = conformance({"all", "--json", "pipe", "--resume"});
  EXPECT_EQ(resumed.code, 1);
  EXPECT_THAT(resumed.err, HasSubstr("pipe: is no file"));
}

TEST_F(ConformanceCommand, OtherFilesAreNotReplaced) {
  write_all();
  write("notes.json", "{\"notes\": 1}");
  const Outcome outcome = conformance({"all", "--json", "notes.json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("--force"));
  EXPECT_EQ(contents(folders_.path("notes.json")), "{\"notes\": 1}");
}

TEST_F(ConformanceCommand, RunsOnAnEmulatedGpu) {
  write_all();
  EXPECT_EQ(conformance({"all", "--filter", "relu", "--device", "cuda-emulated", "--json", "r.json"}).code,
            0);
  EXPECT_EQ(document()["settings"]["device"], "cuda-emulated");
  EXPECT_THAT(document()["settings"]["target"], HasSubstr("cuda-emulated"));
}

TEST_F(ConformanceCommand, RunsOnABoardAndStopsWhereItIsGone) {
  write_all();
  {
    const ServerProcess board;
    const Outcome outcome =
        conformance({"all", "--filter", "test_abs", "--on", board.address(), "--json", "r.json"});
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_EQ(test_of(document(), "test_abs")["status"], "pass");
    EXPECT_EQ(test_of(document(), "test_abs_wrong")["status"], "wrong");
    EXPECT_EQ(document()["settings"]["board"], board.address());
  }
  EXPECT_EQ(conformance({"all", "--on", "127.0.0.1:1"}).code, 2);
}

TEST_F(ConformanceCommand, AMachineThatIsOutOfReachSaysNothingOfATest) {
  write_all();
  const Outcome outcome = folders_.run(
      {"conformance-test", "all/test_abs", "--target", "cortex-a76", "--device-program", "gone"});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("result")));
}

TEST_F(ConformanceCommand, RunsForAnotherArchitectureUnderQemu) {
  if (!fs::exists(GANTRY_AARCH64_DEVICE) || std::system("qemu-aarch64 --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  write_all();
  const Outcome outcome = conformance({"all", "--filter", "abs", "--filter", "relu", "--target", "cortex-a76",
                                       "--device-program", GANTRY_AARCH64_DEVICE, "--json", "r.json"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const auto found = statuses(document());
  EXPECT_EQ(found.at("test_abs"), "pass");
  EXPECT_EQ(found.at("test_relu"), "pass");
  EXPECT_EQ(found.at("test_abs_wrong"), "wrong");
  EXPECT_EQ(document()["settings"]["target"], "cortex-a76");
}

}  // namespace
}  // namespace gantry::testing
