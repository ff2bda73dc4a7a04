// The whole run, with the stand-in for NVIDIA's driver: every section reports, and a cut-off leaves whole
// files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "tests/benchmarks/gpu_programs.h"

namespace gantry::gpu_bundle {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::vector<std::string> kSections = {"machine", "cases", "networks", "tools"};
const std::vector<std::string> kTitles = {"The machine, a first kernel, a fault", "Conformance cases",
                                          "Networks", "compute-sanitizer and ncu"};

/// A bundle of this build's programs.
class Bundle : public ::testing::Test {
 protected:
  void SetUp() override {
    if (packed_cases().lacks_data()) GTEST_SKIP() << packed_cases().outcome.errors;
    ASSERT_TRUE(packed_cases().outcome.ok()) << packed_cases().outcome.why();
    fs::create_directory_symlink(GANTRY_BIN_DIR, folder_.path() / "bin");
    fs::create_symlink(packed_cases().path, folder_.path() / "cases.pack");
    for (const char* script : {"torch_bench.py", "ort_bench.py"})
      fs::create_symlink(fs::path(GANTRY_GPU_SCRIPTS) / script, folder_.path() / script);
  }
  fs::path out() const { return folder_.path() / "out"; }
  std::vector<std::string> command(const std::string& seconds,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {
        program("run"), seconds, "--driver", GANTRY_FAKE_CUDA, "--bundle",
        folder_.path(), "--out", out(),      "--networks",     "squeezenet1_1,lstm"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Json results() const { return Json::parse(contents(out() / "results.json"), nullptr, false); }
  /// Both files are whole, and have something of every section.
  void expect_whole(const std::string& when) const {
    const Json document = results();
    ASSERT_TRUE(document.is_object()) << when << ": " << contents(out() / "results.json");
    ASSERT_EQ(document["sections"].size(), kSections.size()) << when;
    for (size_t i = 0; i < kSections.size(); ++i) EXPECT_EQ(document["sections"][i]["name"], kSections[i]);
    const std::string table = contents(out() / "table.md");
    for (const std::string& title : kTitles) EXPECT_THAT(table, HasSubstr("\n| " + title + " | ")) << when;
    EXPECT_TRUE(table.ends_with("\n")) << when;
  }
  /// What a row says in the field `path`, e.g. "/cuda/result"; "" where there is none.
  static std::string said(const Json& document, size_t section, const std::string& row,
                          const std::string& path) {
    for (const Json& entry : document["sections"][section]["rows"]) {
      if (entry["name"] == row) return entry.value(Json::json_pointer(path), "");
    }
    return "";
  }
  testing::TemporaryDirectory folder_;
};

TEST_F(Bundle, ReportsOfEverySection) {
  const Outcome outcome = run({command("300"), {kLittleMemory}, Seconds(310)});
  ASSERT_TRUE(outcome.ok()) << outcome.output << outcome.why();
  expect_whole("at the end");
  const Json document = results();
  EXPECT_EQ(document["state"], "done");
  EXPECT_EQ(said(document, 0, "what it is", "/result"), "found");
  EXPECT_THAT(said(document, 0, "what it is", "/text"), HasSubstr("Fake GPU 0, sm_80"));
  EXPECT_EQ(said(document, 0, "a first kernel", "/result"), "pass");
  EXPECT_EQ(said(document, 0, "a fault", "/result"), "pass") << document["sections"][0];
  // The stand-in knows none of the compiler's kernels: every case is told so, beside one that passes.
  EXPECT_EQ(said(document, 1, "test_add_bcast", "/cuda/result"), "failed to load") << document["sections"][1];
  EXPECT_EQ(said(document, 1, "test_add_bcast", "/cuda-emulated/result"), "pass");
  EXPECT_EQ(said(document, 2, "peaks", "/result"), "measured") << document["sections"][2];
  EXPECT_EQ(said(document, 2, "squeezenet1_1, batch 1, fp32", "/result"), "failed");
  EXPECT_THAT(said(document, 2, "squeezenet1_1, batch 1, fp32", "/text"), HasSubstr("has no kernel"));
  EXPECT_EQ(document["sections"][3]["state"], "done");
}

TEST_F(Bundle, HasWholeFilesWheneverItIsKilled) {
  std::mt19937 random(1);
  for (int round = 0; round < 6; ++round) {
    const int ms = static_cast<int>(random() % 5000);  // from when there are files
    std::error_code none;
    fs::remove_all(out(), none);
    std::vector<std::string> texts = command("60");
    std::vector<char*> arguments;
    for (std::string& text : texts) arguments.push_back(text.data());
    arguments.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (!::freopen("/dev/null", "w", stdout)) ::_exit(126);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    while (!fs::exists(out() / "table.md") && ::waitpid(pid, nullptr, WNOHANG) == 0) ::usleep(1000);
    ::usleep(static_cast<useconds_t>(ms) * 1000);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    expect_whole("killed after " + std::to_string(ms) + " ms");
    EXPECT_EQ(results()["state"], "running");
    EXPECT_THAT(contents(out() / "table.md"), HasSubstr("not reached: no time left"));
  }
}

TEST_F(Bundle, EndsInTimeAndSaysWhatItDidNotReach) {
  const Outcome outcome = run({command("6"), {}, Seconds(30)});
  EXPECT_TRUE(outcome.ok()) << outcome.output << outcome.why();
  expect_whole("after six seconds");
  EXPECT_LT(outcome.seconds, 25);
  EXPECT_THAT(contents(out() / "table.md"), HasSubstr("not reached: no time left"));
}

TEST_F(Bundle, RunsOnlyTheSectionsThatAreAskedFor) {
  const Outcome outcome = run({command("20", {"--only", "tools"}), {}, Seconds(40)});
  EXPECT_TRUE(outcome.ok()) << outcome.output << outcome.why();
  const Json document = results();
  EXPECT_EQ(document["sections"][1]["state"], "not selected");
  EXPECT_EQ(document["sections"][3]["state"], "done");
}

TEST_F(Bundle, LeavesOutCasesThatPassedInAFormerRun) {
  ASSERT_TRUE(run({command("60", {"--only", "cases"}), {}, Seconds(80)}).ok());
  ASSERT_EQ(said(results(), 1, "test_add_bcast", "/cuda-emulated/result"), "pass");
  const fs::path former = out().parent_path() / "former.json";
  fs::copy_file(out() / "results.json", former);
  const Outcome again =
      run({command("60", {"--only", "cases", "--skip-passed", former.string()}), {}, Seconds(80)});
  EXPECT_TRUE(again.ok()) << again.output << again.why();
  EXPECT_EQ(said(results(), 1, "test_add_bcast", "/cuda/result"), "failed to load");
  EXPECT_EQ(said(results(), 1, "test_add_bcast", "/cuda-emulated/result"), "");
  EXPECT_THAT(contents(out() / "table.md"), HasSubstr("passed in a former run"));
  const fs::path later = out().parent_path() / "later.json";
  fs::copy_file(out() / "results.json", later);
  const Outcome third = run(
      {command("60", {"--only", "cases", "--skip-passed", former.string(), "--skip-passed", later.string()}),
       {},
       Seconds(80)});
  EXPECT_TRUE(third.ok()) << third.output << third.why();
  EXPECT_EQ(said(results(), 1, "test_add_bcast", "/cuda-emulated/result"), "")
      << "of the first run it is known";
  std::ofstream(former) << "[1]";
  const Outcome wrong = run({command("60", {"--skip-passed", former.string()}), {}, Seconds(20)});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.errors, HasSubstr("former.json is no results.json of a run"));
}

TEST_F(Bundle, SaysWhyThereIsNoGpu) {
  const Outcome outcome =
      run({command("20", {"--only", "machine,networks"}), {"FAKE_CUDA_DEVICES=0"}, Seconds(40)});
  EXPECT_TRUE(outcome.ok()) << outcome.output << outcome.why();
  const Json document = results();
  EXPECT_EQ(said(document, 0, "what it is", "/result"), "no GPU");
  EXPECT_EQ(said(document, 0, "a first kernel", "/result"), "failed to load");
  EXPECT_EQ(said(document, 2, "GPU", "/result"), "no GPU");
}

TEST_F(Bundle, RefusesWhatItDoesNotKnow) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--only", "nothing"},
                                               {"--networks", "lstmm"},
                                               {"--driver", "/no/such/file"},
                                               {"--skip-passed", "/no/such/file"},
                                               {"--out"},
                                               {"--unknown", "1"}}) {
    const Outcome outcome = run({command("20", more), {}, Seconds(20)});
    EXPECT_EQ(outcome.code, 1) << more[0];
    EXPECT_THAT(outcome.errors, HasSubstr("usage: run SECONDS"));
  }
}

}  // namespace
}  // namespace gantry::gpu_bundle
