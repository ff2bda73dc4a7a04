#include "host/cli/outputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "device_runtime/src/module_format.h"
#include "host/cli/npy.h"
#include "host/support/error.h"
#include "host/support/output_file.h"
#include "tests/cli/outcome.h"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;
using gantry::testing::contents;
using ::testing::HasSubstr;

class PlannedOutputs : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / (std::string("gantry_outputs_") + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  template <typename Action>
  std::string error_of(Action action) const {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return error.what();
    }
    return "none";
  }
  fs::path folder_;
};

std::string module_start() {
  return {reinterpret_cast<const char*>(module_format::kMagic), sizeof module_format::kMagic};
}
/// A ModelProto of ir_version 8, a producer, and a graph that has a name.
std::string small_model(const std::string& producer) {
  return std::string("\x08\x08\x12") + static_cast<char>(producer.size()) + producer + "\x3a\x03\x12\x01g" +
         std::string("\x42\x02\x10\x0d");
}

TEST_F(PlannedOutputs, KindsAreToldByContentNotByName) {
  EXPECT_EQ(kind_of_file(write("a.onnx", module_start() + "rest")), FileKind::kModule);
  EXPECT_EQ(kind_of_file(write("b.gmod", "")), FileKind::kEmpty);
  EXPECT_EQ(kind_of_file(write("c", small_model("pytorch"))), FileKind::kOtherModel);
  EXPECT_EQ(kind_of_file(write("d", small_model("gantry zoo"))), FileKind::kZooModel);
  EXPECT_EQ(kind_of_file(write("e", small_model("gantry zoo") + "\x3a\x7f")), FileKind::kOther)
      << "truncated";
  EXPECT_EQ(kind_of_file(write("f", "gantry-psk-v1 name 00\n")), FileKind::kKey);
  EXPECT_EQ(kind_of_file(write("p", std::string(kReportMarker) + "<html>")), FileKind::kReport);
  EXPECT_EQ(kind_of_file(write("q", "<!DOCTYPE html><html>")), FileKind::kOther);
  EXPECT_EQ(kind_of_file(write("g", R"({"schema": "gantry-bench", "schema_version": 1})")),
            FileKind::kResult);
  EXPECT_EQ(kind_of_file(write("h", R"({"x": [{"schema": "gantry-bench"}], "y": 1.5})")), FileKind::kOther);
  EXPECT_EQ(kind_of_file(write("i", R"({"x": [1, null, true], "schema": "gantry-comparison"})")),
            FileKind::kComparison);
  EXPECT_EQ(kind_of_file(write("o", "{\"schema\":\"gantry-history\",\"schema_version\":1}\n{\"date\":1}\n")),
            FileKind::kHistory);
  EXPECT_EQ(kind_of_file(write("j", R"({"schema": "else"})")), FileKind::kOther);
  EXPECT_EQ(kind_of_file(write("k", R"(["schema", "gantry-bench"])")), FileKind::kOther);
  EXPECT_EQ(kind_of_file(write("l", R"("gantry-bench")")), FileKind::kOther);
  EXPECT_EQ(kind_of_file(write("m.gmod", "notes\n")), FileKind::kOther);
  write_npy(folder_ / "n", {*parse_type_name("f32"), {1}, std::vector<std::byte>(4)});
  EXPECT_EQ(kind_of_file(folder_ / "n"), FileKind::kTensor);
  EXPECT_EQ(kind_of_file(folder_ / "missing"), FileKind::kOther);
}

TEST_F(PlannedOutputs, TheSameKindIsReplacedAndOthersOnlyByForce) {
  const fs::path module = write("m.gmod", module_start()), notes = write("notes.txt", "notes"),
                 empty = write("empty", ""), key = write("a.key", "gantry-psk-v1 a 00\n");
  OutputPlan().writes(module, FileKind::kModule, "-o", false);
  OutputPlan().writes(empty, FileKind::kModule, "-o", false);
  OutputPlan().writes(notes, FileKind::kModule, "-o", true);
  EXPECT_THAT(
      error_of([&] { OutputPlan().writes(notes, FileKind::kModule, "-o", false); }),
      HasSubstr("notes.txt: is there already and is something else, not a module; give another path, or "
                "--force to replace it"));
  EXPECT_THAT(error_of([&] { OutputPlan().writes(module, FileKind::kResult, "--json", false); }),
              HasSubstr("is a module, not a result"));
  EXPECT_THAT(error_of([&] { OutputPlan().writes(key, FileKind::kKey, "", false); }),
              HasSubstr("is a key already"));
  OutputPlan().writes(key, FileKind::kKey, "", true);
  EXPECT_EQ(contents(notes), "notes") << "checking writes nothing";
}

