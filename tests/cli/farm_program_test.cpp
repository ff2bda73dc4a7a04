// `gantry farm` on a gateway that has no Slurm, or one that knows no such node.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "host/farm/farm_file.h"
#include "tests/cli/gantry_process.h"

namespace gantry::cli {
namespace {

using gantry::testing::GantryFolders;
using gantry::testing::Outcome;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Gateway : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("PATH");
    path_ = path == nullptr ? "" : path;
    ::setenv("GANTRY_FARM", folders_.path("farm").c_str(), 1);
    ::setenv("PATH", folders_.work().c_str(), 1);  // without Slurm's commands
  }
  void TearDown() override {
    ::unsetenv("GANTRY_FARM");
    ::setenv("PATH", path_.c_str(), 1);
  }
  void register_boards() const {
    farm::FarmFile::update(folders_.path("farm"), [](farm::FarmFile& farm) {
      farm.add("pi5-1", {"pi5", "10.1.0.21:7453", "/opt/a/keys", ""});
      farm.add("nano-1", {"nano", "10.1.0.22:7453", "/opt/b/keys", ""});
    });
  }
  std::string drained() const { return farm::FarmFile::read(folders_.path("farm")).find("pi5-1").drained; }

  GantryFolders folders_;
  std::string path_;
};

TEST_F(Gateway, AMistypedBoardIsSaidBesideThoseThatAreRegistered) {
  register_boards();
  for (const char* action : {"drain", "resume"}) {
    const Outcome outcome = folders_.run({"farm", action, "pi5-2"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("no board 'pi5-2' is registered here; did you mean 'pi5-1'?"),
                                   HasSubstr("Registered are nano-1, pi5-1. "),
                                   HasSubstr("`gantry farm register`"), HasSubstr("no program sinfo")));
  }
  EXPECT_THAT(folders_.run({"farm", "drain", "xavier"}).err,
              HasSubstr("no board 'xavier' is registered here. Registered are nano-1, pi5-1. "));
  EXPECT_EQ(drained(), "");
}

TEST_F(Gateway, ARegisteredBoardIsDrainedAndResumedWithoutSlurm) {
  register_boards();
  EXPECT_EQ(folders_.run({"farm", "drain", "pi5-1", "--reason", "its fan"}).code, 0);
  EXPECT_EQ(drained(), "its fan");
  EXPECT_EQ(folders_.run({"farm", "resume", "pi5-1"}).code, 0);
  EXPECT_EQ(drained(), "");
}

TEST_F(Gateway, WithoutBoardsThatIsSaid) {
  EXPECT_THAT(
      folders_.run({"farm", "drain", "pi5-1"}).err,
      HasSubstr("no board is registered here, so none is called 'pi5-1'. `gantry farm register` adds one"));
}

TEST_F(Gateway, ASlurmThatKnowsNoSuchNodeIsSaidBesideThem) {
  register_boards();
  ::setenv("PATH", (folders_.work().string() + ":" + path_).c_str(), 1);
  std::ofstream(folders_.path("sinfo")) << "#!/bin/sh\necho '{\"nodes\": [], \"errors\": []}'\n";
  ASSERT_EQ(::chmod(folders_.path("sinfo").c_str(), 0700), 0);
  const Outcome outcome = folders_.run({"farm", "drain", "pi5-2"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("no board 'pi5-2' is registered here"),
                                 HasSubstr("no node of Slurm"), Not(HasSubstr("cannot be asked"))));
}

}  // namespace
}  // namespace gantry::cli
