// `gantry inspect` as a child: what it prints of files that gantry cannot use, and how it ends.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"
#include "tests/support/sparse_model.h"

namespace {

using gantry::testing::contents;
using gantry::testing::Outcome;
using gantry::testing::write_with_zeros;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class Inspect : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() /
        (std::string("gantry_inspect_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Outcome gantry(const std::string& arguments) {
    const std::filesystem::path out = folder_ / ".out", err = folder_ / ".err";
    const std::string command = "cd '" + folder_.string() + "' && XDG_CACHE_HOME='" + folder_.string() +
                                "' timeout 120 " GANTRY_PROGRAM " " + arguments + " >'" + out.string() +
                                "' 2>'" + err.string() + "' </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0, contents(out), contents(err)};
  }
  void write_model(const std::string& name, const std::string& nodes, const std::string& shape) {
    onnx::ModelProto model;
    const std::string text =
        "ir_version: 8 opset_import { version: 16 } graph { name: 'g' initializer { name: 'w' data_type: 1 "
        "dims: 3 float_data: [1, 2, 3] } input { name: 'x' type { tensor_type { elem_type: 1 " +
        shape + " } } } output { name: 'y' type { tensor_type { elem_type: 1 } } } " + nodes + " }";
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
    std::ofstream(folder_ / name, std::ios::binary) << model.SerializeAsString();
  }
  std::filesystem::path folder_;
};

const std::string kShape = "shape { dim { dim_value: 2 } dim { dim_value: 3 } }";
const std::string kNodes =
    "node { op_type: 'Transmogrify' name: 'nz' input: 'x' output: 'a' } "
    "node { op_type: 'Cast' name: 'cast' input: 'x' output: 'b' attribute { name: 'to' type: INT i: 15 } } "
    "node { op_type: 'Add' name: 'sum' input: 'x' input: 'w' output: 'y' } ";

TEST_F(Inspect, AnUnsupportedModelIsShownAndThenRefused) {
  write_model("m.onnx", kNodes, kShape);
  const Outcome outcome = gantry("inspect m.onnx");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("input    x: float (2, 3)"));
  EXPECT_THAT(outcome.out, HasSubstr("3 parameters, 12 B"));
  EXPECT_THAT(outcome.out, HasSubstr("gantry cannot compile it"));
  EXPECT_THAT(outcome.err, StartsWith("gantry: error: m.onnx: uses what gantry does not support"));
  EXPECT_THAT(outcome.err, HasSubstr("Transmogrify (opset 16), node nz"));
  EXPECT_THAT(outcome.err, HasSubstr("COMPLEX128, node cast (Cast)"));
}

TEST_F(Inspect, JsonHoldsTheErrorAndEverythingUnsupported) {
  write_model("m.onnx", kNodes, kShape);
  const Outcome outcome = gantry("inspect m.onnx --json");
  EXPECT_EQ(outcome.code, 1);
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["supported"], false);
  EXPECT_THAT(report["error"].get<std::string>(), HasSubstr("Transmogrify"));
  EXPECT_EQ("gantry: error: " + report["error"].get<std::string>() + "\n", outcome.err);
  ASSERT_EQ(report["unsupported"].size(), 2u);
  EXPECT_EQ(report["unsupported"][0]["kind"], "op");
  EXPECT_EQ(report["unsupported"][1]["kind"], "element_type");
  EXPECT_EQ(report["unsupported"][1]["what"], "COMPLEX128");
  EXPECT_EQ(report["weights"]["by_type"]["float"]["bytes"], 12);
}

TEST_F(Inspect, AModelThatCompilesHasNoError) {
  write_model("m.onnx", "node { op_type: 'Add' name: 'sum' input: 'x' input: 'w' output: 'y' }", kShape);
  const Outcome outcome = gantry("inspect m.onnx --json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["error"], "");
  EXPECT_THAT(report["unsupported"], IsEmpty());
  EXPECT_THAT(gantry("inspect m.onnx").out, HasSubstr("gantry can compile it"));
}

TEST_F(Inspect, ABrokenModelIsShownAndThenRefused) {
  write_model("m.onnx", "node { op_type: 'Add' name: 'sum' input: 'x' input: 'gone' output: 'y' }", kShape);
  const Outcome outcome = gantry("inspect m.onnx");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("opset    ai.onnx 16"));
  EXPECT_THAT(outcome.err, HasSubstr("'gone', which nothing before it defines"));
}

TEST_F(Inspect, AShapeThatCompileNeedsCanBeGiven) {
  write_model("m.onnx", "node { op_type: 'Add' name: 'sum' input: 'x' input: 'w' output: 'y' }", "");
  EXPECT_EQ(gantry("inspect m.onnx").code, 1);
  EXPECT_EQ(gantry("inspect m.onnx --shape x=2x3").code, 0);
}

TEST_F(Inspect, SizesOfDimensionsCanBeGivenByTheirNames) {
  write_model("m.onnx", "node { op_type: 'Add' name: 'sum' input: 'x' input: 'w' output: 'y' }",
              "shape { dim { dim_param: 'N' } dim { dim_param: 'M' } }");
  EXPECT_EQ(gantry("inspect m.onnx --dim M=3").code, 0);
  EXPECT_THAT(gantry("inspect m.onnx --dim M=4").err, HasSubstr("sum"));
  EXPECT_THAT(gantry("inspect m.onnx --dim K=3").err, HasSubstr("K"));
  ASSERT_EQ(gantry("opt m.onnx --passes dead_code -o m.gir").code, 0);
  EXPECT_THAT(gantry("inspect m.gir").out, HasSubstr("input    x: f32 (N, M)"));
  EXPECT_THAT(gantry("inspect m.gir --dim N=2 --shape M=3").out, HasSubstr("input    x: f32 (2, 3)"));
  ASSERT_EQ(gantry("compile m.onnx -o m.gmod --dim M=3").code, 0);
  EXPECT_THAT(gantry("inspect m.gmod --dim N=2").err, HasSubstr("leave out --dim"));
}

