// What Slurm's commands are asked, by commands that only write that down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "host/farm/slurm.h"
#include "tests/support/server_process.h"

namespace gantry::farm {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Commands : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("PATH");
    path_ = path == nullptr ? "" : path;
    ::setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
  }
  void TearDown() override { ::setenv("PATH", path_.c_str(), 1); }

  /// A program of that name, which prints `output` and keeps its arguments and standard input.
  void put(const std::string& name, const std::string& output) const {
    const std::filesystem::path program = folder_.path() / name;
    std::ofstream(program) << "#!/bin/sh\nprintf '%s\\n' \"$@\" > " << (folder_.path() / "asked").string()
                           << "\ncat > " << (folder_.path() / "input").string() << "\nprintf '%s' '" << output
                           << "'\n";
    ASSERT_EQ(::chmod(program.c_str(), 0700), 0);
  }
  /// A program of that name that says `words` and fails.
  void put_failing(const std::string& name, const std::string& words) const {
    const std::filesystem::path program = folder_.path() / name;
    std::ofstream(program) << "#!/bin/sh\ncat > /dev/null\nprintf '%s\\n' '" << words << "' >&2\nexit 1\n";
    ASSERT_EQ(::chmod(program.c_str(), 0700), 0);
  }
  std::vector<std::string> asked() const {
    std::ifstream file(folder_.path() / "asked");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  std::string input() const {
    std::ifstream file(folder_.path() / "input");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  testing::TemporaryDirectory folder_;
  std::string path_;
};

TEST_F(Commands, ABoardIsAGenericResource) {
  put("sbatch", "17;cluster\n");
  JobRequest request;
  request.board_type = "pi5";
  request.partition = "lab";
  request.minutes = 90;
  request.script = "#!/bin/sh\ntrue\n";
  SlurmCommands slurm;
  EXPECT_EQ(slurm.submit(request), 17u);
  EXPECT_THAT(asked(), Contains("--gres=board:pi5:1"));
  EXPECT_THAT(asked(), Contains("--partition=lab"));
  EXPECT_THAT(asked(), Contains("--time=90"));
  EXPECT_THAT(asked(), Not(Contains("--exclusive")));
  EXPECT_EQ(input(), request.script);
}

TEST_F(Commands, ACompileHostIsANodeOrAPartOfOne) {
  put("sbatch", "18\n");
  JobRequest request;
  SlurmCommands slurm;
  EXPECT_EQ(slurm.submit(request), 18u);
  EXPECT_THAT(asked(), Contains("--nodes=1"));
  EXPECT_THAT(asked(), Contains("--exclusive"));
  EXPECT_THAT(asked(), Each(Not(StartsWith("--gres"))));
  EXPECT_THAT(asked(), Each(Not(StartsWith("--partition"))));
  request.cpus = 4;
  slurm.submit(request);
  EXPECT_THAT(asked(), Contains("--cpus-per-task=4"));
  EXPECT_THAT(asked(), Not(Contains("--exclusive")));
}

TEST_F(Commands, OnlyALeaseIsCancelled) {
  put("scancel", "");
  SlurmCommands slurm;
  slurm.cancel(17);
  EXPECT_THAT(asked(), ::testing::ElementsAre("--quiet", "--name=gantry-lease", "17"));
}

TEST_F(Commands, ANodesAddressIsSlurms) {
  put("sinfo", "10.0.0.5  \n10.0.0.5  \n");
  SlurmCommands slurm;
  EXPECT_EQ(slurm.address_of("n1"), "10.0.0.5");
  EXPECT_THAT(asked(), Contains("--nodes=n1"));
}

TEST_F(Commands, ANodeThatSlurmDoesNotKnowIsSaid) {
  put("sinfo", "");
  SlurmCommands slurm;
  try {
    slurm.address_of("n2");
    ADD_FAILURE() << "it has an address";
  } catch (const SlurmError& error) {
    EXPECT_FALSE(error.unreachable());
    EXPECT_THAT(error.what(), HasSubstr("n2"));
  }
}

/// What the question throws; none is a failure.
template <typename Question>
SlurmError error_of(const Question& question) {
  try {
    question();
  } catch (const SlurmError& error) {
    return error;
  }
  ADD_FAILURE() << "it is answered";
  return {"", false};
}

template <typename Question>
std::string user_error_of(const Question& question) {
  try {
    question();
  } catch (const SlurmError& error) {
    ADD_FAILURE() << "it would be waited for: " << error.what();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  ADD_FAILURE() << "it is answered";
  return "";
}

TEST_F(Commands, ABoardThatSlurmDoesNotHaveIsAnErrorAtOnceUnlessItHadOne) {
  const std::string refusal =
      "sbatch: error: Batch job submission failed: Requested node configuration is not available";
  JobRequest request;
  request.board_type = "pi6";
  request.partition = "lab";
  SlurmCommands slurm;
  put_failing("sbatch", refusal);
  EXPECT_THAT(user_error_of([&] { slurm.submit(request); }),
              AllOf(StartsWith("Slurm has no board of type pi6 in partition lab: `gantry farm status`"),
                    HasSubstr(refusal)));
  put("sbatch", "17\n");
  slurm.submit(request);
  put_failing("sbatch", refusal);
  EXPECT_FALSE(error_of([&] { slurm.submit(request); }).unreachable());
}

TEST_F(Commands, AControllerThatDoesNotAnswerHasOrHasNotAnsweredBefore) {
  put_failing(
      "sbatch",
      "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)");
  SlurmCommands slurm;
  const SlurmError first = error_of([&] { slurm.submit({}); });
  EXPECT_TRUE(first.unreachable() && first.never_reached());
  EXPECT_THAT(first.what(), HasSubstr("sbatch failed (1): sbatch: error: Batch job"));
  put("squeue", R"({"errors": [{"error": "Unspecified error"}], "jobs": []})");
  EXPECT_TRUE(error_of([&] { slurm.leases(); }).never_reached()) << "it prints a list, and is no answer";
  put("squeue", R"({"errors": [], "jobs": []})");
  EXPECT_TRUE(slurm.leases().empty());
  const SlurmError later = error_of([&] { slurm.submit({}); });
  EXPECT_TRUE(later.unreachable());
  EXPECT_FALSE(later.never_reached());
}

TEST_F(Commands, AControllerThatRefusesHasAnswered) {
  put_failing("sbatch", "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy");
  SlurmCommands slurm;
  EXPECT_FALSE(error_of([&] { slurm.submit({}); }).unreachable());
  put_failing("sbatch", "sbatch: error: Unable to contact slurm controller (connect failure)");
  const SlurmError later = error_of([&] { slurm.submit({}); });
  EXPECT_TRUE(later.unreachable());
  EXPECT_FALSE(later.never_reached());
}

TEST_F(Commands, AMachineWithoutMungedDoesNotReachTheController) {
  put_failing("sbatch", "sbatch: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\"");
  SlurmCommands slurm;
  EXPECT_TRUE(error_of([&] { slurm.submit({}); }).never_reached());
}

TEST_F(Commands, WhatSlurmRefusesIsNotWaitedForAsAControllerIs) {
  put_failing("sbatch", "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy");
  SlurmCommands slurm;
  const SlurmError error = error_of([&] { slurm.submit({}); });
  EXPECT_FALSE(error.unreachable() || error.never_reached());
}

TEST_F(Commands, AMachineWithoutSlurmIsAUserError) {
  SlurmCommands slurm;
  for (const char* words :
       {"sbatch: fatal: Could not establish a configuration source",
        "sbatch: error: s_p_parse_file: cannot stat file /x/slurm.conf: No such file or directory"}) {
    put_failing("sbatch", words);
    const std::string error = user_error_of([&] { slurm.submit({}); });
    EXPECT_THAT(error, HasSubstr("slurm.conf in /etc/slurm, or where $SLURM_CONF says"));
    EXPECT_THAT(error, HasSubstr(words));
  }
  std::filesystem::remove(folder_.path() / "sbatch");
  ::setenv("PATH", folder_.path().c_str(), 1);
  EXPECT_THAT(user_error_of([&] { slurm.submit({}); }),
              HasSubstr("there is no program sbatch in $PATH: farms need Slurm's commands (Debian's package "
                        "slurm-client)"));
}

}  // namespace
}  // namespace gantry::farm
