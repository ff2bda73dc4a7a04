// What the program does to files that are there already, and to paths that are no files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/gantry_process.h"

namespace gantry::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

class OutputFiles : public ::testing::Test {
 protected:
  /// The same small model for all tests.
  static void SetUpTestSuite() {
    models_ = new GantryFolders;
    ASSERT_EQ(models_->run({"zoo", "lstm", "-o", "m.onnx", "--size", "2"}).code, 0);
    ASSERT_EQ(models_->run({"compile", "m.onnx"}).code, 0);
  }
  static void TearDownTestSuite() { delete models_; }
  void SetUp() override {
    for (const char* name : {"m.onnx", "m.gmod"}) fs::copy_file(models_->path(name), folders_.path(name));
  }

  fs::path path(const std::string& name) const { return folders_.path(name); }
  Outcome gantry(const Arguments& arguments) const { return folders_.run(arguments); }
  void expect_done(const Arguments& arguments) const {
    const Outcome outcome = gantry(arguments);
    EXPECT_EQ(outcome.code, 0) << ::testing::PrintToString(arguments) << "\n" << outcome.err;
  }
  /// Refused, with everything as it was.
  void expect_refusal(const Arguments& arguments, const std::string& part) const {
    const auto state = [&] {
      std::vector<std::string> all;
      for (const std::string& name : files_below(folders_.work())) {
        all.push_back(name);
        if (fs::is_regular_file(path(name))) all.push_back(contents(path(name)));
      }
      return all;
    };
    const auto before = state();
    const Outcome outcome = gantry(arguments);
    EXPECT_EQ(outcome.code, 1) << ::testing::PrintToString(arguments);
    EXPECT_THAT(outcome.err, HasSubstr(part)) << ::testing::PrintToString(arguments);
    EXPECT_TRUE(state() == before) << ::testing::PrintToString(arguments);
  }

  GantryFolders folders_;
  static GantryFolders* models_;
};
GantryFolders* OutputFiles::models_ = nullptr;

TEST_F(OutputFiles, YesterdaysOutputsAreReplacedWithoutAsking) {
  for (int day = 0; day < 2; ++day) {
    expect_done({"compile", "m.onnx", "-o", "out.gmod"});
    expect_done({"run", "m.gmod", "--random", "--output", "y.npy"});
    expect_done({"run", "m.gmod", "--random", "--output", "y.pb"});
    expect_done(
        {"bench", "m.gmod", "--processes", "1", "--repeat", "5", "--warmup", "1", "--json", "r.json"});
    expect_done({"zoo", "lstm", "-o", "z.onnx", "--size", "2"});
  }
}

TEST_F(OutputFiles, FilesOfAnotherKindAreReplacedOnlyByForce) {
  folders_.write("notes.txt", "notes");
  folders_.write("notes.npy", "notes");
  folders_.write("notes.pb", "notes");
  expect_refusal({"compile", "m.onnx", "-o", "notes.txt"}, "-o notes.txt: is there already");
  expect_refusal({"zoo", "lstm", "-o", "notes.txt"}, "--force");
  expect_refusal({"run", "m.gmod", "--random", "--output", "notes.npy"}, "not a .npy file");
  expect_refusal({"run", "m.gmod", "--random", "--output", "notes.pb"}, "not an ONNX tensor (.pb)");
  expect_done({"run", "m.gmod", "--random", "--output", "y.pb"});
  fs::copy_file(path("y.pb"), path("y.npy"));
  expect_refusal({"run", "m.gmod", "--random", "--output", "y.npy"}, "is an ONNX tensor (.pb), not a .npy file");
  fs::copy_file(path("m.onnx"), path("m.pb"));
  expect_refusal({"run", "m.gmod", "--random", "--output", "m.pb"}, "is a model of gantry's zoo");
  expect_refusal({"bench", "m.gmod", "--json", "notes.txt"}, "not a result of bench");
  expect_refusal({"keygen", "notes.txt"}, "not a key");
  fs::copy_file(path("m.gmod"), path("other.gmod"));
  expect_refusal({"bench", "m.gmod", "--json", "other.gmod"}, "is a module");
  expect_refusal({"profile", "m.gmod", "--json", "m.onnx"}, "is a model of gantry's zoo");
  for (const Arguments& arguments :
       {Arguments{"compile", "m.onnx", "-o", "notes.txt", "--force"},
        Arguments{"bench", "m.gmod", "--processes", "1", "--repeat", "2", "--warmup", "1", "--json",
                  "notes.txt", "--force"},
        Arguments{"run", "m.gmod", "--random", "--output", "notes.npy", "--force"},
        Arguments{"zoo", "lstm", "-o", "notes.txt", "--size", "2", "--force"},
        Arguments{"keygen", "notes.txt", "--force"}}) {
    expect_done(arguments);
  }
  EXPECT_THAT(contents(path("notes.txt")), ::testing::StartsWith("gantry-psk-v1 "));
  EXPECT_EQ(fs::status(path("notes.txt")).permissions(), fs::perms(0600)) << "a key is for its owner alone";
}

