// What avahi-browse prints, as boards. The first lines are what version 0.8 printed of two boards in network
// namespaces; tests/cli/discover_test.py runs it.
#include "host/cli/discovery.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "host/cli/discovery_report.h"
#include "rpc/visible_text.h"

namespace gantry::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kText[] =
    R"("listen=0.0.0.0" "key=required" "version=0.1.0" "arch=aarch64" "protocol=1" "txtvers=1")";

/// The line of an answer on an interface.
std::string answer(const std::string& name, const std::string& interface, const std::string& address,
                   const std::string& text = kText, const std::string& host = "pi.local",
                   const std::string& port = "7453") {
  const char* protocol = address.find(':') == std::string::npos ? "IPv4" : "IPv6";
  return fmt::format("=;{};{};{};_gantry._tcp;local;{};{};{};{}\n", interface, protocol, name, host, address,
                     port, text);
}

std::vector<FoundBoard> boards(const std::string& lines) {
  return parse_browsed(lines).boards;
}

TEST(Discovery, BoardIsWhatAvahiPrints) {
  const auto found = boards(
      "+;v0;IPv6;pi\\032of\\032the\\032lab;_gantry._tcp;local\n"
      "+;v0;IPv4;pi\\032of\\032the\\032lab;_gantry._tcp;local\n"
      "=;v0;IPv4;pi\\032of\\032the\\032lab;_gantry._tcp;local;pi.local;10.9.8.1;7453;" +
      std::string(kText) + "\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "pi of the lab");
  EXPECT_EQ(found[0].host, "pi.local");
  EXPECT_EQ(found[0].port, 7453);
  EXPECT_THAT(found[0].addresses, ElementsAre("10.9.8.1:7453"));
  EXPECT_EQ(found[0].architecture, "aarch64");
  EXPECT_EQ(found[0].version, "0.1.0");
  EXPECT_EQ(found[0].protocol, 1);
  EXPECT_EQ(found[0].needs_key, true);
}

TEST(Discovery, InterfacesAndProtocolsOfOneBoardAreOneRowBestAddressFirst) {
  const std::string text = R"("listen=::")";
  const auto found =
      boards(answer("pi", "lo", "127.0.0.1", text) + answer("pi", "eth0", "fe80::1", text) +
             answer("pi", "eth0", "2001:db8::1", text) + answer("pi", "wlan0", "10.0.0.1", text) +
             answer("pi", "usb0", "169.254.1.1", text) + answer("pi", "wlan1", "10.0.0.1", text));
  ASSERT_EQ(found.size(), 1u);
  // Both of eth0 have one place there: the later answer counts.
  EXPECT_THAT(found[0].addresses,
              ElementsAre("10.0.0.1:7453", "[2001:db8::1]:7453", "169.254.1.1:7453", "127.0.0.1:7453"));
}

TEST(Discovery, LinkLocalAddressOfVersion6NamesItsInterface) {
  const auto found = boards(answer("pi", "eth0.7", "fe80::1", "\"listen=::\""));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].addresses, ElementsAre("[fe80::1%eth0.7]:7453"));
  EXPECT_TRUE(is_address(found[0].addresses[0]));
}

TEST(Discovery, AddressesThatTheBoardDoesNotListenOnAreLeftOutWhileThereAreOthers) {
  const std::string both = answer("pi", "eth0", "2001:db8::1") + answer("pi", "eth1", "10.0.0.2") +
                           answer("pi", "eth2", "10.0.0.3");
  EXPECT_THAT(boards(both)[0].addresses, ElementsAre("10.0.0.2:7453", "10.0.0.3:7453"));
  EXPECT_THAT(boards(answer("pi", "eth0", "2001:db8::1"))[0].addresses, ElementsAre("[2001:db8::1]:7453"));
  const std::string one = R"("listen=10.0.0.3")";
  EXPECT_THAT(
      boards(answer("pi", "eth1", "10.0.0.2", one) + answer("pi", "eth2", "10.0.0.3", one))[0].addresses,
      ElementsAre("10.0.0.3:7453"));
}

