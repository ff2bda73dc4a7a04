// What a user can get wrong, tried with the program itself: each mistake gets an error that names the thing,
// the right exit code, and leaves no file behind.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "host/cli/npy.h"
#include "tests/support/server_process.h"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kSoundGraph[] =
    "node { name: 'Gemm_0' op_type: 'Gemm' input: 'x' input: 'w' output: 'h' } "
    "node { name: 'Relu_1' op_type: 'Relu' input: 'h' output: 'y' } ";
constexpr char kThisMachine[] =
#if defined(__x86_64__)
    "x86-64-v2";
constexpr char kOtherMachine[] = "aarch64";
#else
    "aarch64";
constexpr char kOtherMachine[] = "x86-64-v2";
#endif

/// x: f32 (2, 8), w: f32 (8, `columns`), y: f32 (2, `columns`).
std::string model(const std::string& nodes, int columns = 4) {
  onnx::ModelProto proto;
  const std::string type = " type { tensor_type { elem_type: 1 ";
  const std::string n = std::to_string(columns);
  const std::string text = "ir_version: 8 opset_import { version: 16 } graph { name: 'g' " + nodes +
                           "input { name: 'x'" + type +
                           "shape { dim { dim_value: 2 } dim { dim_value: 8 } } } } } output { name: 'y'" +
                           type + "shape { dim { dim_value: 2 } dim { dim_value: " + n +
                           " } } } } } initializer { name: 'w' data_type: 1 dims: 8 dims: " + n + " } }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  proto.mutable_graph()->mutable_initializer(0)->set_raw_data(
      std::string(static_cast<std::size_t>(8 * columns) * 4, '\x11'));
  return proto.SerializeAsString();
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Outcome {
  int code = -1;
  std::string error;
};

class WrongInput : public ::testing::Test {
 protected:
  void SetUp() override {
    write("m.onnx", model(kSoundGraph));
    write_npy(path("x.npy"), {*parse_type_name("f32"), {2, 8}, std::vector<std::byte>(64)});
  }

  fs::path path(const std::string& name) const { return work_.path() / name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  Outcome gantry(const std::string& arguments) const {
    const std::string command = "cd '" + work_.path().string() + "' && XDG_CONFIG_HOME='" +
                                config_.path().string() + "' timeout 100 " GANTRY_PROGRAM " " + arguments +
                                " >'" + (config_.path() / "out").string() + "' 2>'" +
                                (config_.path() / "err").string() + "' </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(config_.path() / "err")};
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(work_.path()))
      names.insert(entry.path().string());
    return names;
  }
  template <typename Matcher>
  void expect_error(int code, const std::string& arguments, const Matcher& message) const {
    const auto before = files();
    const Outcome outcome = gantry(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.error;
    EXPECT_THAT(outcome.error, HasSubstr("gantry: error: ")) << arguments;
    EXPECT_THAT(outcome.error, message) << arguments;
    EXPECT_EQ(files(), before) << arguments;
  }

  gantry::testing::TemporaryDirectory work_, config_;
};

TEST_F(WrongInput, TheSoundModelRuns) {
  const Outcome outcome = gantry("run m.onnx --input x.npy --output y.npy");
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_EQ(read_npy(path("y.npy")).shape, (std::vector<int64_t>{2, 4}));
}

TEST_F(WrongInput, FilesThatAreNotOnnx) {
  write("text.onnx", "a shopping list\n");
  write("zip.onnx", std::string("PK\x03\x04", 4) + std::string(500, 'z'));
  write("zeros.onnx", std::string(4096, '\0'));
  write("empty.onnx", "");
  for (const char* file : {"text.onnx", "zip.onnx", "zeros.onnx", "empty.onnx", "nosuch.onnx"}) {
    for (const char* command : {"compile", "run", "bench", "inspect", "ir"})
      expect_error(1, std::string(command) + " " + file, HasSubstr(file));
    expect_error(1, std::string("compile -o out.gmod ") + file, HasSubstr(file));
  }
}

TEST_F(WrongInput, TruncatedModels) {
  const std::string whole = model(kSoundGraph, 1000);
  for (const double part : {0.01, 0.3, 0.5, 0.9, 0.999}) {
    write("cut.onnx", whole.substr(0, static_cast<std::size_t>(static_cast<double>(whole.size()) * part)));
    expect_error(1, "compile cut.onnx -o out.gmod", HasSubstr("cut.onnx"));
  }
}

TEST_F(WrongInput, TruncatedAndAlteredModules) {
  ASSERT_EQ(gantry("compile m.onnx -o m.gmod").code, 0);
  const std::string whole = contents(path("m.gmod"));
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    write("cut.gmod", whole.substr(0, size));
    expect_error(1, "run cut.gmod --input x.npy --output y.npy", HasSubstr("cut.gmod"));
    expect_error(1, "bench cut.gmod --json r.json", HasSubstr("cut.gmod"));
    expect_error(1, "inspect cut.gmod", HasSubstr("cut.gmod"));
  }
  write("other.gmod", "M" + whole.substr(1));
  expect_error(1, "run other.gmod --input x.npy", HasSubstr("other.gmod: does not begin as a module does"));
  for (const std::size_t at : {std::size_t{9}, std::size_t{200}, whole.size() - 3}) {
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ 0x55);
    write("altered.gmod", altered);
    expect_error(1, "run altered.gmod --input x.npy --output y.npy", HasSubstr("altered.gmod"));
  }
}

