// Graph text through the program: `gantry ir -o`, `gantry opt`, and every command that takes a model.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "host/cli/npy.h"
#include "tests/cli/gantry_process.h"

namespace gantry::cli {
namespace {

using gantry::testing::contents;
using gantry::testing::GantryFolders;
using gantry::testing::Outcome;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Twice the input plus a constant, by hand.
constexpr const char* kByHand = R"(// y = 2 x + b
fn @main(%x: Tensor[(N, 3), f32]) -> Tensor[(N, 3), f32] {
  %0 = multiply(%x, const(f32, [], [2]))  // double it
  %1 = add(%0, const(f32, [3], [1, 0, -1]))
  return %1 as "y"
}
)";

class Gir : public ::testing::Test {
 protected:
  Outcome gantry(const std::vector<std::string>& arguments) const { return folders_.run(arguments); }
  void expect_done(const std::vector<std::string>& arguments) const {
    const Outcome outcome = gantry(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments[0] << ": " << outcome.err;
  }
  std::string error_of(const std::vector<std::string>& arguments) const {
    const Outcome outcome = gantry(arguments);
    EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("gantry: error: "));
    return outcome.err;
  }
  std::string read(const std::string& name) const { return contents(folders_.path(name)); }
  bool is_there(const std::string& name) const { return std::filesystem::exists(folders_.path(name)); }
  void write_floats(const std::string& name, const std::vector<int64_t>& shape, const std::vector<float>& values) const {
    HostTensor tensor;
    tensor.shape = shape;
    tensor.bytes.resize(values.size() * sizeof(float));
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    write_npy(folders_.path(name), tensor);
  }
  std::vector<float> floats(const std::string& name) const {
    const HostTensor tensor = read_npy(folders_.path(name));
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }
  void replace_in(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = read(name);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    folders_.write(name, text.replace(at, from.size(), to));
  }

  GantryFolders folders_;
};

TEST_F(Gir, OfNoFiniteElementThereIsNoLargestOne) {
  folders_.write("m.gir", kByHand);
  write_floats("none.npy", {0, 3}, {});
  write_floats("nan.npy", {1, 3}, {NAN, INFINITY, -INFINITY});
  for (const auto& [file, words] : {std::pair("none.npy", "empty"), std::pair("nan.npy", "nothing finite")}) {
    const Outcome outcome = gantry({"run", "m.gir", "--input", file});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr(words), Not(HasSubstr("max 0")))) << file;
    const json output = json::parse(gantry({"run", "m.gir", "--input", file, "--json"}).out)["outputs"][0];
    for (const char* figure : {"min", "max", "mean"}) EXPECT_TRUE(output[figure].is_null()) << file;
  }
}

/// Its sizes depend on data.
constexpr const char* kLate = R"(gir 1
fn @main(%x: Tensor[(4), f32]) -> Tensor[(1, n), i64] {
  %0 = cast(%x, to=i64)
  %1 = sum(%0, axes=[0], keepdims=false)
  %2 = bind_dims(%1, symbols=(n))
  %3 = nonzero_positions(%x, extents=(n))
  return %3 as "y"
}
)";

