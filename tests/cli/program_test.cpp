// Runs the real program as a child.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "host/cli/npy.h"
#include "tests/cli/outcome.h"

namespace gantry::cli {
namespace {

using gantry::testing::contents;
using gantry::testing::Outcome;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() /
        (std::string("gantry_program_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Outcome gantry(const std::string& arguments) {
    const std::string command = "cd '" + folder_.string() + "' && XDG_CONFIG_HOME='" + folder_.string() +
                                "/config' timeout 120 " GANTRY_PROGRAM " " + arguments + " >'" +
                                out().string() + "' 2>'" + err().string() + "' </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0, contents(out()), contents(err())};
  }
  /// Files that commands left behind.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path() != out() && entry.path() != err()) names.push_back(entry.path().filename().string());
    }
    return names;
  }
  void expect_user_error(const std::string& arguments, const std::string& part) {
    const Outcome outcome = gantry(arguments);
    EXPECT_EQ(outcome.code, 1) << arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("gantry: error: ")) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(part)) << arguments;
  }
  std::filesystem::path out() const { return folder_ / ".stdout"; }
  std::filesystem::path err() const { return folder_ / ".stderr"; }

  std::filesystem::path folder_;
};

TEST_F(Program, EveryCommandTeachesByExample) {
  for (const char* command :
       {"", "compile", "run", "bench", "profile", "compare", "trace", "inspect", "ir", "opt", "targets", "keygen",
        "boards", "boards add", "boards list", "boards info", "boards discover", "boards remove", "zoo"}) {
    const Outcome outcome = gantry(std::string(command) + " --help");
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr("Example")) << command;
    EXPECT_THAT(outcome.out, HasSubstr(std::string("gantry ") + command)) << command;
  }
}

TEST_F(Program, MessagesThatCannotBeWrittenEndNothing) {
  ASSERT_EQ(gantry("zoo lstm -o lstm.onnx").code, 0);
  const auto code = [&](const std::string& arguments, const std::string& redirection) {
    const std::string command = "cd '" + folder_.string() + "' && timeout 120 " GANTRY_PROGRAM " " +
                                arguments + " >/dev/null " + redirection + " </dev/null";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  for (const char* redirection : {"2>/dev/full", "2>&-"}) {
    EXPECT_EQ(code("inspect none.onnx", redirection), 1) << redirection;
    EXPECT_EQ(code("", redirection), 1) << redirection;
    EXPECT_EQ(code("inspect lstm.onnx --verbose", redirection), 0) << redirection;
    // Its stages are lines of stderr.
    EXPECT_EQ(code("compile lstm.onnx -o lstm.gmod --opt 0 --verbose", redirection), 0) << redirection;
  }
}

TEST_F(Program, VersionIsPrinted) {
  EXPECT_THAT(gantry("--version").out, StartsWith("gantry 0."));
}

TEST_F(Program, WrongNamesAreAnsweredWithTheNearest) {
  expect_user_error("comiple x.onnx", "did you mean 'compile'");
  expect_user_error("bench x.onnx --repaet 3", "did you mean '--repeat'");
  expect_user_error("boards lst", "did you mean 'list'");
  expect_user_error("boards lst --help", "did you mean 'list'");
  expect_user_error("upload --help", "unknown command 'upload'");
  expect_user_error("records", "`gantry records` is followed by one of list, ");
  expect_user_error("farm", "register, status, drain, resume");
  EXPECT_EQ(gantry("bench x.onnx --help").code, 0);
  expect_user_error("run x.onnx --specialize N=1", "'--specialize'; `gantry compile` takes it");
  expect_user_error("zoo resnet81", "'resnet18'");
  expect_user_error("run x.onnx --on nowhere", "");
}

TEST_F(Program, FilesThatAreNoModelsAreUserErrorsAndLeaveNothing) {
  std::ofstream(folder_ / "text.onnx") << "this is not a model";
  std::ofstream(folder_ / "empty.onnx");
  for (const char* command : {"compile", "run", "bench", "inspect", "ir"}) {
    for (const char* file : {"text.onnx", "empty.onnx", "missing.onnx", "."}) {
      expect_user_error(std::string(command) + " " + file, file == std::string(".") ? "folder" : file);
    }
  }
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(Program, PipesAreNoModelsAndAreNotWaitedFor) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const char* command : {"compile", "run", "bench", "inspect", "ir", "compare"})
    expect_user_error(std::string(command) + " pipe" + (command == std::string("compare") ? " pipe" : ""),
                      "pipe: not a regular file");
}