TEST_F(WrongInput, UnknownOpsAreReportedAllAtOnceWithTheirNodes) {
  write("ops.onnx", model("node { name: 'Odd_7' op_type: 'Frobnicate' input: 'x' output: 'a' } "
                          "node { name: 'Odd_8' op_type: 'Defenestrate' input: 'a' output: 'y' } "));
  expect_error(
      1, "compile ops.onnx -o out.gmod",
      AllOf(HasSubstr("Frobnicate"), HasSubstr("Odd_7"), HasSubstr("Defenestrate"), HasSubstr("Odd_8")));
}

TEST_F(WrongInput, ShapesThatContradictTheGraph) {
  write("shapes.onnx",
        model("node { name: 'MatMul_3' op_type: 'MatMul' input: 'x' input: 'x' output: 'y' } "));
  expect_error(1, "compile shapes.onnx -o out.gmod", HasSubstr("MatMul_3"));
  expect_error(1, "compile m.onnx --shape x=2x9 -o out.gmod",
               AllOf(HasSubstr("x"), HasSubstr("9"), HasSubstr("8")));
  expect_error(1, "compile m.onnx --shape x=2x8x1 -o out.gmod", HasSubstr("x"));
  expect_error(1, "compile m.onnx --shape nosuch=1 -o out.gmod", HasSubstr("nosuch"));
  expect_error(1, "compile m.onnx --shape x=two -o out.gmod", HasSubstr("two"));
}

TEST_F(WrongInput, InputsThatAreMissingOrOfAnotherKind) {
  write_npy(path("f64.npy"), {*parse_type_name("f64"), {2, 8}, std::vector<std::byte>(128)});
  write_npy(path("long.npy"), {*parse_type_name("f32"), {2, 9}, std::vector<std::byte>(72)});
  write_npy(path("rank.npy"), {*parse_type_name("f32"), {16}, std::vector<std::byte>(64)});
  write("cut.npy", contents(path("x.npy")).substr(0, 140));
  write("text.npy", "1, 2, 3\n");
  for (const std::string command : {"run m.onnx --output y.npy", "bench m.onnx --repeat 1 --json r.json"}) {
    if (command.starts_with("run")) expect_error(1, command, HasSubstr("'x'"));
    expect_error(1, command + " --input f64.npy", AllOf(HasSubstr("f64.npy"), HasSubstr("f32")));
    expect_error(1, command + " --input long.npy", AllOf(HasSubstr("2x9"), HasSubstr("2x8")));
    expect_error(1, command + " --input rank.npy", AllOf(HasSubstr("16"), HasSubstr("2x8")));
    expect_error(1, command + " --input cut.npy", HasSubstr("cut.npy"));
    expect_error(1, command + " --input text.npy", HasSubstr("text.npy"));
    expect_error(1, command + " --input nosuch.npy", HasSubstr("nosuch.npy"));
    expect_error(1, command + " --input z=x.npy", HasSubstr("'z'"));
  }
  expect_error(1, "run m.onnx --input x.npy --output z=y.npy", HasSubstr("'z'"));
}

TEST_F(WrongInput, UnknownTargets) {
  expect_error(1, "compile m.onnx --target cortex-a99 -o out.gmod",
               AllOf(HasSubstr("cortex-a99"), HasSubstr("gantry targets")));
  expect_error(1, std::string("compile m.onnx --target ") + kThisMachine + " --target nosuch -o out.gmod",
               HasSubstr("nosuch"));
}

TEST_F(WrongInput, BoardsThatAreDownOrUnknown) {
  ASSERT_EQ(gantry("boards add pi 127.0.0.1:1").code, 0);
  expect_error(2, "run m.onnx --input x.npy --output y.npy --on pi", HasSubstr("127.0.0.1:1"));
  expect_error(2, "bench m.onnx --on 127.0.0.1:1 --json r.json", HasSubstr("127.0.0.1:1"));
  expect_error(2, "boards info pi", HasSubstr("127.0.0.1:1"));
  expect_error(2, "run m.onnx --input x.npy --on board.invalid:7453", HasSubstr("board.invalid"));
  expect_error(1, "run m.onnx --input x.npy --on nosuch", HasSubstr("nosuch"));
}

