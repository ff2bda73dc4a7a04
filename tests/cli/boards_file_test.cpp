#include "host/cli/boards_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BoardsFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() /
        (std::string("gantry_boards_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    path_ = folder_ / "config" / "boards.toml";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string error_of(const std::string& text) {
    std::filesystem::create_directories(path_.parent_path());
    std::ofstream(path_) << text;
    try {
      BoardsFile::read(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_, path_;
};

TEST_F(BoardsFileTest, WhatIsAddedIsReadBack) {
  BoardsFile::update(path_, [](BoardsFile& boards) {
    EXPECT_TRUE(boards.boards().empty());
    boards.add("pi", {"192.168.1.20:7453", "/keys/pi \"quoted\".key"});
    boards.add("local.box-2", {"[::1]:7000", {}});
    boards.add("set-up",
               {"pi:7453", "/k", {"me@pi", {"Port=2222", "ProxyJump=\"a b\""}, "/opt/gantry-device"}});
  });
  const BoardsFile back = BoardsFile::read(path_);
  EXPECT_EQ(back.boards().size(), 3u);
  EXPECT_EQ(back.find("set-up").ssh,
            (SshAccess{"me@pi", {"Port=2222", "ProxyJump=\"a b\""}, "/opt/gantry-device"}));
  EXPECT_EQ(back.find("pi").ssh, SshAccess());
  EXPECT_EQ(back.find("pi").address, "192.168.1.20:7453");
  EXPECT_EQ(back.find("pi").key, "/keys/pi \"quoted\".key");
  EXPECT_EQ(back.find("local.box-2").address, "[::1]:7000");
}

TEST_F(BoardsFileTest, WhatIsNotUtf8IsRefusedAsTheFileWouldKeepSomethingElse) {
  BoardsFile boards = BoardsFile::read(path_);
  const auto error_of_adding = [&](const std::string& name, BoardEntry entry) -> std::string {
    try {
      boards.add(name, std::move(entry));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of_adding("pi", {"pi:7453", "/keys/caf\xe9.key"}),
              AllOf(HasSubstr("board 'pi'"), HasSubstr("/keys/caf\\xe9.key"), HasSubstr("UTF-8")));
  EXPECT_THAT(error_of_adding("pi", {"caf\xe9:7453", {}}), HasSubstr("HOST:PORT"));
  EXPECT_THAT(error_of_adding("caf\xe9", {"pi:7453", {}}), HasSubstr("use letters"));
  EXPECT_THAT(error_of_adding("pi", {"pi:7453", {}, {"me@caf\xe9", {}, ""}}), HasSubstr("UTF-8"));
  EXPECT_THAT(error_of_adding("pi", {"pi:7453", {}, {"me", {"User=caf\xe9"}, ""}}), HasSubstr("UTF-8"));
  EXPECT_TRUE(boards.boards().empty());
  BoardsFile::update(path_, [](BoardsFile& list) { list.add("pi", {"pi:7453", "/keys/caf\u00e9.key"}); });
  EXPECT_EQ(BoardsFile::read(path_).find("pi").key, "/keys/caf\u00e9.key");
}

TEST_F(BoardsFileTest, OfBoardsAddedAtOnceNoneIsLost) {
  std::vector<std::thread> users;
  for (int i = 0; i < 8; ++i) {
    users.emplace_back([this, i] {
      BoardsFile::update(path_, [i](BoardsFile& boards) {
        boards.add(fmt::format("board-{}", i), {"127.0.0.1:7453", {}});
      });
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(BoardsFile::read(path_).boards().size(), users.size());
}

TEST_F(BoardsFileTest, AnUpdateThatFailsLeavesTheFileAsItWas) {
  BoardsFile::update(path_, [](BoardsFile& boards) { boards.add("pi", {"127.0.0.1:7453", {}}); });
  EXPECT_THROW(BoardsFile::update(path_,
                                  [](BoardsFile& boards) {
                                    boards.remove("pi");
                                    boards.remove("pi");
                                  }),
               Error);
  EXPECT_EQ(BoardsFile::read(path_).boards().size(), 1u);
}

TEST_F(BoardsFileTest, RemovingAnUnknownBoardSuggestsTheNearest) {
  BoardsFile boards = BoardsFile::read(path_);
  boards.add("rockpi", {"10.0.0.1:7453", {}});
  try {
    boards.remove("rokpi");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'rockpi'"));
  }
  boards.remove("rockpi");
  EXPECT_TRUE(boards.boards().empty());
}

TEST_F(BoardsFileTest, MistakesInTheFileAreNamedWithTheirLine) {
  EXPECT_THAT(error_of("[pi\n"), HasSubstr("boards.toml:1"));
  EXPECT_THAT(error_of("\n\npi = 3\n"), HasSubstr("boards.toml:3"));
  EXPECT_THAT(error_of("[pi]\nkey = \"x\"\n"), HasSubstr("no address"));
  EXPECT_THAT(error_of("[pi]\naddress = 7453\n"), HasSubstr("must be a string"));
  EXPECT_THAT(error_of("[pi]\naddress = \"pi\"\n"), HasSubstr("HOST:PORT"));
}

TEST_F(BoardsFileTest, ChoiceIsANameOrAnAddress) {
  BoardsFile boards = BoardsFile::read(path_);
  boards.add("pi", {"10.0.0.1:7453", "/a.key"});
  EXPECT_EQ(resolve_board("pi", "", boards).entry.address, "10.0.0.1:7453");
  EXPECT_EQ(resolve_board("pi", "", boards).entry.key, "/a.key");
  EXPECT_EQ(resolve_board("pi", "/b.key", boards).entry.key, "/b.key");
  EXPECT_EQ(resolve_board("localhost:99", "", boards).entry.address, "localhost:99");
  try {
    resolve_board("pii", "", boards);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'pi'?"));
  }
}

TEST(Address, HostAndPortAreRequired) {
  for (const char* good : {"a:1", "10.0.0.1:7453", "[fe80::1]:65535"}) EXPECT_TRUE(is_address(good)) << good;
  for (const char* bad : {"a", ":1", "a:", "a:0", "a:65536", "a:1x", "fe80::1:3", "a b:1", "[]:1"}) {
    EXPECT_FALSE(is_address(bad)) << bad;
  }
}

TEST(ConfigFolder, FollowsXdg) {
  setenv("XDG_CONFIG_HOME", "/x/y", 1);
  EXPECT_EQ(boards_path(), "/x/y/gantry/boards.toml");
  setenv("XDG_CONFIG_HOME", "relative", 1);  // to be ignored, says the XDG specification
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(boards_path(), "/home/me/.config/gantry/boards.toml");
}

}  // namespace
}  // namespace gantry::cli
