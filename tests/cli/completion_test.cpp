// Completion at the shells' prompts, and the manual pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "host/support/temporary.h"

namespace gantry::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

/// What a shell command prints on both streams, with its exit code.
std::pair<int, std::string> shell(const std::string& command) {
  FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  std::string text;
  char buffer[4096];
  for (size_t count; (count = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, count);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

bool is_installed(const std::string& program) {
  return shell("command -v " + program).first == 0;
}

class Completion : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() /
        (std::string("gantry_completion_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "config/gantry");
    for (const char* file : {"net.onnx", "net.gmod", "notes.txt"}) std::ofstream(folder_ / file) << "x";
    std::ofstream(folder_ / "config/gantry/boards.toml") << "[pi]\naddress = \"10.0.0.1:7453\"\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// What bash would offer for the last of the words, which are as bash splits a line.
  std::vector<std::string> bash(const std::vector<std::string>& words) const {
    std::string list;
    for (const std::string& word : words) list += " '" + word + "'";
    std::ofstream(folder_ / "try.bash")
        << "source <(" GANTRY_PROGRAM " completion bash)\nCOMP_WORDS=('" << GANTRY_PROGRAM << "'" << list
        << ")\nCOMP_CWORD=" << words.size() << "\n_gantry\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
    const auto [code, text] = shell("cd '" + folder_.string() + "' && XDG_CONFIG_HOME='" + folder_.string() +
                                    "/config' bash try.bash");
    EXPECT_EQ(code, 0) << text;
    std::vector<std::string> result;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      if (!line.empty()) result.push_back(line);
    }
    return result;
  }

  std::filesystem::path folder_;
};

TEST_F(Completion, BashCompletesCommandsAndOptions) {
  EXPECT_THAT(bash({"comp"}), ElementsAre("compile", "compare", "completion"));
  EXPECT_THAT(bash({"boards", "re"}), ElementsAre("remove"));
  EXPECT_THAT(bash({"boards", "d"}), ElementsAre("discover"));
  EXPECT_THAT(bash({"boards", "discover", "--t"}), ElementsAre("--timeout"));
  EXPECT_THAT(bash({"help", "boards", "a"}), ElementsAre("add"));
  EXPECT_THAT(bash({"bench", "--thr"}), ElementsAre("--threads"));
  EXPECT_THAT(bash({"bench", "--qu"}), ElementsAre("--quiet")) << "the program's own options too";
  EXPECT_THAT(bash({"--"}), Not(Contains("--threads")));
}

TEST_F(Completion, BashCompletesChoices) {
  EXPECT_THAT(bash({"run", "--device", ""}), ElementsAre("cpu", "cuda", "cuda-emulated"));
  EXPECT_THAT(bash({"run", "--precision", "bf"}), ElementsAre("bf16"));
  EXPECT_THAT(bash({"run", "--precision", "=", "tf"}), ElementsAre("tf32"));
  EXPECT_THAT(bash({"compile", "--opt", ""}), IsSupersetOf({"0", "1", "2", "3"}));
  EXPECT_THAT(bash({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
}

TEST_F(Completion, BashCompletesNamesOfBoardsTargetsAndNetworks) {
  EXPECT_THAT(bash({"bench", "net.onnx", "--on", ""}), ElementsAre("pi"));
  EXPECT_THAT(bash({"boards", "info", "p"}), ElementsAre("pi"));
  EXPECT_THAT(bash({"compile", "-t", "cortex-a7"}),
              ElementsAre("cortex-a72", "cortex-a76", "cortex-a78", "cortex-a710"));
  // bash has split the word at its colon and replaces what stands behind that.
  EXPECT_THAT(bash({"compile", "--target", "cuda", ":", "sm_86"}), ElementsAre("sm_86"));
  EXPECT_THAT(bash({"zoo", "resnet1"}), Contains("resnet18"));
  EXPECT_THAT(bash({"ir", "net.onnx", "--after", "fuse_o"}), ElementsAre("fuse_ops"));
}

TEST_F(Completion, BashCompletesFilesOfTheRightKind) {
  EXPECT_THAT(bash({"bench", "n"}),
              AllOf(IsSupersetOf({"net.onnx", "net.gmod"}), Not(Contains("notes.txt"))));
  EXPECT_THAT(bash({"run", "net.gmod", "--key", "no"}), ElementsAre("notes.txt"));
}

TEST_F(Completion, ScriptsAreGoodZshAndFish) {
  int checked = 0;
  for (const std::string name : {"zsh", "fish"}) {
    EXPECT_EQ(shell(GANTRY_PROGRAM " completion " + name + " >'" + (folder_ / name).string() + "'").first, 0);
    EXPECT_GT(std::filesystem::file_size(folder_ / name), 100u);
    if (!is_installed(name)) continue;
    ++checked;
    const auto [code, text] = shell(name + " --no-execute '" + (folder_ / name).string() + "'");
    EXPECT_EQ(code, 0) << text;
  }
  if (checked == 0) GTEST_SKIP() << "neither zsh nor fish is installed";
}

TEST(ManualPage, NamesEveryCommandAndOption) {
  const std::string page = shell(GANTRY_PROGRAM " man").second;
  for (const char* part : {".TH GANTRY 1", ".SS \"gantry boards add NAME HOST:PORT\"", "\\-\\-min\\-repeat",
                           "\\fB\\-i\\fR, \\fB\\-\\-input\\fR", "EXIT STATUS"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

/// Every option that --help of gantry-device shows is in its page, which is written by hand.
TEST(ManualPage, OfTheDeviceNamesEveryOption) {
  std::ifstream file(GANTRY_DEVICE_PAGE);
  std::string page{std::istreambuf_iterator<char>(file), {}};
  page = std::regex_replace(page, std::regex(R"(\\-)"), "-");
  for (const char* command : {"--help", "serve --help", "info --help"}) {
    const std::string help = shell(std::string(GANTRY_DEVICE_PROGRAM " ") + command).second;
    const std::regex option("\n  (?:-[a-z],)?(--[a-z][a-z-]*)");
    int options = 0;
    for (std::sregex_iterator each(help.begin(), help.end(), option), end; each != end; ++each, ++options) {
      EXPECT_THAT(page, HasSubstr((*each)[1].str())) << command;
    }
    EXPECT_GT(options, 0) << command;
  }
}

TEST(ManualPage, IsGoodTroff) {
  const TemporaryFolder folder("test");
  const std::string page = (folder.path() / "page.1").string();
  ASSERT_EQ(shell(GANTRY_PROGRAM " man >" + page).first, 0);
  const std::string check = is_installed("mandoc")  ? "mandoc -T lint -W error "
                            : is_installed("groff") ? "groff -man -Tascii -ww -z "
                                                    : "";
  if (check.empty()) GTEST_SKIP() << "neither mandoc nor groff is installed";
  for (const std::string& file : {page, std::string(GANTRY_DEVICE_PAGE)}) {
    const auto [code, text] = shell(check + file);
    EXPECT_EQ(code, 0) << text;
    EXPECT_THAT(text, Not(HasSubstr("error"))) << file;
  }
}

}  // namespace
}  // namespace gantry::cli