TEST_F(Program, ErrorsNameTheRemedy) {
  ASSERT_EQ(gantry("zoo lstm -o lstm.onnx --size 2").code, 0);
  const std::string whole = contents(folder_ / "lstm.onnx");
  std::ofstream(folder_ / "cut.onnx", std::ios::binary) << whole.substr(0, whole.size() / 2);
  expect_user_error("compile cut.onnx", "copy or export it again");
  expect_user_error("compile lsmt.onnx", "did you mean 'lstm.onnx'");
  expect_user_error("compile nothing-like-it", "starts in " + folder_.string());
  expect_user_error("compile none/m.onnx", "nor a folder 'none'");
  expect_user_error("compile lstm.onnx -o none/m.gmod", "there is no folder 'none'; make it");
  expect_user_error("compile lstm.onnx -t what", "`gantry targets` lists the usual ones for --target");
  expect_user_error("bench lstm.onnx --threads two", "--threads: 'two' is not a whole number from 1 to 1024");
  expect_user_error("bench lstm.onnx --cooldown-ms -1", "'-1' is not a number from 0 to");
  expect_user_error("bench lstm.onnx --input none.npy", "none.npy: there is no such file");
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(Program, FullDiskIsAUserErrorAndTheDeviceStays) {
  expect_user_error("zoo lstm -o /dev/full", "No space left on device; make room");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(Program, ARangeIsCompiledInAndKeptTo) {
  ASSERT_EQ(gantry("zoo lstm --dynamic -o m.onnx").code, 0);
  ASSERT_EQ(gantry("compile m.onnx -o m.gmod --dim batch=2..4").code, 0);
  EXPECT_EQ(gantry("run m.gmod --random --dim batch=2").code, 0);
  EXPECT_EQ(gantry("run m.gmod --random --shape batch=4").code, 0);
  EXPECT_EQ(gantry("run m.gmod --random").code, 0) << "sizes are made up in the range";
  for (const char* other : {"1", "5"}) {
    const Outcome outcome = gantry(std::string("run m.gmod --random --dim batch=") + other);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr(std::string(other) + ", must be between 2 and 4 (needed by the range 2..4"));
  }
  expect_user_error("run m.gmod --random --dim batch=2..3", "give one size");
  EXPECT_EQ(gantry("run m.onnx --random --shape batch=3..4").code, 0);
}

TEST_F(Program, BoardThatIsDownIsABoardError) {
  ASSERT_EQ(gantry("zoo lstm -o m.onnx").code, 0);
  const Outcome outcome = gantry("run m.onnx --random --on 127.0.0.1:1");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("127.0.0.1:1"));
}

TEST_F(Program, KeysAreNeverOverwritten) {
  ASSERT_EQ(gantry("keygen a.key").code, 0);
  const std::string key = contents(folder_ / "a.key");
  EXPECT_EQ(std::filesystem::status(folder_ / "a.key").permissions(), std::filesystem::perms(0600));
  expect_user_error("keygen a.key", "a.key");
  EXPECT_EQ(contents(folder_ / "a.key"), key);
}

TEST_F(Program, BoardsAreKeptBetweenCalls) {
  ASSERT_EQ(gantry("keygen a.key").code, 0);
  EXPECT_EQ(gantry("boards add pi 10.0.0.1:7453 --key a.key").code, 0);
  const auto list = nlohmann::json::parse(gantry("boards list --json").out);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["address"], "10.0.0.1:7453");
  EXPECT_EQ(list[0]["key"], (folder_ / "a.key").string());
  expect_user_error("boards remove pie", "'pi'");
  expect_user_error("boards add x 10.0.0.1", "HOST:PORT");
  EXPECT_EQ(gantry("boards remove pi").code, 0);
  EXPECT_EQ(nlohmann::json::parse(gantry("boards --json").out).size(), 0u);
}