TEST_F(PlannedOutputs, AnInputIsNeverAnOutputByAnyName) {
  const fs::path model = write("m.onnx", small_model("x"));
  fs::create_symlink("m.onnx", folder_ / "link");
  fs::create_hard_link(model, folder_ / "hard");
  fs::create_directory(folder_ / "sub");
  for (const fs::path& name :
       {model, folder_ / "link", folder_ / "hard", folder_ / "sub" / ".." / "m.onnx"}) {
    for (const bool input_first : {true, false}) {
      const std::string error = error_of([&] {
        OutputPlan plan;
        if (input_first) plan.reads(model, "the model");
        plan.writes(name, FileKind::kModule, "-o", /*force=*/true);
        plan.reads(model, "the model");
      });
      EXPECT_THAT(error, HasSubstr("would replace the model " + model.string())) << name;
    }
  }
}

TEST_F(PlannedOutputs, TwoOutputsAreNeverTheSameFile) {
  fs::create_symlink("there-not-yet", folder_ / "link");
  fs::create_directory(folder_ / "sub");
  for (const fs::path& other : {folder_ / "x.npy", folder_ / "sub" / ".." / "x.npy"}) {
    OutputPlan plan;
    plan.writes(folder_ / "x.npy", FileKind::kTensor, "--output", false);
    EXPECT_THAT(error_of([&] { plan.writes(other, FileKind::kTensor, "--output", true); }),
                HasSubstr("is the same file as --output"));
  }
  OutputPlan plan;
  plan.writes(folder_ / "link", FileKind::kTensor, "--output", false);
  EXPECT_THAT(error_of([&] { plan.writes(folder_ / "there-not-yet", FileKind::kTensor, "--output", false); }),
              HasSubstr("is the same file as"));
  plan.writes("/dev/null", FileKind::kTensor, "--output", false);
  plan.writes("/dev/null", FileKind::kTensor, "--output", false);
}

TEST_F(PlannedOutputs, PathsThatCannotBeWrittenAreFoundBeforehand) {
  write("file", "text");
  fs::create_symlink("loop", folder_ / "loop");
  for (const auto& [path, part] :
       std::vector<std::pair<std::string, std::string>>{{"none/m.gmod", "there is no folder '"},
                                                        {".", "is a folder"},
                                                        {"new/", "is a folder"},
                                                        {"file/m.gmod", "Not a directory"},
                                                        {"loop", "symbolic links"},
                                                        {"/proc/m.gmod", "/proc/m.gmod: cannot be created"},
                                                        {std::string(300, 'x'), "too long"}}) {
    EXPECT_THAT(error_of([&, path = path] { check_can_write(folder_ / path); }), HasSubstr(part)) << path;
  }
  EXPECT_THAT(error_of([] { check_can_write(""); }), HasSubstr("is empty"));
  EXPECT_THAT(error_of([] { OutputPlan().writes("-", FileKind::kReport, "-o", true); }),
              HasSubstr("-o -: '-' is no file; /dev/stdout is standard output"));
  EXPECT_EQ(files(), (std::vector<std::string>{"file", "loop"}));
}

TEST_F(PlannedOutputs, StdoutIsForAnOutputOrForTheReport) {
  OutputPlan plan;
  plan.reports("--json");
  EXPECT_EQ(plan.on_stdout(), "");
  EXPECT_THAT(error_of([&] { plan.writes("/dev/stdout", FileKind::kModule, "-o", true); }),
              HasSubstr("-o /dev/stdout: is stdout, where the report of --json goes"));
  OutputPlan other;
  other.writes("/dev/null", FileKind::kModule, "-o", false);
  EXPECT_EQ(other.on_stdout(), "");
  other.writes("/dev/fd/1", FileKind::kTensor, "--output", false);
  EXPECT_EQ(other.on_stdout(), "--output /dev/fd/1");
  EXPECT_THAT(error_of([&] { other.reports("--json"); }), HasSubstr("leave out --json"));
  EXPECT_THAT(error_of([&] { other.writes("/dev/stdout", FileKind::kDecisions, "--decisions-out", false); }),
              HasSubstr("is the same file as --output /dev/fd/1"));
}