TEST_F(WrongInput, WrongKeys) {
  ASSERT_EQ(gantry("keygen right.key").code, 0);
  ASSERT_EQ(gantry("keygen wrong.key").code, 0);
  write("text.key", "not a key\n");
  ::chmod(path("text.key").c_str(), 0600);
  const gantry::testing::ServerProcess server({"--key", path("right.key").string()});
  const std::string run = "run m.onnx --input x.npy --output y.npy --on " + server.address();
  expect_error(2, run + " --key wrong.key", AllOf(HasSubstr(server.address()), HasSubstr("key")));
  expect_error(2, run, AllOf(HasSubstr(server.address()), HasSubstr("key")));
  expect_error(1, run + " --key text.key", HasSubstr("text.key"));
  expect_error(1, run + " --key nosuch.key", HasSubstr("nosuch.key"));
  const Outcome outcome = gantry(run + " --key right.key");
  EXPECT_EQ(outcome.code, 0) << outcome.error;
}

TEST_F(WrongInput, ModulesAreCompiledForABoardThatIsThere) {
  ASSERT_EQ(gantry("keygen right.key").code, 0);
  const gantry::testing::ServerProcess server({"--key", path("right.key").string()});
  const std::string on_board = " --on " + server.address() + " --key right.key";
  ASSERT_EQ(gantry("compile m.onnx -o native.gmod").code, 0);
  const Outcome outcome = gantry("compile m.onnx -o board.gmod" + on_board);
  ASSERT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_EQ(contents(path("board.gmod")), contents(path("native.gmod"))) << "it is this machine";
  EXPECT_EQ(
      gantry("compile m.onnx -o both.gmod --target native --target " + std::string(kOtherMachine) + on_board)
          .code,
      0);
  expect_error(2, "compile m.onnx -o out.gmod --on 127.0.0.1:1", HasSubstr("127.0.0.1:1"));
  expect_error(1, "compile m.onnx -o out.gmod --on nosuch", HasSubstr("nosuch"));
  expect_error(1, "compile m.onnx -o out.gmod --key right.key", HasSubstr("--on"));
}

TEST_F(WrongInput, ModulesForAnotherArchitecture) {
  ASSERT_EQ(gantry(std::string("compile m.onnx -o other.gmod --target ") + kOtherMachine).code, 0);
  const gantry::testing::ServerProcess server;
  expect_error(1, "run other.gmod --input x.npy --output y.npy",
               AllOf(HasSubstr("other.gmod"), HasSubstr(kOtherMachine)));
  expect_error(1, "run other.gmod --input x.npy --output y.npy --on " + server.address(),
               AllOf(HasSubstr(server.address()), HasSubstr(kOtherMachine)));
}

TEST_F(WrongInput, FullDisksOfTheWorkstation) {
  const fs::path disk = path("disk");
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "only root can mount a small disk";
  write("large.onnx", model(kSoundGraph, 10000));
  write_npy(path("y.npy"), {*parse_type_name("f32"), {2, 8}, std::vector<std::byte>(64)});
  expect_error(1, "compile large.onnx -o disk/out.gmod",
               AllOf(HasSubstr("disk/out.gmod"), HasSubstr("space")));
  expect_error(1, "run large.onnx --input x.npy --output disk/y.npy",
               AllOf(HasSubstr("disk/y.npy"), HasSubstr("space")));
  expect_error(1, "zoo resnet18 -o disk/m.onnx", AllOf(HasSubstr("disk/m.onnx"), HasSubstr("space")));
  std::ofstream(disk / "filler") << std::string(65536, 'x');
  expect_error(1, "keygen disk/a.key", HasSubstr("disk/a.key"));
  expect_error(1, "bench m.onnx --repeat 1 --json disk/r.json", HasSubstr("disk/r.json"));
  ::umount2(disk.c_str(), MNT_DETACH);
}

TEST_F(WrongInput, FullDisksOfTheBoard) {
  const fs::path disk = config_.path() / "disk";
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "only root can mount a small disk";
  write("large.onnx", model(kSoundGraph, 10000));
  {
    const gantry::testing::ServerProcess server({"--cache", (disk / "cache").string()});
    const std::string on = " --on " + server.address();
    (void)gantry("run m.onnx --input x.npy" + on);  // makes the cache's folders
    expect_error(2, "run large.onnx --input x.npy --output y.npy" + on,
                 AllOf(HasSubstr(server.address()), HasSubstr("disk is full"), HasSubstr("--cache")));
    EXPECT_TRUE(fs::is_empty(disk / "cache" / "partial"));
    const Outcome outcome = gantry("run m.onnx --input x.npy --output y.npy" + on);
    EXPECT_EQ(outcome.code, 0) << "the board serves on: " << outcome.error;
  }
  ::umount2(disk.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace gantry::cli