TEST_F(Program, TargetsAreListed) {
  EXPECT_THAT(gantry("targets").out, HasSubstr("aarch64+dotprod"));
  const auto list = nlohmann::json::parse(gantry("targets --json").out);
  EXPECT_GT(list.size(), 5u);
  EXPECT_EQ(list[0]["name"], "native");
}

TEST_F(Program, ModelGoesFromZooToAComparison) {
  ASSERT_EQ(gantry("zoo lstm -o m.onnx --size 5").code, 0);
  const Outcome compiled = gantry("compile m.onnx");
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  ASSERT_EQ(gantry("run m.onnx --random=3 --output a.npy").code, 0);
  ASSERT_EQ(gantry("run m.gmod --random=3 --output logits=b.npy").code, 0);
  EXPECT_EQ(contents(folder_ / "a.npy"), contents(folder_ / "b.npy"));
  EXPECT_EQ(read_npy(folder_ / "a.npy").shape, (std::vector<int64_t>{1, 5, 10}));
  ASSERT_EQ(gantry("bench m.gmod --profile --threads 1 --processes 2 --repeat 20 --json r.json").code, 0);
  const auto report = nlohmann::json::parse(contents(folder_ / "r.json"));
  ASSERT_EQ(report["processes"].size(), 2u);
  EXPECT_EQ(report["processes"][1]["samples_ms"].size(), 20u);
  EXPECT_EQ(report["threads"], 1);
  EXPECT_FALSE(report["kernels"].empty());
  const Outcome compared = gantry("compare r.json r.json --json");
  EXPECT_EQ(nlohmann::json::parse(compared.out)["verdict"], "not shown");
  const auto module = nlohmann::json::parse(gantry("inspect m.gmod --json").out);
  EXPECT_EQ(module["inputs"][0]["shape"], (std::vector<int64_t>{1, 5, 64}));
  EXPECT_EQ(nlohmann::json::parse(gantry("inspect m.onnx --json").out)["ops"]["LSTM"], 2);
}

