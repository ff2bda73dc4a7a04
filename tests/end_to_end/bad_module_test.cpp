// Modules that crash, hang or ask for too much, given to the program with --on: it fails with exit code 2 and
// says what happened in which kernel, and the board serves on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TestModule;

struct Outcome {
  int code = -1;
  std::string output, error;
};

class BadModule : public ::testing::Test {
 protected:
  BadModule() : server_({"--deadline", "2"}) { write("good.gmod", {}); }

  fs::path path(const std::string& name) const { return directory_.path() / name; }
  void write(const std::string& name, const TestModule& module) const {
    const auto bytes = testing::build(module);
    std::ofstream(path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string contents(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Outcome gantry(const std::string& arguments) const {
    const std::string at = directory_.path().string();
    const std::string command = "cd '" + at + "' && XDG_CONFIG_HOME='" + at +
                                "' timeout 60 " GANTRY_PROGRAM " " + arguments + " --on " +
                                server_.address() + " >out 2>err </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents("out"), contents("err")};
  }
  /// Both commands fail with `message`, and a good module runs between and after them.
  template <typename Matcher>
  void expect_failure(const TestModule& module, const Matcher& message) const {
    write("bad.gmod", module);
    for (const char* command : {"run bad.gmod --random", "bench bad.gmod --repeat 3"}) {
      const auto start = std::chrono::steady_clock::now();
      const Outcome bad = gantry(command);
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << command << " hangs";
      EXPECT_EQ(bad.code, 2) << command << "\n" << bad.error;
      EXPECT_THAT(bad.error, AllOf(HasSubstr("gantry: error: "), HasSubstr(server_.address()), message))
          << command;
      const Outcome good = gantry("run good.gmod --random");
      EXPECT_EQ(good.code, 0) << "the board serves on: " << good.error;
    }
  }

  gantry::testing::TemporaryDirectory directory_;
  gantry::testing::ServerProcess server_;
};

TEST_F(BadModule, ThatWritesToAddressZeroIsReportedWithSignalKernelAndNode) {
  expect_failure({.body = "*(volatile int*)0 = 1; return 0;", .kernel_name = "test.crash"},
                 AllOf(HasSubstr("SIGSEGV"), HasSubstr("test.crash"), HasSubstr("Node_7")));
}

TEST_F(BadModule, ThatLoopsForEverIsReportedWithTheServersDeadlineAndTheKernel) {
  expect_failure({.body = "for (;;) __asm__ volatile(\"\");", .kernel_name = "test.endless"},
                 AllOf(HasSubstr("deadline of 2"), HasSubstr("test.endless"), HasSubstr("Node_7")));
}

TEST_F(BadModule, ThatNeedsAHundredGibibytesIsReportedWithTheSize) {
  expect_failure({.workspace_bytes = std::uint64_t{100} << 30}, HasSubstr("100.0 GiB"));
}

TEST_F(BadModule, LeavesABenchmarkOfAnotherProgramAlone) {
  write("bad.gmod", {.body = "*(volatile int*)0 = 1; return 0;"});
  write("endless.gmod", {.body = "for (;;) __asm__ volatile(\"\");"});
  write("large.gmod", {.workspace_bytes = std::uint64_t{100} << 30});
  const std::string at = directory_.path().string();
  // Its requests must end within the server's deadline of 2 s, so it runs again and again.
  const std::string loop = "cd '" + at + "' && export XDG_CONFIG_HOME='" + at +
                           "' && { while [ ! -e stop ]; do " GANTRY_PROGRAM
                           " bench good.gmod --repeat 20 --cooldown-ms 20 --on " +
                           server_.address() +
                           " >>bench.out 2>>bench.err </dev/null || echo failed >>bench.failed; echo "
                           ">>bench.rounds; done; touch stopped; } &";
  ASSERT_EQ(std::system(loop.c_str()), 0);
  for (const char* bad : {"bad.gmod", "endless.gmod", "large.gmod"})
    EXPECT_EQ(gantry(std::string("run --random ") + bad).code, 2) << bad;
  std::ofstream(path("stop")) << "";
  for (int i = 0; i < 600 && !fs::exists(path("stopped")); ++i) EXPECT_EQ(std::system("sleep 0.1"), 0);
  EXPECT_TRUE(fs::exists(path("bench.rounds"))) << "at least one benchmark ran";
  EXPECT_FALSE(fs::exists(path("bench.failed"))) << contents("bench.err");
}

}  // namespace
}  // namespace gantry::cli