TEST_F(Inspect, AnInitialiserOfAnInputsNameIsItsDefaultSparseOrNot) {
  const std::string add = "node { op_type: 'Add' name: 'sum' input: 'x' input: 'w' output: 'h' } "
                          "node { op_type: 'Add' name: 'all' input: 'h' input: 's' output: 'y' } ";
  const std::string sparse = "sparse_initializer { values { name: 's' dims: 1 data_type: 1 float_data: 7 } indices { dims: 1 "
                             "data_type: 7 int64_data: 1 } dims: 3 } ";
  const auto input = [](const std::string& name) {
    return "input { name: '" + name + "' type { tensor_type { elem_type: 1 shape { dim { dim_value: 3 } } } } } ";
  };
  write_model("m.onnx", add + sparse + input("w") + input("s"), kShape);
  const json inputs = json::parse(gantry("inspect m.onnx --json").out)["inputs"];
  ASSERT_EQ(inputs.size(), 1u) << inputs;
  EXPECT_EQ(inputs[0]["name"], "x");
  const Outcome kept = gantry("inspect m.onnx --keep-input s");
  EXPECT_EQ(kept.code, 0) << kept.err;
  EXPECT_THAT(kept.out, HasSubstr("input    s: float (3)"));
}

TEST_F(Inspect, AModelOfMoreThan2GBIsShown) {
  write_model("small.onnx", "node { op_type: 'Add' name: 'sum' input: 'x' input: 'w' output: 'y' }", kShape);
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(contents(folder_ / "small.onnx")));
  // Elements that gantry has none for, so that nobody reads them.
  constexpr int64_t kElements = int64_t{1} << 28, kBytes = 8 * kElements;
  onnx::TensorProto zeros;
  zeros.set_name("zeros");
  zeros.set_data_type(onnx::TensorProto::COMPLEX64);
  zeros.add_dims(kElements);
  write_with_zeros(folder_ / "m.onnx", model, zeros, kBytes);
  const Outcome outcome = gantry("inspect m.onnx --json");
  EXPECT_EQ(outcome.code, 1);
  const json report = json::parse(outcome.out);
  ASSERT_TRUE(report.contains("weights")) << outcome.out;
  EXPECT_EQ(report["weights"]["by_type"]["complex64"]["bytes"], kBytes);
  EXPECT_EQ(report["weights"]["tensors"], 2);
  ASSERT_EQ(report["unsupported"].size(), 1u) << outcome.out;
  EXPECT_EQ(report["unsupported"][0]["what"], "COMPLEX64");
  EXPECT_EQ(gantry("inspect m.onnx --html m.html").code, 1);
  EXPECT_THAT(contents(folder_ / "m.html"), HasSubstr("complex64"));
}

TEST_F(Inspect, FilesOfWhichNothingIsKnownAreErrorsInJsonToo) {
  std::ofstream(folder_ / "text.onnx") << "this is not a model";
  EXPECT_THAT(gantry("inspect text.onnx").out, IsEmpty());
  const Outcome outcome = gantry("inspect text.onnx --json");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(json::parse(outcome.out)["error"].get<std::string>(), HasSubstr("not an ONNX file"));
}

TEST_F(Inspect, ModulesSayWhatTheyWereOptimisedFor) {
  write_model("m.onnx", "node { op_type: 'Add' name: 'sum' input: 'x' input: 'w' output: 'y' }", kShape);
  ASSERT_EQ(gantry("compile m.onnx --optimize size -o m.gmod").code, 0);
  EXPECT_THAT(gantry("inspect m.gmod").out, HasSubstr("optimised for size"));
  const json report = json::parse(gantry("inspect m.gmod --json").out);
  EXPECT_EQ(report["optimize"], "size");
  EXPECT_EQ(report["weights_bytes"], 12);
  EXPECT_THAT(gantry("compile m.onnx --optimize smallness").err, HasSubstr("neither speed, size nor fast-math"));
  EXPECT_THAT(gantry("run m.gmod --random --optimize size").err, HasSubstr("is compiled already"));
}

TEST_F(Inspect, OfModulesDamageIsAnErrorAndCodeForOtherMachinesIsNot) {
  write_model("m.onnx", "node { op_type: 'Add' name: 'sum' input: 'x' input: 'w' output: 'y' }", kShape);
#ifdef __x86_64__
  const std::string elsewhere = "aarch64";
#else
  const std::string elsewhere = "x86-64";
#endif
  ASSERT_EQ(gantry("compile m.onnx -t " + elsewhere + " -o m.gmod").code, 0);
  EXPECT_EQ(gantry("inspect m.gmod").code, 0);
  std::string bytes = contents(folder_ / "m.gmod");
  bytes[bytes.size() - 1] = static_cast<char>(bytes.back() + 1);
  std::ofstream(folder_ / "bad.gmod", std::ios::binary) << bytes;
  const Outcome outcome = gantry("inspect bad.gmod --json");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(json::parse(outcome.out)["error"].get<std::string>(), HasSubstr("is damaged"));
  EXPECT_THAT(outcome.err, HasSubstr("bad.gmod"));
}

}  // namespace