TEST_F(Program, WrongInputsAreNamed) {
  ASSERT_EQ(gantry("zoo lstm -o m.onnx --size 5").code, 0);
  write_npy(folder_ / "ids.npy", {*parse_type_name("i64"), {1, 5, 64}, std::vector<std::byte>(320 * 8)});
  write_npy(folder_ / "short.npy", {*parse_type_name("f32"), {1, 4, 64}, std::vector<std::byte>(256 * 4)});
  expect_user_error("run m.onnx", "'input' (f32 1x5x64)");
  expect_user_error("run m.onnx --input ids.npy", "holds i64");
  expect_user_error("run m.onnx --input short.npy", "1x4x64");
  expect_user_error("run m.onnx --random --shape inptu=1x5x64", "inptu");
  expect_user_error("run m.onnx --random --device gpu", "unknown device 'gpu'");
  expect_user_error("run m.onnx --random --gpu-checks", "--device cuda-emulated");
  expect_user_error("run m.onnx --random --precision tf32", "is for GPUs");
  expect_user_error("compile m.onnx -t x86-64-v4 --precision bf16", "no instructions for products of bf16");
  expect_user_error("run m.onnx --random --precision bf17", "did you mean");
  expect_user_error("run m.onnx --random --device cuda:99", "no GPU for --device cuda:99");
  expect_user_error("compile m.onnx --target aarch46", "aarch64");
  expect_user_error("compile m.onnx -o m.onnx", "replace the model");
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(Program, ModuleForAnotherArchitectureIsRefused) {
  ASSERT_EQ(gantry("zoo lstm -o m.onnx --size 5").code, 0);
#if defined(__x86_64__)
  const std::string other = "aarch64";
#else
  const std::string other = "x86-64-v2";
#endif
  ASSERT_EQ(gantry("compile m.onnx --target " + other).code, 0);
  expect_user_error("run m.gmod --random", other);
}

TEST_F(Program, ModelRunsAsOneOfALesserTargetToo) {
#if defined(__x86_64__)
  const std::string lesser = "x86-64-v2", other = "aarch64";
#else
  const std::string lesser = "aarch64", other = "x86-64-v2";
#endif
  ASSERT_EQ(gantry("zoo lstm -o m.onnx --size 5").code, 0);
  const auto report =
      nlohmann::json::parse(gantry("bench m.onnx --processes 1 --repeat 5 --json --target " + lesser).out);
  EXPECT_EQ(report["target"], lesser);
  expect_user_error("run m.onnx --random --target " + other, "--target " + other + ": it is of ");
  expect_user_error("run m.onnx --random --device cuda --target " + lesser, "leave one of them out");
  ASSERT_EQ(gantry("compile m.onnx").code, 0);
  expect_user_error("run m.gmod --random --target " + lesser, "leave out --target");
}

TEST_F(Program, IrShowsEveryStage) {
  ASSERT_EQ(gantry("zoo squeezenet1_1 -o m.onnx --size 64").code, 0);
  EXPECT_THAT(gantry("ir m.onnx --after import").out, HasSubstr("fn @main"));
  EXPECT_THAT(gantry("ir m.onnx --all").out, HasSubstr("// after fuse_ops"));
  EXPECT_THAT(gantry("ir m.onnx --loops --kernel conv").out, HasSubstr("kernel conv"));
  const std::string steps = gantry("ir m.onnx --loops --all --verify --kernel conv_add_relu_1").out;
  EXPECT_THAT(steps, StartsWith("// kernel conv_add_relu_1: "));
  EXPECT_THAT(steps, HasSubstr("// conv_add_relu_1: after schedule\nkernel conv_add_relu_1\n"));
  EXPECT_THAT(steps, HasSubstr("\n  stage conv: f32["));
  EXPECT_THAT(steps, HasSubstr("// conv_add_relu_1: after build_nests\nkernel conv_add_relu_1\n  input "));
  EXPECT_THAT(steps, HasSubstr(" changes nothing\n\n// conv_add_relu_1: "));
  EXPECT_THAT(gantry("ir m.onnx --asm --target aarch64 --kernel max_pool").out, HasSubstr("ret"));
  EXPECT_THAT(gantry("ir m.onnx --llvm --kernel max_pool").out, HasSubstr("define"));
  expect_user_error("ir m.onnx --after fuse_op", "'fuse_ops'");
}

TEST_F(Program, IrGoesFromANodeToItsKernelAndItsCode) {
  ASSERT_EQ(gantry("zoo squeezenet1_1 -o m.onnx --size 64").code, 0);
  const std::string list = gantry("ir m.onnx --list --target x86-64-v3").out;
  EXPECT_THAT(list, HasSubstr("max_pool_1"));
  const auto model = gantry("ir m.onnx --after import").out;
  const size_t comment = model.find("  // ", model.find("nn.max_pool")) + 5;
  const std::string node = model.substr(comment, model.find('\n', comment) - comment);
  const std::string all = gantry("ir m.onnx --target x86-64-v3 --node " + node).out;
  EXPECT_THAT(all, HasSubstr("// node " + node + " (MaxPool) is computed by max_pool_1 at #"));
  EXPECT_THAT(all, HasSubstr("= fused("));                          // graph
  EXPECT_THAT(all, HasSubstr("kernel max_pool_1\n"));               // loop nest
  EXPECT_THAT(all, HasSubstr("// nn.max_pool of " + node));         // a comment in it
  EXPECT_THAT(all, HasSubstr("# kernel max_pool_1: nn.max_pool"));  // at the assembly's head
  EXPECT_THAT(all, HasSubstr("max_pool_1:"));
  const std::string kernel = gantry("ir m.onnx --target x86-64-v3 --kernel max_pool_1").out;
  EXPECT_EQ(all.substr(all.find("\n\n") + 2), kernel);
  const std::string loops = gantry("ir m.onnx --target x86-64-v3 --loops --node " + node).out;
  EXPECT_THAT(loops, Not(HasSubstr("ret")));
  expect_user_error("ir m.onnx --kernel max_pol_1", "'max_pool_1'");
  expect_user_error("ir m.onnx --kernel max_pol_1", "--list");
  expect_user_error("ir m.onnx --node " + node + "x", "'" + node + "'");
  expect_user_error("ir m.onnx --node nothing_like_it", "no such node");
}

TEST_F(Program, KernelsHaveOneNameEverywhere) {
  ASSERT_EQ(gantry("zoo lstm -o m.onnx --size 5").code, 0);
  ASSERT_EQ(gantry("bench m.onnx --profile --threads 1 --processes 1 --repeat 3 --json r.json").code, 0);
  const auto kernels = nlohmann::json::parse(contents(folder_ / "r.json"))["kernels"];
  ASSERT_EQ(gantry("compile m.onnx").code, 0);
  const auto variant = nlohmann::json::parse(gantry("inspect m.gmod --json").out)["variants"][0];
  const std::string list = gantry("ir m.onnx --list").out,
                    table = gantry("profile m.onnx --processes 1 --repeat 3").out;
  for (const auto& kernel : kernels) {
    const std::string symbol = kernel["symbol"];
    if (symbol.empty()) continue;
    const size_t index = variant["steps"][kernel["step"].get<size_t>()]["kernel"];
    EXPECT_EQ(variant["kernels"][index]["symbol"], symbol);
    EXPECT_EQ(variant["kernels"][index]["op"], kernel["op"]);
    EXPECT_THAT(list, HasSubstr(symbol + " "));
    EXPECT_THAT(table, HasSubstr(symbol + " "));
  }
}

TEST_F(Program, ProfilesAreCutAndSummed) {
  ASSERT_EQ(gantry("zoo lstm -o m.onnx --size 5").code, 0);
  EXPECT_THAT(gantry("profile m.onnx --processes 1 --repeat 3 --top 2").out, HasSubstr("others: "));
  EXPECT_THAT(gantry("bench m.onnx --profile --processes 1 --repeat 3 --by type").out, HasSubstr("type\n"));
  expect_user_error("profile m.onnx --by kind", "'kind' is not step, kernel, type or node");
  expect_user_error("profile m.onnx --top 0", "--top");
  expect_user_error("bench m.onnx --top 3", "--profile");
}

TEST_F(Program, SizesOfMadeUpInputsThatNobodyGivesAreChosenAndNamed) {
  ASSERT_EQ(gantry("zoo lstm --dynamic -o m.onnx").code, 0);
  ASSERT_EQ(gantry("compile m.onnx").code, 0);
  for (const char* file : {"m.onnx", "m.gmod"}) {
    const Outcome run = gantry(std::string("run --random ") + file);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("batch 1")) << file;
    EXPECT_THAT(run.err, HasSubstr(" 128")) << file;
    EXPECT_THAT(run.err, HasSubstr("--shape input=1x128x64")) << file;
    const Outcome bench =
        gantry(std::string("bench --processes 1 --repeat 1 --dim batch=2 --json - ") + file);
    ASSERT_EQ(bench.code, 0) << bench.err;
    const auto input = nlohmann::json::parse(bench.out)["inputs"][0];
    EXPECT_THAT(input["shape"].dump(), ::testing::AnyOf("[2,128,64]", "[128,2,64]")) << file;
    EXPECT_THAT(input["source"].get<std::string>(), HasSubstr("chosen: length 128")) << file;
    expect_user_error(std::string("run --random --dim bacth=2 ") + file, "bacth");
  }
}

