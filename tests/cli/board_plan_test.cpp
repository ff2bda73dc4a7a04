// From what a board says of itself to what is done to it; the scripts that do it are tried by
// boards_*_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "host/cli/boards/board_facts.h"
#include "host/cli/boards/scripts.h"
#include "host/cli/boards/setup_plan.h"
#include "host/cli/boards/ssh_command.h"
#include "host/support/child_pipes.h"
#include "host/support/temporary.h"
#include "tests/support/message_of.h"

namespace gantry::cli {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using testing::message_if_any;
using testing::message_of;
using ::testing::Not;

BoardFacts facts_of(const std::vector<BoardShell::Answer>& answers) {
  BoardFacts facts;
  for (const BoardShell::Answer& answer : answers) take_fact(facts, answer);
  return facts;
}

BoardFacts a_pi() {
  return facts_of({{"machine", "aarch64"},
                   {"system", "Linux 6.1.21"},
                   {"user", "me"},
                   {"home", "/home/me"},
                   {"rights", "sudo"},
                   {"systemd", "yes"},
                   {"free-system", "9000000"},
                   {"free-user", "9000000"}});
}

SetupRequest request() {
  SetupRequest request;
  request.label = "pi (me@pi)";
  request.name = "pi";
  request.host = "pi.local";
  return request;
}

const DeviceProgram kProgram{"/x/gantry-device", "aarch64", 7 << 20};

TEST(SetupPlan, OfASystemWithSudoIsAServiceOfTheSystem) {
  const SetupPlan plan = plan_setup(a_pi(), request(), kProgram);
  EXPECT_EQ(plan.folder, "/opt/gantry-device");
  EXPECT_EQ(plan.service, Service::kSystemd);
  EXPECT_TRUE(plan.as_root && plan.by_sudo);
  EXPECT_EQ(plan.listen, "0.0.0.0:7453");
  EXPECT_EQ(plan.address, "pi.local:7453");
  EXPECT_THAT(plan_text(plan), AllOf(HasSubstr("/opt/gantry-device, by sudo"), HasSubstr("user gantry")));
}

TEST(SetupPlan, OfAUserIsAServiceOnlyWhereItOutlivesTheSession) {
  BoardFacts facts = a_pi();
  facts.rights = BoardFacts::Rights::kUser;
  EXPECT_EQ(plan_setup(facts, request(), kProgram).service, Service::kBackground);
  facts.user_manager = true;
  const SetupPlan plan = plan_setup(facts, request(), kProgram);
  EXPECT_EQ(plan.service, Service::kUserSystemd);
  EXPECT_EQ(plan.folder, "/home/me/.gantry-device");
  facts.home = "/home/me and you";  // what a unit would have to quote
  EXPECT_EQ(plan_setup(facts, request(), kProgram).service, Service::kBackground);
}

TEST(SetupPlan, WithoutRootIsTheUsersWhateverItsRights) {
  SetupRequest without = request();
  without.without_root = true;
  const SetupPlan plan = plan_setup(a_pi(), without, kProgram);
  EXPECT_FALSE(plan.as_root || plan.by_sudo);
  EXPECT_EQ(plan.folder, "/home/me/.gantry-device");
  BoardFacts of_root = a_pi();
  of_root.rights = BoardFacts::Rights::kRoot;
  EXPECT_THAT(message_of([&] { plan_setup(of_root, without, kProgram); }), HasSubstr("ssh logs in as root"));
}

TEST(SetupPlan, RefusesWhatIsInTheWay) {
  const auto refusal = [](const char* kind, const char* text) {
    BoardFacts facts = a_pi();
    take_fact(facts, {kind, text});
    return message_if_any([&] { plan_setup(facts, request(), kProgram); });
  };
  EXPECT_THAT(refusal("taken", "7453"), AllOf(HasSubstr("pi (me@pi)"), HasSubstr("--port")));
  EXPECT_THAT(refusal("unit", "/lib/systemd/system/gantry-device.service"), HasSubstr("/etc/gantry/keys"));
  EXPECT_THAT(refusal("system-folder", "set-up gantry-device 0.1"),
              HasSubstr("is set up already (gantry-device 0.1"));
  EXPECT_THAT(refusal("system-folder", "busy"), HasSubstr("right now"));
  EXPECT_THAT(refusal("system-folder", "foreign"), HasSubstr("move it away"));
  // The other place is not in the way.
  EXPECT_EQ(refusal("user-folder", "foreign"), "no error");
}

TEST(SetupPlan, RefusesABoardThatLacksRoomOrTools) {
  const auto refusal = [](const char* kind, const char* text) -> std::string {
    BoardFacts facts = a_pi();
    take_fact(facts, {kind, text});
    try {
      plan_setup(facts, request(), kProgram);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBoard);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(refusal("free-system", "60000"),
              AllOf(HasSubstr("58.6 MiB of free room"), HasSubstr("71.0 MiB")));
  EXPECT_THAT(refusal("missing", "sha256sum"), HasSubstr("lacks sha256sum"));
  EXPECT_THAT(refusal("no-user", "gantry"),
              AllOf(HasSubstr("pi (me@pi): lacks a user gantry"), HasSubstr("--no-root")));
}

TEST(SetupPlan, WithoutRootNeedsNobodyWhoMakesUsers) {
  BoardFacts facts = a_pi();
  take_fact(facts, {"no-user", "gantry"});
  SetupRequest without = request();
  without.without_root = true;
  EXPECT_EQ(plan_setup(facts, without, kProgram).folder, "/home/me/.gantry-device");
}

TEST(SetupPlan, TriesABoardThatDoesNotKnowItsRoom) {
  const BoardFacts facts = facts_of({{"machine", "aarch64"}, {"home", "/root"}, {"rights", "root"}});
  EXPECT_EQ(plan_setup(facts, request(), kProgram).folder, "/opt/gantry-device");
}

TEST(BoardFacts, ShowControlCharactersOfABoard) {
  EXPECT_THAT(facts_text(facts_of({{"system", "Linux \x1b[2J"}})), Not(HasSubstr("\x1b")));
}

TEST(HostAndPort, BracketsIpv6Alone) {
  EXPECT_EQ(host_and_port("pi", 1), "pi:1");
  EXPECT_EQ(host_and_port("fe80::1", 7453), "[fe80::1]:7453");
  EXPECT_EQ(host_and_port("[::]", 7453), "[::]:7453");
}

TEST(ServiceUnit, IsThePackagesForAnotherFolder) {
  const std::string unit = unit_text(Service::kSystemd, "/opt/gantry-device");
  EXPECT_THAT(unit, HasSubstr("ExecStart=/opt/gantry-device/gantry-device serve --user gantry --key "
                              "/opt/gantry-device/keys --cache /opt/gantry-device/cache $OPTIONS\n"));
  EXPECT_THAT(unit, HasSubstr("ReadWritePaths=/opt/gantry-device/cache\n"));
  EXPECT_THAT(unit, HasSubstr("ExecReload=+/bin/sh"));
  EXPECT_THAT(unit, Not(HasSubstr("/etc/")));
  // All that the package's takes from the server, this one does.
  for (const char* line : {"ProtectSystem=strict", "CapabilityBoundingSet=", "SystemCallFilter="})
    EXPECT_THAT(unit, HasSubstr(line));
}

TEST(ServiceUnit, OfAUserAsksForNothingThatNeedsRoot) {
  const std::string unit = unit_text(Service::kUserSystemd, "/home/me/.gantry-device");
  EXPECT_THAT(unit, HasSubstr("ExecStart=/home/me/.gantry-device/gantry-device serve --key "));
  EXPECT_THAT(unit, HasSubstr("ExecReload=/bin/sh"));
  EXPECT_THAT(unit, HasSubstr("Restart=on-failure\n"));
  EXPECT_THAT(unit, HasSubstr("WantedBy=default.target\n"));
  for (const char* line :
       {"--user", "CapabilityBoundingSet", "Protect", "Private", "SystemCall", "multi-user"})
    EXPECT_THAT(unit, Not(HasSubstr(line)));
}

class DevicePrograms : public ::testing::Test {
 protected:
  std::filesystem::path program(const std::string& name, unsigned char machine) {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::string header("\177ELF\2\1\1", 7);
    header.resize(64);
    header[16] = 2;  // ET_EXEC
    header[18] = static_cast<char>(machine);
    std::ofstream(path, std::ios::binary) << header;
    return path;
  }
  std::filesystem::path bin() const { return folder_.path() / "build" / "bin"; }

  static constexpr unsigned char kX86 = 62, kArm = 183;
  TemporaryFolder folder_{"device-programs"};
};

TEST_F(DevicePrograms, OfTheInstalledTreeComeFirst) {
  program("build/bin/gantry-device", kX86);
  EXPECT_EQ(find_device_program("pi", "x86_64", "", bin()).path, bin() / "gantry-device");
  const auto installed = program("build/lib/gantry/devices/gantry-device-x86_64", kX86);
  EXPECT_EQ(find_device_program("pi", "x86_64", "", bin()).path, installed);
}

TEST_F(DevicePrograms, AreFoundInBuildFolders) {
  program("build/bin/gantry-device", kX86);
  const auto arm = program("build-aarch64/bin/gantry-device", kArm);
  EXPECT_EQ(find_device_program("pi", "aarch64", "", bin()).path, arm);
}

TEST_F(DevicePrograms, ThatAreMissingAreNamedWithWhereTheyWereLookedFor) {
  program("build/bin/gantry-device", kX86);
  EXPECT_THAT(message_of([&] { find_device_program("pi", "aarch64", "", bin()); }),
              AllOf(HasSubstr("no gantry-device for aarch64"), HasSubstr("bin/gantry-device: is for x86_64"),
                    HasSubstr("devices/gantry-device-aarch64: is not there"), HasSubstr("--device-program")));
}

TEST_F(DevicePrograms, ForOtherMachinesAreRefused) {
  const auto x86 = program("given", kX86);
  EXPECT_THAT(message_of([&] { find_device_program("pi", "aarch64", x86, bin()); }),
              HasSubstr("given: is a program for x86_64, but pi is an aarch64 machine"));
  EXPECT_THAT(message_of([&] { find_device_program("pi", "armv7l", "", bin()); }),
              HasSubstr("of kind 'armv7l'"));
  std::ofstream(folder_.path() / "text") << "#!/bin/sh\n";
  EXPECT_THAT(message_of([&] { read_device_program(folder_.path() / "text"); }),
              HasSubstr("text: is no program"));
}

TEST(SshCommand, GivesTheUsersOptionsAndEndsThemBeforeTheDestination) {
  const std::vector<std::string> words = ssh_words(ssh_access("me@pi", {2222, {"ProxyJump=gw"}}), "true");
  EXPECT_THAT(words, IsSupersetOf({"Port=2222", "ProxyJump=gw", "RemoteCommand=none"}));
  EXPECT_THAT(std::vector(words.end() - 3, words.end()), ElementsAre("--", "me@pi", "true"));
}

TEST(SshCommand, WhatIsGivenLaterComesBeforeWhatWasKept) {
  const SshAccess kept{"me@pi", {"Port=2222", "ProxyJump=gw"}, "/opt/gantry-device"};
  const SshAccess access = ssh_access(kept, {2223, {"ProxyJump=none"}});
  EXPECT_THAT(access.options, ElementsAre("Port=2223", "ProxyJump=none", "Port=2222", "ProxyJump=gw"));
  EXPECT_EQ(access.destination, kept.destination);
  EXPECT_EQ(access.folder, kept.folder);
  EXPECT_EQ(ssh_access(kept, {}).options, kept.options);
  EXPECT_THAT(message_of([&] { ssh_access(kept, {0, {"Port"}}); }), HasSubstr("KEY=VALUE"));
}

TEST(SshCommand, RefusesWhatIsNoDestination) {
  for (const char* wrong : {"-oProxyCommand=x", "me@", "@pi", "", "two words"})
    EXPECT_THAT(message_of([&] { ssh_access(wrong, {}); }), HasSubstr("USER@HOST")) << wrong;
  EXPECT_THAT(message_of([&] { ssh_access("pi", {0, {"Port"}}); }), HasSubstr("KEY=VALUE"));
}

TEST(ChildPipes, SendsMoreThanPipesHoldToAChildThatAnswersAllTheWhile) {
  ChildPipes cat({"cat"}, cleanup::Child::Group::kOwn, "a test");
  const std::string line(1000, 'x');
  std::string all;
  for (int i = 0; i < 1000; ++i) all += line + "\n";
  ASSERT_TRUE(cat.send(all));
  cat.close_input();
  std::string read;
  int lines = 0;
  while (cat.next_line(read, milliseconds(5000)) == ChildPipes::Next::kLine) lines += read == line ? 1 : 0;
  EXPECT_EQ(lines, 1000);
  EXPECT_EQ(cat.finish(milliseconds(5000)), 0);
}

TEST(ChildPipes, TellsOfAChildThatReadsNoMore) {
  ChildPipes child({"sh", "-c", "echo why; echo because >&2; exit 3"}, cleanup::Child::Group::kOwn, "a test");
  child.finish(milliseconds(5000));
  EXPECT_FALSE(child.send(std::string(1 << 20, 'x')));
  EXPECT_EQ(child.finish(milliseconds(5000)), 3);
  EXPECT_EQ(child.words(), "because\n");
}

TEST(ChildPipes, WaitsNoLongerThanAsked) {
  ChildPipes child({"sleep", "60"}, cleanup::Child::Group::kOwn, "a test");
  std::string line;
  EXPECT_EQ(child.next_line(line, milliseconds(50)), ChildPipes::Next::kTimeout);
  EXPECT_EQ(child.finish(milliseconds(10)), 128 + 9);
  EXPECT_THAT(message_of([] { ChildPipes({"no-such-program"}, cleanup::Child::Group::kOwn, "a test"); }),
              HasSubstr("no-such-program"));
}

/// Each script, cut anywhere, does nothing: all of it is functions but for the last line, which begins with
/// reading what does not come any more.
TEST(BoardScripts, ThatAreCutDoNothing) {
  for (const std::string& script : {setup_script(), uninstall_script()}) {
    for (size_t length = 0; length < script.rfind("main"); length += script.size() / 12) {
      ChildPipes shell({"sh", "-s"}, cleanup::Child::Group::kOwn, "a test");
      // In a shell whose every command but its own is missing.
      shell.send("PATH=/nowhere\nset -- setup\n" + script.substr(0, length));
      shell.close_input();
      std::string line;
      EXPECT_EQ(shell.next_line(line, milliseconds(5000)), ChildPipes::Next::kEnd) << line;
      shell.finish(milliseconds(5000));
    }
  }
}

}  // namespace
}  // namespace gantry::cli
