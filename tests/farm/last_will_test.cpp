// What is cancelled when a program is killed, by a scancel that only writes down what it was asked for.
#include "host/farm/last_will.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/server_process.h"

namespace gantry::farm {
namespace {

class Will : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path program = folder_.path() / "scancel";
    std::ofstream(program) << "#!/bin/sh\necho \"$*\" > " << asked().string() << ".new\nmv "
                           << asked().string() << ".new " << asked().string() << "\n";
    ASSERT_EQ(::chmod(program.c_str(), 0700), 0);
  }
  std::filesystem::path asked() const { return folder_.path() / "asked"; }

  /// In a process of its own, which is its leader; how that ended.
  int in_child(const std::function<void()>& action) const {
    const pid_t child = ::fork();
    if (child == 0) {
      const char* path = std::getenv("PATH");
      ::setenv("PATH", (folder_.path().string() + ":" + (path == nullptr ? "" : path)).c_str(), 1);
      action();
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
  /// What scancel was asked for, once it was.
  std::string words() const {
    for (int i = 0; i < 3000 && !std::filesystem::exists(asked()); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::ifstream file(asked());
    std::string line;
    std::getline(file, line);
    return line;
  }

  testing::TemporaryDirectory folder_;
};

TEST_F(Will, AKilledProgramsJobsAreCancelled) {
  const int status = in_child([] {
    LastWill will;
    will.set({3});
    will.set({7, 9});
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(words(), "--quiet --name=gantry-lease 7 9");
}

TEST_F(Will, AnInterruptOfTheWholeGroupLeavesItToDoThat) {
  in_child([] {
    if (::setpgid(0, 0) != 0) ::_exit(1);  // whose group it is not would hear it too
    LastWill will;
    will.set({7});
    ::kill(0, SIGTERM);
    ::pause();
  });
  EXPECT_EQ(words(), "--quiet --name=gantry-lease 7");
}

TEST_F(Will, WhoEndsByHimselfCancelsNothing) {
  const int status = in_child([] {
    auto will = std::make_unique<LastWill>();
    will->set({7});
    will.reset();  // waits for the shell
  });
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(std::filesystem::exists(asked()));
}

TEST_F(Will, WhereNothingIsLeftNothingIsCancelled) {
  in_child([] {
    LastWill will;
    will.set({7});
    will.set({});
    ::raise(SIGKILL);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(std::filesystem::exists(asked()));
}

}  // namespace
}  // namespace gantry::farm