TEST_F(Program, QuietSaysNothingButErrors) {
  const Outcome outcome = gantry("zoo lstm -o m.onnx --quiet");
  EXPECT_EQ(outcome.out + outcome.err, "");
  EXPECT_THAT(gantry("zoo nothing --quiet").err, Not(""));
}

TEST_F(Program, PassesAreListedWithTheirLevels) {
  const Outcome outcome = gantry("ir --list-passes");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("fuse_ops"));
  EXPECT_THAT(outcome.out, HasSubstr("packs weights for the target"));
  expect_user_error("ir", "MODEL is missing");
}

TEST_F(Program, ExplainsAModelAsTextAndAsJson) {
  gantry("zoo lstm -o m.onnx --size 5");
  const Outcome text = gantry("ir m.onnx --explain");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("workspace: "));
  const Outcome json = gantry("ir m.onnx --explain --json");
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_FALSE(nlohmann::json::parse(json.out)["kernels"].empty());
  expect_user_error("ir m.onnx --json", "--explain");
  expect_user_error("ir m.onnx --explain --after fuse_ops", "leave out --after");
  expect_user_error("ir m.onnx somewhere", "a node is for --explain, or --node somewhere");
  expect_user_error("ir m.onnx --explain somewhere --node elsewhere", "one of the two");
}

}  // namespace
}  // namespace gantry::cli
