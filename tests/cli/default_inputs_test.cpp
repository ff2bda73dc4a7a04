// Inputs that have a default in the model, on the command line.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <onnx/onnx_pb.h>

#include <cstring>

#include "host/cli/npy.h"
#include "host/cli/npz.h"
#include "tests/cli/gantry_process.h"

namespace gantry::cli {
namespace {

using gantry::testing::GantryFolders;
using gantry::testing::Outcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

HostTensor tensor(const std::vector<float>& values) {
  HostTensor result{*parse_type_name("f32"), {static_cast<int64_t>(values.size())}, {}};
  result.bytes.resize(values.size() * sizeof(float));
  std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return result;
}

/// The bytes of a TensorProto of that name.
std::string tensor_proto(const std::string& name, const std::vector<float>& values) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (const float value : values) tensor.add_float_data(value);
  return tensor.SerializeAsString();
}

/// y = x + w, where w is [10, 20, 30] unless it is given.
class DefaultInputs : public ::testing::Test {
 protected:
  void SetUp() override {
    onnx::ModelProto model;
    const auto tensor_type = [](const std::string& name) {
      return "{ name: '" + name + "' type { tensor_type { elem_type: 1 shape { dim { dim_value: 3 } } } } } ";
    };
    const std::string text =
        "ir_version: 8 opset_import { version: 16 } graph { name: 'g' "
        "initializer { name: 'w' data_type: 1 dims: 3 float_data: [10, 20, 30] } input " +
        tensor_type("x") + "input " + tensor_type("w") + "output " + tensor_type("y") +
        "node { op_type: 'Add' input: 'x' input: 'w' output: 'y' } }";
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
    folders_.write("m.onnx", model.SerializeAsString());
    write_npy(folders_.path("x.npy"), tensor({1, 2, 3}));
    write_npy(folders_.path("w.npy"), tensor({4, 5, 6}));
  }
  std::vector<float> result(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--output", "y.npy", "--force"});
    const Outcome outcome = folders_.run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    if (outcome.code != 0) return {};
    const HostTensor y = read_npy(folders_.path("y.npy"));
    std::vector<float> values(y.bytes.size() / sizeof(float));
    std::memcpy(values.data(), y.bytes.data(), y.bytes.size());
    return values;
  }
  void expect_user_error(const std::vector<std::string>& arguments, const std::string& part) const {
    const Outcome outcome = folders_.run(arguments);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(part));
  }

  GantryFolders folders_;
};

TEST_F(DefaultInputs, AreInputsOfAModelWhereTheyAreGiven) {
  EXPECT_THAT(result({"run", "m.onnx", "--input", "x.npy"}), ElementsAre(11, 22, 33));
  EXPECT_THAT(result({"run", "m.onnx", "--input", "x=x.npy", "--input", "w=w.npy"}), ElementsAre(5, 7, 9));
  const HostTensor x = tensor({1, 2, 3}), w = tensor({4, 5, 6});
  write_npz(folders_.path("all.npz"), {{"x", &x}, {"w", &w}});
  EXPECT_THAT(result({"run", "m.onnx", "--input", "all.npz"}), ElementsAre(5, 7, 9));
}

TEST_F(DefaultInputs, AreInputsOfAModelWhereTensorsOfTheirNameAreGiven) {
  folders_.write("x.pb", tensor_proto("x", {1, 2, 3}));
  folders_.write("w.pb", tensor_proto("w", {4, 5, 6}));
  EXPECT_THAT(result({"run", "m.onnx", "--input", "x.pb", "--input", "w.pb"}), ElementsAre(5, 7, 9));
  EXPECT_EQ(result({"run", "m.onnx", "--random", "--input", "w.pb"}),
            result({"run", "m.onnx", "--random", "--input", "w=w.npy"}));
}

TEST_F(DefaultInputs, AreInputsOfAModuleWhereTheyWereKept) {
  ASSERT_EQ(folders_.run({"compile", "m.onnx", "-o", "constant.gmod"}).code, 0);
  EXPECT_THAT(result({"run", "constant.gmod", "--input", "x.npy"}), ElementsAre(11, 22, 33));
  expect_user_error({"run", "constant.gmod", "--input", "x=x.npy", "--input", "w=w.npy"},
                    "; an input that has a default in the model is a constant of the "
                    "module unless that is compiled with --keep-input NAME");

  ASSERT_EQ(folders_.run({"compile", "m.onnx", "-o", "kept.gmod", "--keep-input", "w"}).code, 0);
  EXPECT_THAT(result({"run", "kept.gmod", "--input", "x=x.npy", "--input", "w=w.npy"}), ElementsAre(5, 7, 9));
  expect_user_error({"run", "kept.gmod", "--input", "x=x.npy"}, "no data for input 'w' (f32 3)");
}

TEST_F(DefaultInputs, AreInputsOfAModelWhereTheyAreMadeUpAndKept) {
  ASSERT_EQ(folders_.run({"compile", "m.onnx", "-o", "kept.gmod", "--keep-input", "w"}).code, 0);
  const std::vector<float> values = result({"run", "m.onnx", "--random", "--keep-input", "w"});
  EXPECT_EQ(values, result({"run", "kept.gmod", "--random"}));
  EXPECT_NE(values, result({"run", "m.onnx", "--random"}));
  expect_user_error({"run", "kept.gmod", "--random", "--keep-input", "w"}, "leave out --keep-input");
}

TEST_F(DefaultInputs, AreInputsOfGraphsThatAreShownAndWritten) {
  const std::string constant = "fn @main(%x: Tensor[(3), f32]) ->";
  const std::string kept = "fn @main(%x: Tensor[(3), f32], %w: Tensor[(3), f32]) ->";
  for (const std::string command : {"ir", "opt"}) {
    EXPECT_THAT(folders_.run({command, "m.onnx"}).out, HasSubstr(constant));
    EXPECT_THAT(folders_.run({command, "m.onnx", "--keep-input", "w"}).out, HasSubstr(kept));
    ASSERT_EQ(folders_.run({command, "m.onnx", "--keep-input", "w", "-o", command + ".gir"}).code, 0);
    EXPECT_THAT(result({"run", command + ".gir", "--input", "x=x.npy", "--input", "w=w.npy"}),
                ElementsAre(5, 7, 9));
  }
}

TEST_F(DefaultInputs, AreInputsInWhatIsSaidOfAModel) {
  const std::string input = "  input    w: float (3)\n";
  EXPECT_THAT(folders_.run({"inspect", "m.onnx"}).out, Not(HasSubstr(input)));
  EXPECT_THAT(folders_.run({"inspect", "m.onnx", "--keep-input", "w"}).out, HasSubstr(input));
  ASSERT_EQ(folders_.run({"compile", "m.onnx", "-o", "kept.gmod", "--keep-input", "w"}).code, 0);
  expect_user_error({"inspect", "kept.gmod", "--keep-input", "w"}, "leave out --keep-input");
}

TEST_F(DefaultInputs, ThatAreNoneAreNamed) {
  for (const std::string command : {"compile", "ir", "opt", "inspect", "bench"})
    expect_user_error({command, "m.onnx", "--keep-input", "ww"}, "--keep-input ww: m.onnx has no input 'ww'");
  expect_user_error({"run", "m.onnx", "--input", "x=x.npy", "--input", "ww=w.npy"},
                    "the model has no input 'ww'");
}

}  // namespace
}  // namespace gantry::cli