TEST(Discovery, BoardIsSettledOnceItIsHeardAtAnAddressAtWhichItAnswers) {
  const std::string there = "+;eth0;IPv4;pi;_gantry._tcp;local\n";
  EXPECT_TRUE(parse_browsed("").settled);
  EXPECT_FALSE(parse_browsed(there).settled);
  EXPECT_FALSE(parse_browsed(there + answer("pi", "eth0", "fe80::1")).settled);
  EXPECT_TRUE(parse_browsed(there + answer("pi", "eth0", "fe80::1") + answer("pi", "eth0", "10.0.0.2")).settled);
  EXPECT_TRUE(parse_browsed(answer("pi", "eth0", "fe80::1", "\"listen=::\"")).settled);
}

TEST(Discovery, TwoMachinesOfOneNameAreTwoBoards) {
  const auto found = boards(answer("pi", "eth0", "10.0.0.1", kText, "pi.local") +
                            answer("pi", "eth1", "10.1.0.1", kText, "raspberry.local"));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(commands_that_add(found, BoardsFile()),
              ElementsAre("gantry boards add pi 10.0.0.1:7453 --key FILE",
                          "gantry boards add pi-2 10.1.0.1:7453 --key FILE"));
}

TEST(Discovery, BoardThatIsGoneMeanwhileIsNotListed) {
  EXPECT_THAT(boards(answer("pi", "eth0", "10.0.0.1") + "-;eth0;IPv4;pi;_gantry._tcp;local\n"), IsEmpty());
}

