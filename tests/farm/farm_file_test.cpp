// The boards of a gateway.
#include "host/farm/farm_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "host/support/error.h"
#include "tests/support/server_process.h"

namespace gantry::farm {
namespace {

using ::testing::HasSubstr;

class Farm : public ::testing::Test {
 protected:
  std::filesystem::path folder() const { return directory_.path() / "farm"; }
  std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return error.what();
    }
    return "";
  }
  testing::TemporaryDirectory directory_;
};

TEST_F(Farm, IsReadAsItWasWritten) {
  EXPECT_TRUE(FarmFile::read(folder()).boards().empty());
  FarmFile::update(folder(), [](FarmFile& farm) {
    farm.add("pi5-1", {"pi5", "10.1.0.21:7453", "/opt/a/keys", ""});
    farm.add("pi5-2", {"pi5", "10.1.0.22:7453", "/opt/b/keys", "its \"fan\""});
  });
  FarmFile farm = FarmFile::read(folder());
  ASSERT_EQ(farm.boards().size(), 2u);
  EXPECT_EQ(farm.find("pi5-1").address, "10.1.0.21:7453");
  EXPECT_EQ(farm.find("pi5-2").drained, "its \"fan\"");
  EXPECT_EQ(farm.find("pi5-2").keys, "/opt/b/keys");
}

TEST_F(Farm, ItsGroupMayLeaseWhateverTheUmaskOfWhoRegisters) {
  using std::filesystem::perms;
  const std::filesystem::path above = directory_.path() / "gantry", folder = above / "farm";
  const mode_t usual = ::umask(077);
  FarmFile::update(folder / "", [](FarmFile& farm) { farm.add("a", {"pi5", "h:1", "/k", ""}); });
  ::umask(usual);
  const auto of_group = [](const std::filesystem::path& path) {
    return std::filesystem::status(path).permissions() & perms::group_all;
  };
  EXPECT_EQ(of_group(above), perms::group_exec) << "and others': it is of no group's";
  EXPECT_EQ(of_group(folder), perms::group_read | perms::group_exec) << "what is in it can be reached";
  EXPECT_EQ(of_group(folder / "locks"), perms::group_all) << "who leases makes a lock there";
  EXPECT_EQ(of_group(folder / "farm.toml"), perms::group_read);
}

TEST_F(Farm, EveryBoardHasAKeyFolderOfItsOwn) {
  const std::string error = error_of([&] {
    FarmFile::update(folder(), [](FarmFile& farm) {
      farm.add("a", {"pi5", "10.1.0.21:7453", "/opt/keys", ""});
      farm.add("b", {"pi5", "10.1.0.22:7453", "/opt/keys", ""});
    });
  });
  EXPECT_THAT(error, HasSubstr("/opt/keys"));
  EXPECT_TRUE(FarmFile::read(folder()).boards().empty()) << "nothing is half done";
}

TEST_F(Farm, ADrainedBoardThatIsAddedAnewStaysSo) {
  FarmFile::update(folder(), [](FarmFile& farm) { farm.add("a", {"pi5", "h:1", "/k", ""}); });
  FarmFile::update(folder(), [](FarmFile& farm) { farm.find("a").drained = "its fan"; });
  FarmFile::update(folder(), [](FarmFile& farm) { farm.add("a", {"pi5", "h:2", "/k", ""}); });
  FarmFile farm = FarmFile::read(folder());
  EXPECT_EQ(farm.find("a").address, "h:2");
  EXPECT_EQ(farm.find("a").drained, "its fan");
}

TEST_F(Farm, ErrorsNameTheFileTheLineAndTheNearestName) {
  FarmFile::update(folder(), [](FarmFile& farm) { farm.add("pi5-1", {"pi5", "h:1", "/k", ""}); });
  FarmFile farm = FarmFile::read(folder());
  EXPECT_THAT(error_of([&] { farm.find("pi5-11"); }), HasSubstr("did you mean 'pi5-1'?"));
  EXPECT_THAT(error_of([&] { farm.add("../x", {"pi5", "h:1", "/x", ""}); }), HasSubstr("'../x'"));
  std::ofstream(folder() / "farm.toml") << "[a]\ntype = \"x\"\naddress = 3\n";
  EXPECT_THAT(error_of([&] { FarmFile::read(folder()); }), HasSubstr("farm.toml:3:"));
}

TEST_F(Farm, ABoardIsLockedByOneAtATime) {
  FarmFile::update(folder(), [](FarmFile& farm) { farm.add("a", {"pi5", "h:1", "/k", ""}); });
  {
    const auto lock = BoardLock::try_take(folder(), "a");
    EXPECT_TRUE(lock);
    EXPECT_FALSE(BoardLock::try_take(folder(), "a"));
    EXPECT_TRUE(BoardLock::try_take(folder(), "b"));
  }
  EXPECT_TRUE(BoardLock::try_take(folder(), "a"));
}

}  // namespace
}  // namespace gantry::farm