TEST_F(Gir, OptOfAGpusModelThatTheCpuRunsMakesTheTextThatItMakesForTheCpu) {
  folders_.write("late.gir", kLate);
  expect_done({"opt", "late.gir", "--target", "x86-64-v3", "-o", "cpu.gir"});
  const Outcome outcome = gantry({"opt", "late.gir", "--target", "cuda:sm_86/x86-64-v3", "-o", "gpu.gir"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("sizes depend on data, so the whole model runs on the CPU"));
  EXPECT_EQ(read("gpu.gir"), read("cpu.gir"));
  const Outcome printed = gantry({"opt", "late.gir", "--target", "cuda:sm_86/x86-64-v3"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_THAT(printed.out + printed.err,
              AllOf(HasSubstr("// place_devices: not for the CPU that runs all of it, "),
                    Not(HasSubstr("not for cuda"))));
}

TEST_F(Gir, WhatIsWorthKnowingOfAGpusProgramIsSaidOnStderrOnce) {
  folders_.write("late.gir", kLate);
  const std::vector<std::string> words = {"compile",    "late.gir", "--target",
                                          "cuda:sm_86", "--json",   "--force"};
  const Outcome outcome = gantry(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(json::accept(outcome.out)) << outcome.out;
  const std::string note = "gantry: cuda:sm_86: sizes depend on data, so the whole model runs on the CPU\n";
  const size_t at = outcome.err.find(note);
  EXPECT_NE(at, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find(note, at + 1), std::string::npos) << outcome.err;
}

TEST_F(Gir, TextOfAnImportedNetworkCompilesToTheSameModule) {
  const std::vector<std::vector<std::string>> networks = {{"squeezenet1_1", "--size", "64"}, {"mobilenet_v2", "--size", "32"}, {"bert_tiny", "--dynamic"}};
  for (std::vector<std::string> network : networks) {
    network.insert(network.begin(), "zoo");
    network.insert(network.end(), {"-o", "m.onnx", "--force"});
    expect_done(network);
    expect_done({"compile", "m.onnx", "-o", "from_onnx.gmod", "--force"});
    expect_done({"ir", "m.onnx", "-o", "m.gir"});
    expect_done({"compile", "m.gir", "-o", "from_text.gmod", "--force"});
    EXPECT_EQ(read("from_text.gmod"), read("from_onnx.gmod")) << network[1];
    EXPECT_TRUE(is_there("m.gir.weights"));
    const std::string text = read("m.gir"), weights = read("m.gir.weights");
    expect_done({"ir", "m.gir", "-o", "again.gir"});
    EXPECT_EQ(read("again.gir.weights"), weights) << network[1];
    std::string named = read("again.gir");
    named.replace(named.find("again.gir.weights"), 17, "m.gir.weights");
    EXPECT_EQ(named, text) << network[1];
  }
}

TEST_F(Gir, TextAfterAllPassesComputesTheSame) {
  expect_done({"zoo", "squeezenet1_1", "--size", "64", "-o", "m.onnx"});
  expect_done({"run", "m.onnx", "--random=3", "--output", "expected.npy"});
  expect_done({"opt", "m.onnx", "-o", "fused.gir", "--verify"});
  EXPECT_THAT(read("fused.gir"), AllOf(HasSubstr("passes legalize_floats, simplify_inference"), HasSubstr("fused(")));
  expect_done({"run", "fused.gir", "--random=3", "--expect", "expected.npy", "--tolerance", "1e-6"});
  expect_done({"run", "fused.gir", "--random=3", "--opt", "0", "--expect", "expected.npy", "--tolerance", "1e-6"});
}

TEST_F(Gir, EditedTextComputesWhatItSays) {
  folders_.write("m.gir", kByHand);
  write_floats("x.npy", {2, 3}, {1, 2, 3, 4, 5, 6});
  expect_done({"run", "m.gir", "--input", "x.npy", "--output", "y.npy"});
  EXPECT_EQ(floats("y.npy"), (std::vector<float>{3, 4, 5, 9, 10, 11}));
  replace_in("m.gir", "[2]", "[-3]");
  expect_done({"run", "m.gir", "--input", "x.npy", "--output", "y.npy"});
  EXPECT_EQ(floats("y.npy"), (std::vector<float>{-2, -6, -10, -11, -15, -19}));
  replace_in("m.gir", "add(%0", "nn.relu(%0)\n  %2 = add(%1");
  replace_in("m.gir", "return %1", "return %2");
  expect_done({"run", "m.gir", "--input", "x.npy", "--output", "y.npy"});
  EXPECT_EQ(floats("y.npy"), (std::vector<float>{1, 0, -1, 1, 0, -1}));
  expect_done({"run", "m.gir", "--input", "x.npy", "--opt", "0", "--output", "y.npy"});
  EXPECT_EQ(floats("y.npy"), (std::vector<float>{1, 0, -1, 1, 0, -1}));
}

TEST_F(Gir, EveryCommandThatTakesAModelTakesText) {
  folders_.write("m.gir", kByHand);
  expect_done({"compile", "m.gir", "-o", "m.gmod", "--dim", "N=4"});
  EXPECT_EQ(json::parse(gantry({"inspect", "m.gmod", "--json"}).out)["inputs"][0]["shape"], (json{4, 3}));
  expect_done({"bench", "m.gir", "--shape", "x=2x3", "--processes", "2", "--warmup", "1", "--repeat", "12"});
  expect_done({"profile", "m.gir", "--processes", "2", "--warmup", "1", "--repeat", "12"});
  folders_.write("n.gir", kByHand);
  expect_done({"compare", "m.gir", "n.gir", "--rounds", "3", "--warmup", "1"});
  EXPECT_THAT(gantry({"ir", "m.gir", "--after", "import"}).out, HasSubstr("%1 = add(%0, const(f32, [3], [1, 0, -1]))"));
  EXPECT_THAT(gantry({"ir", "m.gir", "--list"}).out, HasSubstr("multiply+add"));
  EXPECT_THAT(gantry({"inspect", "m.gir"}).out,
              AllOf(StartsWith("m.gir: graph text of m\n"), HasSubstr("input    x: f32 (N, 3)"), HasSubstr("output   y: f32 (N, 3)"),
                    HasSubstr("4 parameters, 16 B in 2 tensors"), HasSubstr("nodes    2\n")));
  const json report = json::parse(gantry({"inspect", "m.gir", "--json"}).out);
  EXPECT_EQ(report["ops"]["add"], 1);
  EXPECT_EQ(report["weights"]["bytes"], 16);
  expect_done({"inspect", "m.gir", "--html", "m.html", "--shape", "x=2x3"});
  EXPECT_THAT(read("m.html"), HasSubstr("graph"));
}

TEST_F(Gir, InspectSaysOfATextWithoutTheCodeOfItsCustomOpsThatItIsNotSupported) {
  folders_.write("m.gir", R"(gir 1
fn @main(%x: Tensor[(4), f32]) -> Tensor[(4), f32] {
  %0 = custom(%x, op="d::Twice", kernel="0123456789abcdef", types="f32", ranks=[1], dims=(4))
  return %0 as "y"
}
)");
  const Outcome outcome = gantry({"inspect", "m.gir", "--json"});
  EXPECT_EQ(outcome.code, 1);
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["supported"], false);
  const std::string error = report["error"].get<std::string>();
  EXPECT_THAT(error, StartsWith("m.gir: "));
  EXPECT_THAT(error, HasSubstr("calls the custom op d::Twice: give the folder"));
  EXPECT_EQ("gantry: error: " + error + "\n", outcome.err);
  EXPECT_EQ(report["unsupported"], json::array());
  EXPECT_THAT(gantry({"inspect", "m.gir"}).out, HasSubstr("gantry cannot compile it"));
}

TEST_F(Gir, ErrorsShowTheLineOfTheFile) {
  folders_.write("m.gir", kByHand);
  replace_in("m.gir", "add(", "ad(");
  for (const char* command : {"compile", "run", "bench", "ir", "inspect", "opt"}) {
    EXPECT_EQ(error_of({command, "m.gir"}),
              "gantry: error: m.gir:4:8: there is no op 'ad'; did you mean 'add' or 'pad'?\n"
              "    %1 = ad(%0, const(f32, [3], [1, 0, -1]))\n"
              "         ^\n")
        << command;
  }
  EXPECT_EQ(json::parse(gantry({"inspect", "m.gir", "--json"}).out)["error"].get<std::string>().substr(0, 10), "m.gir:4:8:");
  folders_.write("empty.gir", "");
  EXPECT_THAT(error_of({"compile", "empty.gir"}), StartsWith("gantry: error: empty.gir:1:1: expected the function"));
  EXPECT_THAT(error_of({"compile", "gone.gir"}), HasSubstr("gone.gir: there is no such file"));
  folders_.write("evil.gir", "fn @main(%\"\x1b[31m\": Tensor[(2), f32]) -> \x1b[2J");
  EXPECT_THAT(error_of({"compile", "evil.gir"}), Not(HasSubstr("\x1b")));
}

TEST_F(Gir, DecisionsThatDoNotFitAreSaidOfTheirLines) {
  folders_.write("c.gir", R"(// a convolution that
// multiplies by two
fn @main(%x: Tensor[(1, 1, 4, 4), f32]) -> Tensor[(1, 1, 4, 4), f32] {
  %0 = nn.conv(%x, const(f32, [1, 1, 1, 1], [2]), channels=1, kernel=[1, 1]) {form=winograd3}  // stem
  return %0 as "y"
}
)");
  for (const char* command : {"compile", "run", "bench", "opt"}) {
    EXPECT_THAT(error_of({command, "c.gir"}),
                StartsWith("gantry: error: c.gir:4: {form=winograd3} of stem (nn.conv) does not fit: "))
        << command;
  }
  // Of a knob it shows when the kernel is scheduled.
  std::string weight = "1";
  for (int i = 1; i < 64 * 96; ++i) weight += ", 1";
  folders_.write("p.gir",
                 "fn @main(%x: Tensor[(128, 64), f32]) -> Tensor[(128, 96), f32] {\n  %0 = exp(%x)\n" +
                     ("  %1 = nn.dense(%0, const(f32, [64, 96], [" + weight + "]), units=96)") +
                     " {form=packed, block=16, rows=9}  // fc\n  return %1 as \"y\"\n}\n");
  EXPECT_THAT(error_of({"compile", "p.gir", "--target", "x86-64-v3"}),
              StartsWith("gantry: error: p.gir:3: nn.dense of fc: rows=9 does not fit: "));
}

TEST_F(Gir, NothingIsReplacedThatWasSomethingElse) {
  folders_.write("m.gir", kByHand);
  EXPECT_THAT(error_of({"ir", "m.gir", "-o", "m.gir"}), HasSubstr("would replace the model"));
  EXPECT_THAT(error_of({"opt", "m.gir", "-o", "m.gir"}), HasSubstr("would replace the model"));
  folders_.write("notes.gir", "things to do\n");
  EXPECT_THAT(error_of({"ir", "m.gir", "-o", "notes.gir"}), HasSubstr("--force"));
  EXPECT_EQ(read("notes.gir"), "things to do\n");
  expect_done({"zoo", "bert_tiny", "-o", "b.onnx"});
  folders_.write("b.gir.weights", "things to do\n");
  EXPECT_THAT(error_of({"ir", "b.onnx", "-o", "b.gir"}), HasSubstr("b.gir.weights: is there already"));
  EXPECT_FALSE(is_there("b.gir")) << "half of it";
  expect_done({"ir", "b.onnx", "-o", "b.gir", "--force"});
  expect_done({"ir", "b.onnx", "-o", "b.gir"});
  EXPECT_THAT(error_of({"opt", "b.gir", "-o", "b.gir.weights", "--force"}), HasSubstr("would replace the text's weights"));
}

TEST_F(Gir, IrWritesTheGraphOfTheStageThatIsAskedFor) {
  expect_done({"zoo", "squeezenet1_1", "--size", "64", "-o", "m.onnx"});
  expect_done({"ir", "m.onnx", "-o", "m.gir"});
  EXPECT_THAT(read("m.gir"), Not(HasSubstr("passes"))) << "as it was read";
  expect_done({"ir", "m.onnx", "--after", "fold_constant", "-o", "m.gir"});
  EXPECT_THAT(read("m.gir"), HasSubstr("passes legalize_floats, simplify_inference, fold_constant\n"));
  expect_done({"ir", "m.onnx", "--before", "fold_constant", "-o", "m.gir"});
  EXPECT_THAT(read("m.gir"), HasSubstr("passes legalize_floats, simplify_inference\n"));
  EXPECT_THAT(error_of({"ir", "m.onnx", "--loops", "-o", "m.gir"}), HasSubstr("leave out --loops"));
}

TEST_F(Gir, IrRefusesAllStagesOfTheListOfKernels) {
  folders_.write("m.gir", kByHand);
  EXPECT_THAT(
      error_of({"ir", "m.gir", "--list", "--all"}),
      AllOf(HasSubstr("--list shows the kernels after the last pass"), HasSubstr("leave out --all\n")));
  EXPECT_THAT(gantry({"ir", "m.gir", "--list", "--loops", "--all"}).out,
              AllOf(HasSubstr("multiply+add"), HasSubstr(": after ")));
}

TEST_F(Gir, OptRunsThePassesThatAreNamedAndSaysWhatEachDid) {
  folders_.write("m.gir", R"(fn @main(%x: Tensor[(4), f32]) -> Tensor[(4), f32] {
  %0 = add(const(f32, [4], [1, 2, 3, 4]), const(f32, [4], [1, 1, 1, 1]))
  %1 = exp(%x)
  %2 = exp(%x)
  %3 = add(%1, %2)
  %4 = add(%3, %0)
  return %4 as "y"
}
)");
  const std::string folded = gantry({"opt", "m.gir", "--passes", "fold_constant"}).out;
  EXPECT_THAT(folded, AllOf(HasSubstr("const(f32, [4], [2, 3, 4, 5])"), HasSubstr("%2 = exp(%x)"), HasSubstr("// fold_constant: 1 rewrite, ")));
  const std::string both = gantry({"opt", "m.gir", "--passes", "eliminate_common_subexpr,fold_constant,dead_code"}).out;
  EXPECT_THAT(both, AllOf(Not(HasSubstr("%2 = exp")), HasSubstr("// eliminate_common_subexpr: 1 rewrite, "), HasSubstr("// dead_code: no rewrites, ")));
  const std::string one = gantry({"opt", "m.gir", "--passes", "eliminate_common_subexpr,fold_constant", "--stop-after", "1"}).out;
  EXPECT_THAT(one, AllOf(HasSubstr("[1, 2, 3, 4]"), Not(HasSubstr("%2 = exp")), HasSubstr("// stopped after 1 rewrite; left out: fold_constant")));
  EXPECT_THAT(gantry({"opt", "m.gir", "--stop-after", "0"}).out, HasSubstr("%2 = exp(%x)"));
  const std::string each = gantry({"opt", "m.gir", "--passes", "fold_constant,fuse_ops", "--print-each"}).out;
  EXPECT_THAT(each, AllOf(HasSubstr("// after fold_constant\nmodel \"m\"\nfn @main"), HasSubstr("// after fuse_ops\n")));
  const std::string all = gantry({"opt", "m.gir"}).out;
  EXPECT_THAT(all, AllOf(HasSubstr("fused("), HasSubstr("// place_devices: not for ")));
}

TEST_F(Gir, OutputsWithoutNamesKeepThoseOfTheirValuesBehindPasses) {
  folders_.write("a.gir", R"(fn @main(%x: Tensor[(4), f32]) -> (Tensor[(4), f32], Tensor[(4), f32]) {
  %a = exp(%x)
  %b = exp(%x)
  return %a, %b
}
)");
  expect_done({"opt", "a.gir", "-o", "b.gir"});
  EXPECT_THAT(read("b.gir"), AllOf(HasSubstr(" as \"a\""), HasSubstr(" as \"b\"")));
  expect_done({"ir", "a.gir", "--after", "eliminate_common_subexpr", "-o", "c.gir"});
  for (const std::string name : {"a", "b", "c"}) {
    expect_done({"compile", name + ".gir", "-o", name + ".gmod"});
    const json outputs = json::parse(gantry({"inspect", name + ".gmod", "--json"}).out)["outputs"];
    ASSERT_EQ(outputs.size(), 2U) << name;
    EXPECT_EQ(outputs[0]["name"], "a") << name;
    EXPECT_EQ(outputs[1]["name"], "b") << name;
  }
}

TEST_F(Gir, StoppedTextComputesTheSameAtEveryNumberOfRewrites) {
  expect_done({"zoo", "bert_tiny", "-o", "m.onnx"});
  expect_done({"run", "m.onnx", "--random=3", "--output", "expected.npy"});
  for (const char* rewrites : {"0", "2", "4", "6", "8"}) {
    expect_done({"opt", "m.onnx", "--stop-after", rewrites, "-o", "m.gir"});
    expect_done({"run", "m.gir", "--opt", "0", "--random=3", "--expect", "expected.npy", "--tolerance", "1e-5"});
  }
}

TEST_F(Gir, PassesInAnOrderThatTheyDoNotAllowAreRefusedByName) {
  folders_.write("m.gir", kByHand);
  EXPECT_THAT(error_of({"opt", "m.gir", "--passes", "alter_layout"}),
              HasSubstr("alter_layout works on what simplify_inference leaves: put simplify_inference before it"));
  EXPECT_THAT(error_of({"opt", "m.gir", "--passes", "fuse_ops,fold_constant"}), HasSubstr("put it before fuse_ops"));
  EXPECT_THAT(error_of({"opt", "m.gir", "--passes", "fuse_op"}), HasSubstr("did you mean 'fuse_ops'"));
  EXPECT_THAT(error_of({"opt", "m.gir", "--passes", "fuse_ops, "}), HasSubstr("a pass's name is empty"));
  EXPECT_THAT(error_of({"opt", "m.gir", "--passes", "fuse_ops", "--opt", "1"}), HasSubstr("leave out --opt"));
  folders_.write("m.gir", "passes simplify_inference\n" + std::string(kByHand));
  expect_done({"opt", "m.gir", "--passes", "alter_layout"});
  const std::string list = gantry({"opt", "--list"}).out;
  EXPECT_THAT(
      list,
      AllOf(ContainsRegex("recognize_attention +CPUs "), ContainsRegex("simplify_inference +all "),
            ContainsRegex("place_devices +GPUs "), ContainsRegex("multiply_bytes +byte products "),
            ContainsRegex("combine_parallel_conv2d +--passes "), ContainsRegex("fast_math +fast-math ")));
  EXPECT_THAT(gantry({"opt", "m.gir", "--passes", "multiply_bytes", "--target", "x86-64-v3"}).out,
              HasSubstr("// multiply_bytes: not for x86-64-v3, "));
}

TEST_F(Gir, APassThatIsNoneInTheTextIsAnErrorOfEveryCommandThatReadsIt) {
  folders_.write("m.gir", "passes simplify_inferense\n" + std::string(kByHand));
  for (const char* command : {"opt", "inspect"})
    EXPECT_THAT(
        error_of({command, "m.gir"}),
        HasSubstr("m.gir:1:8: there is no pass 'simplify_inferense'; did you mean 'simplify_inference'"));
}

}  // namespace
}  // namespace gantry::cli