TEST(Discovery, BoardThatDoesNotAnswerIsListedWithoutAnAddress) {
  const auto found = boards("+;eth0;IPv4;pi;_gantry._tcp;local\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].addresses, IsEmpty());
  EXPECT_THAT(discovery_text(found, BoardsFile(), 0),
              AllOf(HasSubstr("it does not answer"), Not(HasSubstr("boards add"))));
}

TEST(Discovery, LineThatWasCutIsNotRead) {
  const std::string line = answer("pi", "eth0", "10.0.0.1");
  for (size_t length = 0; length + 1 < line.size(); ++length) {
    const Discovery cut = parse_browsed(line.substr(0, length));
    EXPECT_THAT(cut.boards, IsEmpty()) << length;
    EXPECT_EQ(cut.unreadable, 0u);
  }
}

TEST(Discovery, EscapesAreTheBytesThatTheyStandFor) {
  EXPECT_EQ(unescaped(R"(a\032b\.c\\d\195\188\059)"), "a b.c\\d\xc3\xbc;");
  EXPECT_EQ(unescaped(R"(\000\255)"), std::string("\0\xff", 2));
  for (const char* wrong : {"\\", "a\\", "\\0", "\\03", "\\256", "\\999", "\\1a2"})
    EXPECT_EQ(unescaped(wrong), std::nullopt) << wrong;
}

TEST(Discovery, TextRecordsAreReadAsTheyAreQuoted) {
  const auto found = boards(answer(
      "pi", "eth0", "10.0.0.1",
      R"("other;a=\"b\\" "ARCH=x;y \"z\" \195\188" "arch=second" "version" "key=maybe" "protocol=1x")"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].architecture, "x;y \"z\" \xc3\xbc") << "the first one of a key, in any case, counts";
  EXPECT_EQ(found[0].version, "");
  EXPECT_EQ(found[0].needs_key, std::nullopt);
  EXPECT_EQ(found[0].protocol, std::nullopt);
}

TEST(Discovery, WhatIsNoAnnouncementOfOursIsCountedAndLeftOut) {
  for (const std::string& line : {
           std::string("hello\n"),
           std::string(";;;;;;;;;\n"),
           std::string("=;eth0;IPv4\n"),
           answer("pi", "eth0", "10.0.0.256"),
           answer("pi", "eth0", "pi.local"),
           answer("pi", "eth0", ""),
           answer("pi", "eth0", "10.0.0.1", kText, "pi.local", "0"),
           answer("pi", "eth0", "10.0.0.1", kText, "pi.local", "65536"),
           answer("pi", "eth0", "10.0.0.1", kText, "pi.local", "74 53"),
           answer("pi", "eth0", "10.0.0.1", "\"arch"),
           answer("pi", "eth0", "10.0.0.1", "\"arch\\\""),
           answer("pi", "eth0", "10.0.0.1", "arch=x"),
           answer("p\\99", "eth0", "10.0.0.1"),
           answer("", "eth0", "10.0.0.1"),
           answer("pi", "a`b`", "fe80::1"),
           "x" + answer("pi", "eth0", "10.0.0.1"),
       }) {
    const Discovery discovery = parse_browsed(line);
    EXPECT_THAT(discovery.boards, IsEmpty()) << line;
    EXPECT_EQ(discovery.unreadable, 1u) << line;
  }
}

TEST(Discovery, NameOfAnybodysBecomesOneThatAShellTakesAsItStands) {
  EXPECT_EQ(usable_name("pi of the lab", {}), "pi-of-the-lab");
  EXPECT_EQ(usable_name("pi", {"pi", "pi-2"}), "pi-3");
  EXPECT_EQ(usable_name("--key=/etc/shadow", {}), "key-etc-shadow");
  EXPECT_EQ(usable_name("$(reboot); 'x' \"y\" \n`z`", {}), "reboot-x-y-z");
  EXPECT_EQ(usable_name("\xff\x1b\xe2\x80\xae", {}), "board");
  EXPECT_EQ(usable_name("..", {}), "board");
  EXPECT_EQ(usable_name(std::string(500, 'x'), {}).size(), 60u);
}

TEST(Discovery, HostileTextReachesNoTerminalAndNoShell) {
  const auto found =
      boards(answer("\\027[31mred\\059\\$\\(reboot\\)\\010", "eth0", "10.0.0.1",
                    "\"arch=\\027[2J\" \"version=\\226\\128\\174\\255\" \"key=none\"", "h\\027[5m.local"));
  ASSERT_EQ(found.size(), 1u);
  const std::string table = discovery_text(found, BoardsFile(), 0);
  EXPECT_EQ(rpc::visible_text(table, rpc::Lines::kMany), table);
  EXPECT_THAT(table, AllOf(HasSubstr("\\u001b[31mred;$(reboot)\\n"), HasSubstr("\\u001b[2J"),
                           HasSubstr("  gantry boards add 31mred-reboot 10.0.0.1:7453\n")));
}

TEST(Discovery, AnythingAtAllIsSurvivedAndGivesUsableCommands) {
  std::mt19937 random(7);
  const std::string good = answer("p\\032i", "eth0", "10.0.0.1") + answer("pi", "eth1", "fe80::1");
  const std::string pieces = ";\\\"=+-09\n :%.\x1b\xff";
  for (int i = 0; i < 20'000; ++i) {
    std::string lines = good;
    for (int change = 0; change < 6; ++change) {
      const size_t at = random() % lines.size();
      if (random() % 3 == 0)
        lines.erase(at, random() % 8);
      else
        lines.insert(at, 1, pieces[random() % pieces.size()]);
      if (lines.empty()) lines = good;
    }
    const auto found = boards(lines);
    for (const FoundBoard& board : found)
      for (const std::string& address : board.addresses)
        EXPECT_TRUE(is_address(address)) << address << "\n" << lines;
    for (const std::string& command : commands_that_add(found, BoardsFile()))
      EXPECT_EQ(command.find_first_of("\\\"'`$;&|<>()\n\x1b"), std::string::npos) << command;
  }
}

TEST(Discovery, BoardsThatAreNamedAlreadyAreSaidToBe) {
  BoardsFile file;
  file.add("by-address", {"10.0.0.1:7453", {}});
  file.add("by-host", {"pi.local:7453", {}});
  file.add("by-short-host", {"pi:7453", {}});
  file.add("other-port", {"10.0.0.1:7454", {}});
  file.add("other", {"10.0.0.2:7453", {}});
  const auto found = boards(answer("pi", "eth0", "10.0.0.1"));
  EXPECT_THAT(names_of(found[0], file), ElementsAre("by-address", "by-host", "by-short-host"));
  EXPECT_THAT(discovery_text(found, file, 0), Not(HasSubstr("boards add")));
  const auto json = discovery_json(found, file);
  EXPECT_EQ(json[0]["added_as"].size(), 3u);
  EXPECT_EQ(json[0]["addresses"][0], "10.0.0.1:7453");
  EXPECT_EQ(json[0]["needs_key"], true);
  EXPECT_TRUE(json[0]["command"].is_null());
}

TEST(Discovery, NetworkWithoutBoardsSaysHowOneIsAnnounced) {
  EXPECT_THAT(discovery_text({}, BoardsFile(), 0), HasSubstr("gantry-device serve --announce"));
  EXPECT_EQ(discovery_json({}, BoardsFile()).dump(), "[]");
}

}  // namespace
}  // namespace gantry::cli