TEST_F(OutputFiles, OutputsOfUnknownEndingsAreRefusedButForStreams) {
  folders_.write("notes.txt", "notes");
  folders_.write("broken.onnx", "this is no model, which is only found once the work begins");
  for (const char* name : {"y.foo", "y", "logits=y.NPY", "notes.txt"})
    expect_refusal({"run", "broken.onnx", "--random", "--output", name, "--force"},
                   "its ending does not say what to write; give .npy (NumPy's array), .npz (");
  const Outcome shown = gantry({"run", "m.gmod", "--random", "--output", "/dev/stdout"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, ::testing::StartsWith("\x93NUMPY"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = contents(path("pipe")); });
  expect_done({"run", "m.gmod", "--random", "--output", "pipe"});
  reader.join();
  EXPECT_THAT(received, ::testing::StartsWith("\x93NUMPY"));
  expect_done({"run", "m.gmod", "--random", "--output", "y.npy"});
  EXPECT_EQ(received, contents(path("y.npy")));
}

TEST_F(OutputFiles, TensorsOfOnnxAreReadAsTheyWereWritten) {
  expect_done({"run", "m.gmod", "--random", "--output", "y.pb"});
  expect_done({"run", "m.gmod", "--random", "--expect", "y.pb", "--tolerance", "0"});
  const Outcome other = gantry({"run", "m.gmod", "--random=5", "--expect", "y.pb", "--tolerance", "0"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.out, HasSubstr("DIFFERS from y.pb"));
}

TEST_F(OutputFiles, ComparisonsAndHistoriesAreNotTakenForResults) {
  expect_done({"bench", "m.gmod", "--processes", "1", "--repeat", "5", "--warmup", "1", "--json", "r.json"});
  fs::copy_file(path("r.json"), path("s.json"));
  for (int day = 0; day < 2; ++day)
    expect_done({"compare", "r.json", "s.json", "--json", "c.json", "--history", "series.jsonl"});
  expect_refusal({"bench", "m.gmod", "--json", "series.jsonl"},
                 "is a history of results, not a result of bench");
  expect_refusal({"bench", "m.gmod", "--json", "c.json"}, "is a comparison");
  expect_refusal({"compare", "r.json", "s.json", "--json", "r.json", "--force"}, "would replace the result");
  expect_refusal({"compare", "r.json", "s.json", "--json", "c.json", "--history", "s.json", "--force"},
                 "would replace the result");
  expect_refusal({"compare", "r.json", "s.json", "--json", "h", "--history", "h"}, "is the same file as");
}

TEST_F(OutputFiles, AKeyIsReplacedOnlyByForce) {
  expect_done({"keygen", "a.key"});
  const std::string key = contents(path("a.key"));
  expect_refusal({"keygen", "a.key"}, "is a key already");
  expect_done({"keygen", "a.key", "--force"});
  EXPECT_NE(contents(path("a.key")), key);
  fs::permissions(path("a.key"), fs::perms(0755));
  expect_done({"keygen", "a.key", "--force"});
  EXPECT_EQ(fs::status(path("a.key")).permissions(), fs::perms(0600));
}

TEST_F(OutputFiles, InputsAreNeverReplacedEvenByForce) {
  expect_done({"run", "m.gmod", "--random", "--output", "x.npy"});
  fs::create_hard_link(path("m.onnx"), path("hard"));
  fs::create_symlink("m.onnx", path("link"));
  fs::create_symlink("m.gmod", path("module"));
  fs::create_directory(path("data"));
  for (const char* name : {"m.onnx", "hard", "link", "data/../m.onnx"})
    expect_refusal({"compile", "m.onnx", "-o", name, "--force"}, "would replace the model m.onnx");
  expect_refusal({"bench", "m.gmod", "--json", "module", "--force"}, "would replace the module");
  expect_refusal({"run", "m.onnx", "--input", "x.npy", "--output", "x.npy"}, "would replace the input");
  expect_done({"run", "m.gmod", "--random", "--output", "all.npz"});
  expect_refusal({"run", "m.onnx", "--input", "all.npz:logits", "--output", "all.npz"},
                 "would replace the input");
  folders_.write("data/input_0.pb", "");
  expect_refusal({"run", "m.onnx", "--input", "data", "--output", "data/input_0.pb"},
                 "would replace the input");
  expect_refusal({"run", "m.gmod", "--random", "--expect", "x.npy", "--output", "x.npy"},
                 "would replace the reference");
  expect_done({"keygen", "key.npy"});
  expect_refusal({"run", "m.onnx", "--random", "--on", "127.0.0.1:1", "--key", "key.npy", "--output",
                  "key.npy", "--force"},
                 "would replace the key");
}

TEST_F(OutputFiles, WhatLeadsToABoardIsNeverReplaced) {
  expect_done({"keygen", "a.key"});
  expect_done({"boards", "add", "pi", "127.0.0.1:1", "--key", "a.key"});
  const fs::path list = folders_.work().parent_path() / "config" / "gantry" / "boards.toml";
  ASSERT_TRUE(fs::exists(list));
  const std::string boards = contents(list);
  for (const Arguments& arguments : {Arguments{"compile", "m.onnx", "--on", "pi", "-o"},
                                     Arguments{"conformance", "tests", "--on", "pi", "--json"}}) {
    Arguments to_key = arguments, to_list = arguments;
    to_key.insert(to_key.end(), {"a.key", "--force"});
    expect_refusal(to_key, "a.key: would replace the key");
    to_list.insert(to_list.end(), {list.string(), "--force"});
    expect_refusal(to_list, "would replace the list of boards");
  }
  expect_refusal({"compile", "m.onnx", "--on", "127.0.0.1:1", "--key", "a.key", "-o", "a.key", "--force"},
                 "-o a.key: would replace the key");
  expect_refusal(
      {"conformance", "tests", "--on", "127.0.0.1:1", "--key", "a.key", "--json", "a.key", "--force"},
      "--json a.key: would replace the key");
  EXPECT_EQ(contents(list), boards);
}

TEST_F(OutputFiles, ExternalDataOfAModelIsAnInput) {
  onnx::ModelProto model;
  const std::string type = "type { tensor_type { elem_type: 1 shape { dim { dim_value: 4 } } } }";
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 8 opset_import { version: 16 } graph { name: 'g' "
      "node { op_type: 'Add' input: 'x' input: 'w' output: 'y' } "
      "input { name: 'x' " +
          type + " } output { name: 'y' " + type +
          " } "
          "initializer { name: 'w' data_type: 1 dims: 4 data_location: EXTERNAL "
          "external_data { key: 'location' value: 'w.data' } } }",
      &model));
  folders_.write("big.onnx", model.SerializeAsString());
  folders_.write("w.data", std::string(16, '\x11'));
  expect_done({"compile", "big.onnx"});
  expect_refusal({"compile", "big.onnx", "-o", "w.data"}, "--force");
  expect_refusal({"compile", "big.onnx", "-o", "w.data", "--force"}, "the model's external data");
  expect_refusal({"bench", "big.onnx", "--json", "w.data", "--force"}, "the model's external data");
}

TEST_F(OutputFiles, UnwritablePathsAreRefusedBeforeTheWork) {
  fs::create_directory(path("folder"));
  folders_.write("broken.onnx", "this is no model, which is only found once the work begins");
  for (const auto& [name, part] : std::vector<std::pair<std::string, std::string>>{
           {"none/out.npy", "there is no folder 'none'; make it"},
           {"folder", "folder: is a folder"},
           {"m.onnx/out", "Not a directory"},
           {"/proc/out.npy", "/proc/out.npy: cannot be created"}}) {
    expect_refusal({"compile", "broken.onnx", "-o", name}, part);
    expect_refusal({"bench", "broken.onnx", "--json", name}, part);
    expect_refusal({"run", "broken.onnx", "--random", "--output", name}, part);
    expect_refusal({"zoo", "resnet152", "-o", name}, part);
    expect_refusal({"keygen", name}, part);
  }
}

TEST_F(OutputFiles, WriteProtectedFilesStay) {
  fs::copy_file(path("m.gmod"), path("out.gmod"));
  fs::permissions(path("out.gmod"), fs::perms(0400));
  if (::access(path("out.gmod").c_str(), W_OK) == 0) GTEST_SKIP() << "root may write any file";
  expect_refusal({"compile", "m.onnx", "-o", "out.gmod"}, "chmod u+w");
}

TEST_F(OutputFiles, LinksStayLinksAndPermissionsStay) {
  fs::copy_file(path("m.gmod"), path("old.gmod"));
  fs::permissions(path("old.gmod"), fs::perms(0640));
  fs::create_symlink("old.gmod", path("link"));
  fs::create_symlink("new.gmod", path("dangling"));
  expect_done({"compile", "m.onnx", "-o", "link"});
  expect_done({"compile", "m.onnx", "-o", "dangling"});
  EXPECT_EQ(fs::read_symlink(path("link")), "old.gmod");
  EXPECT_EQ(fs::read_symlink(path("dangling")), "new.gmod");
  EXPECT_EQ(fs::status(path("old.gmod")).permissions(), fs::perms(0640));
  EXPECT_EQ(contents(path("new.gmod")), contents(path("m.gmod")));
}

TEST_F(OutputFiles, ALinkedListOfBoardsStaysLinked) {
  const fs::path folder = folders_.work().parent_path() / "config" / "gantry";
  fs::create_directories(folder);
  folders_.write("dotfiles.toml", "");
  fs::create_symlink(path("dotfiles.toml"), folder / "boards.toml");
  expect_done({"boards", "add", "pi", "10.0.0.1:7453"});
  EXPECT_TRUE(fs::is_symlink(folder / "boards.toml"));
  EXPECT_THAT(contents(path("dotfiles.toml")), HasSubstr("10.0.0.1:7453"));
}

TEST_F(OutputFiles, PipesAndDevicesAreWrittenToAndStay) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = contents(path("pipe")); });
  expect_done({"compile", "m.onnx", "-o", "pipe"});
  reader.join();
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_EQ(received, contents(path("m.gmod")));
  for (const Arguments& arguments : std::vector<Arguments>{{"compile", "m.onnx", "-o", "/dev/null"},
                                                           {"compile", "m.onnx", "-o", "real.gmod"}}) {
    Arguments with_json = arguments;
    with_json.push_back("--json");
    const Outcome outcome = gantry(with_json);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["bytes"], received.size());
  }
  const Outcome model = gantry({"zoo", "lstm", "--size", "2", "-o", "/dev/null", "--json"});
  ASSERT_EQ(model.code, 0) << model.err;
  EXPECT_EQ(nlohmann::json::parse(model.out)["bytes"], fs::file_size(path("m.onnx")));
  const Outcome shown = gantry(
      {"bench", "m.gmod", "--processes", "1", "--repeat", "2", "--warmup", "1", "--json", "/dev/stdout"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(nlohmann::json::parse(shown.out)["schema"], "gantry-bench") << "without the table";
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(OutputFiles, AFileOnStdoutIsAllThatIsThere) {
  const Outcome module = gantry({"compile", "m.onnx", "-o", "/dev/stdout"});
  EXPECT_EQ(module.code, 0) << module.err;
  EXPECT_EQ(module.out, contents(path("m.gmod")));
  const Outcome page = gantry({"inspect", "m.gmod", "--html", "/dev/stdout"});
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_THAT(page.out, ::testing::EndsWith("</html>\n"));
  const Outcome array = gantry({"run", "m.gmod", "--random", "--output", "/dev/stdout"});
  EXPECT_EQ(array.code, 0) << array.err;
  expect_done({"run", "m.gmod", "--random", "--output", "y.npy"});
  EXPECT_EQ(array.out, contents(path("y.npy")));
  const Outcome key = gantry({"keygen", "/dev/stdout"});
  EXPECT_EQ(key.code, 0) << key.err;
  EXPECT_THAT(key.out, ::testing::MatchesRegex("gantry-psk-v1 [^\n]*\n"));
  folders_.write("g.gir", R"(fn @main(%x: Tensor[(3), f32]) -> Tensor[(3), f32] {
  %0 = add(%x, const(f32, [3], [1, 0, -1]))
  return %0 as "y"
}
)");
  expect_done({"opt", "g.gir", "-o", "out.gir"});
  const Outcome graph = gantry({"opt", "g.gir", "--print-each", "-o", "/dev/stdout"});
  EXPECT_EQ(graph.code, 0) << graph.err;
  EXPECT_EQ(graph.out, contents(path("out.gir")));
}

TEST_F(OutputFiles, AFileOnStdoutHasNoReportBesideIt) {
  for (const Arguments& arguments :
       {Arguments{"compile", "m.onnx", "-o"}, Arguments{"zoo", "lstm", "--size", "2", "-o"},
        Arguments{"run", "m.gmod", "--random", "--output"}}) {
    Arguments with_json = arguments;
    with_json.insert(with_json.end(), {"/dev/stdout", "--json"});
    expect_refusal(with_json, arguments.back() + " /dev/stdout: is stdout, where the report of --json goes");
  }
  expect_refusal({"keygen", "/dev/stdout", "--json"},
                 "/dev/stdout: is stdout, where the report of --json goes");
}

TEST_F(OutputFiles, AFullDeviceIsAnErrorAfterTheTable) {
  expect_refusal({"compile", "m.onnx", "-o", "/dev/full"}, "/dev/full: cannot be written: No space left");
  const Outcome bench = gantry(
      {"bench", "m.gmod", "--processes", "1", "--repeat", "2", "--warmup", "1", "--json", "/dev/full"});
  EXPECT_EQ(bench.code, 1);
  EXPECT_THAT(bench.err, HasSubstr("No space left on device"));
  EXPECT_THAT(bench.out, HasSubstr("median"));
  const Outcome run = gantry({"run", "m.gmod", "--random", "--output", "/dev/full"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("No space left on device"));
  EXPECT_THAT(run.out, HasSubstr("mean"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(OutputFiles, AReaderThatIsGoneEndsTheProgramNotBySignal) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::close(ends[0]);
  for (const Arguments& arguments :
       std::vector<Arguments>{{"targets"}, {"help", "bench"}, {"bench", "--help"}}) {
    const Outcome outcome = folders_.run(arguments, ends[1]);
    EXPECT_EQ(outcome.code, 128 + SIGPIPE) << "signal " << outcome.signal;
    EXPECT_EQ(outcome.err, "");
  }
  ::close(ends[1]);

  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int pid = folders_.start({"zoo", "squeezenet1_1", "-o", "pipe"});
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_CLOEXEC);
  ::close(reader);
  const Outcome written = folders_.wait(pid);
  EXPECT_EQ(written.code, 1) << "signal " << written.signal;
  EXPECT_THAT(written.err, HasSubstr("pipe: cannot be written: Broken pipe"));
}

TEST_F(OutputFiles, EveryCommandThatWritesFilesExplainsForce) {
  for (const char* command : {"compile", "run", "bench", "profile", "compare", "zoo", "keygen"})
    EXPECT_THAT(gantry({command, "--help"}).out, HasSubstr("--force")) << command;
}

}  // namespace
}  // namespace gantry::testing