TEST_F(PlannedOutputs, FoldersWithoutPermissionAreFoundBeforehand) {
  fs::permissions(folder_, fs::perms(0500));
  if (::access(folder_.c_str(), W_OK) == 0) {
    fs::permissions(folder_, fs::perms(0700));
    GTEST_SKIP() << "root may write anywhere";
  }
  EXPECT_THAT(error_of([&] { check_can_write(folder_ / "m.gmod"); }), HasSubstr("Permission denied"));
  fs::permissions(folder_, fs::perms(0700));
}

TEST_F(PlannedOutputs, AFileAppearsAtCommitAndNotBefore) {
  const fs::path path = write("out", "old");
  {
    OutputFile file(path);
    file.write("new");
    EXPECT_EQ(contents(path), "old");
    EXPECT_EQ(files().size(), 2u);
  }
  EXPECT_EQ(files(), std::vector<std::string>{"out"});
  EXPECT_EQ(contents(path), "old");
  write_file(path, "new");
  EXPECT_EQ(contents(path), "new");
  EXPECT_EQ(files(), std::vector<std::string>{"out"});
}

TEST_F(PlannedOutputs, AFailedRenameLeavesWhatWasThere) {
  const fs::path path = folder_ / "out";
  OutputFile file(path);
  file.write("new");
  fs::create_directories(path / "full");
  EXPECT_THAT(error_of([&] { file.commit(); }), HasSubstr("out: cannot be"));
  EXPECT_TRUE(fs::is_directory(path / "full"));
  EXPECT_EQ(files(), std::vector<std::string>{"out"});
}

TEST_F(PlannedOutputs, LinksStayLinks) {
  write("target", "old");
  fs::create_directory(folder_ / "sub");
  fs::create_symlink("../target", folder_ / "sub" / "link");
  fs::create_symlink("sub/link", folder_ / "chain");
  fs::create_symlink("sub/new", folder_ / "dangling");
  write_file(folder_ / "chain", "new");
  write_file(folder_ / "dangling", "fresh");
  EXPECT_TRUE(fs::is_symlink(folder_ / "chain") && fs::is_symlink(folder_ / "sub" / "link"));
  EXPECT_EQ(contents(folder_ / "target"), "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "dangling"));
  EXPECT_EQ(contents(folder_ / "sub" / "new"), "fresh");
  EXPECT_EQ(files(), (std::vector<std::string>{"chain", "dangling", "sub", "target"}));
}

TEST_F(PlannedOutputs, PermissionsAreKeptAndNewFilesHonourTheUmask) {
  const auto mode_of = [&](const fs::path& path) {
    return static_cast<unsigned>(fs::status(path).permissions());
  };
  const fs::path old = write("old", "old");
  fs::permissions(old, fs::perms(0640));
  const mode_t before = ::umask(027);
  write_file(old, "new");
  write_file(folder_ / "usual", "new");
  write_file(folder_ / "private", "new", OutputFile::Privacy::kPrivate);
  EXPECT_EQ(mode_of(old), 0640u);
  EXPECT_EQ(mode_of(folder_ / "usual"), 0640u);
  EXPECT_EQ(mode_of(folder_ / "private"), 0600u);
  fs::permissions(old, fs::perms(0604));
  write_file(old, "new", OutputFile::Privacy::kPrivate);
  EXPECT_EQ(mode_of(old), 0604u);
  write_file(old, "new", OutputFile::Privacy::kSecret);
  EXPECT_EQ(mode_of(old), 0600u);
  ::umask(before);
}

TEST_F(PlannedOutputs, WhatAKilledProcessLeftIsRemovedByTheNextThatWritesThere) {
  const auto age = [&](const fs::path& path, int minutes) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(minutes));
  };
  age(write("out.partial.1-0000", "left"), 5);
  write("out.partial.1-0001", "young");
  age(write("other.partial.1-0002", "another file's"), 5);
  const TemporaryFile in_use(folder_ / "out", 0600);
  for (const std::string& name : files()) {
    if (name.find("-000") == std::string::npos) age(folder_ / name, 5);
  }
  write_file(folder_ / "out", "new");
  EXPECT_EQ(files().size(), 4u);
  EXPECT_FALSE(fs::exists(folder_ / "out.partial.1-0000"));
}

TEST_F(PlannedOutputs, AllStepsAreTakenAndTheFirstErrorIsTold) {
  int taken = 0;
  EXPECT_THAT(error_of([&] {
                take_all_steps({[&] { ++taken; }, [] { user_error("first"); }, [&] { ++taken; },
                                [] { user_error("second"); }});
              }),
              HasSubstr("first"));
  EXPECT_EQ(taken, 2);
}

}  // namespace
}  // namespace gantry::cli
