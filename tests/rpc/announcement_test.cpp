// What the server has announced of it, beside a program that stands for avahi-publish-service and writes down
// what it is given. tests/cli/discover_test.py has the real one.
#include "rpc/server/announcement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "device_runtime/src/cpu_info.h"
#include "gantry/runtime.h"
#include "rpc/client/client.h"
#include "rpc/error.h"
#include "rpc/security/key.h"
#include "tests/support/server_process.h"

namespace gantry::rpc {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ServerProcess;

constexpr char kName[] = "pi \"of\" the lab";

class Announcing : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("PATH", (folder_.path().string() + ":/usr/bin:/bin").c_str(), 1);
    ::setenv("GANTRY_SECRET", "nobody's business", 1);
    ::unsetenv("DBUS_SYSTEM_BUS_ADDRESS");  // which is passed on
    std::ofstream(key_file()) << key_file_text(key_);
    fs::permissions(key_file(), fs::perms(0600));
  }
  fs::path key_file() const { return folder_.path() / "board.key"; }
  /// In place of avahi-publish-service.
  void install(const std::string& script) {
    const fs::path file = folder_.path() / "avahi-publish-service";
    std::ofstream(file) << "#!/bin/sh\ncd '" + folder_.path().string() + "'\n" + script;
    fs::permissions(file, fs::perms(0700));
  }
  void install_one_that_stays() {
    install(R"(printf '%s\n' "$@" >arguments
env >environment
ls -l /proc/$$/fd | sed 's/.*-> //' >descriptors
echo $$ >number.new
mv number.new number
echo "Established under name '$4'"
exec sleep 1000
)");
  }
  std::vector<std::string> lines_of(const std::string& name) const {
    std::ifstream file(folder_.path() / name);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  /// The announcing program, once it runs; -1 where it does not.
  int process() const {
    for (int i = 0; i < 500; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
      if (const auto lines = lines_of("number"); !lines.empty()) return std::stoi(lines[0]);
    return -1;
  }
  std::vector<std::string> serving() const {
    return {"--listen", "0.0.0.0:0", "--key", key_file(), "--announce", kName};
  }
  /// What the log says once it has this text, or never does.
  static std::string log_with(const ServerProcess& server, const std::string& text) {
    for (int i = 0; i < 500 && server.errors().find(text) == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return server.errors();
  }

  testing::TemporaryDirectory folder_;
  PskKey key_ = generate_key("alice");
};

/// Ends with the process.
class Watch {
 public:
  explicit Watch(int process) : handle_(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))) {}
  bool ends_within(std::chrono::milliseconds patience) const {
    pollfd end{handle_.get(), POLLIN, 0};
    return handle_ && ::poll(&end, 1, static_cast<int>(patience.count())) == 1;
  }

 private:
  UniqueFd handle_;
};

TEST_F(Announcing, SaysWhatTheBoardIsAndNothingOfItsKeys) {
  install_one_that_stays();
  ServerProcess server(serving());
  ASSERT_GT(process(), 0);
  EXPECT_THAT(lines_of("arguments"),
              ElementsAre("-f", "-v", "--", kName, "_gantry._tcp", std::to_string(server.port()), "txtvers=1",
                          "protocol=1", "arch=" + runtime::cpu_info().architecture,
                          std::string("version=") + gantry_version(), "key=required", "listen=0.0.0.0"));
  std::vector<std::string> variables = lines_of("environment"), names;
  // The shell adds some of its own.
  for (const std::string& variable : variables)
    if (const std::string name = variable.substr(0, variable.find('='));
        name != "PWD" && name != "OLDPWD" && name != "SHLVL" && name != "_")
      names.push_back(name);
  std::sort(names.begin(), names.end());
  EXPECT_THAT(names, ElementsAre("LC_ALL", "PATH"));
  // Its own streams, and those with which the shell reads the script and writes these files.
  const std::string descriptors = ::testing::PrintToString(lines_of("descriptors"));
  EXPECT_THAT(descriptors, AllOf(HasSubstr("/dev/null"), HasSubstr("pipe:"), Not(HasSubstr("socket:")),
                                 Not(HasSubstr("memfd:")), Not(HasSubstr("gantry-device"))));
  EXPECT_THAT(log_with(server, "Established"),
              HasSubstr("announcing: Established under name 'pi \"of\" the lab'"));
}

TEST_F(Announcing, EndsWithTheServerThatIsAskedToEnd) {
  install_one_that_stays();
  ServerProcess server(serving());
  const Watch program(process());
  EXPECT_FALSE(program.ends_within(std::chrono::milliseconds(50)));
  EXPECT_EQ(server.stop(), 0);
  EXPECT_TRUE(program.ends_within(seconds(10)));
}

TEST_F(Announcing, EndsWithTheServerThatIsKilled) {
  install_one_that_stays();
  ServerProcess server(serving());
  const Watch program(process());
  server.kill();
  EXPECT_TRUE(program.ends_within(seconds(10)));
}

TEST_F(Announcing, ServerServesWithoutTheProgramAndSaysWhatIsMissing) {
  ::setenv("PATH", folder_.path().c_str(), 1);
  ServerProcess server(serving());
  EXPECT_THAT(log_with(server, "avahi"), AllOf(HasSubstr(" error "), HasSubstr("not announced"),
                                               HasSubstr("apt install avahi-daemon avahi-utils")));
  ConnectOptions options;
  options.address = server.address();
  options.key = key_;
  EXPECT_EQ(BoardClient::connect(options)->board_info().version, gantry_version());
}

TEST_F(Announcing, IsOffUnlessAskedFor) {
  install_one_that_stays();
  ServerProcess server({"--key", key_file()});
  ConnectOptions options;
  options.address = server.address();
  options.key = key_;
  BoardClient::connect(options);
  EXPECT_TRUE(lines_of("number").empty());
}

/// Waits until the program says something or ends.
void hear(Announcement& announcement, Announcement::Clock::time_point now) {
  pollfd end{announcement.descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&end, 1, 10'000), 1);
  announcement.read(now);
}

TEST_F(Announcing, ProgramThatEndsIsStartedAgainAfterLongerAndLongerPauses) {
  install("echo started >>starts\necho 'Failed to create client object: Daemon not running'\nexit 1\n");
  Announcement announcement({kName, 7453, {}}, Log(LogLevel::kError));
  auto now = Announcement::Clock::now();
  ::testing::internal::CaptureStderr();
  for (const int pause : {5, 10, 20, 40, 80, 160, 300, 300}) {
    announcement.start_if_due(now);
    EXPECT_FALSE(announcement.start_at());
    while (!announcement.start_at()) hear(announcement, now);
    EXPECT_EQ(*announcement.start_at(), now + seconds(pause));
    announcement.start_if_due(now + seconds(pause - 1));
    EXPECT_EQ(announcement.descriptor(), -1) << "too early";
    now = *announcement.start_at();
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_of("starts").size(), 8u);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << "the same failure is reported once:\n" << log;
  EXPECT_THAT(log, HasSubstr("ended with exit code 1: Failed to create client object: Daemon not running"));
}

TEST_F(Announcing, WhatTheProgramPrintsCannotForgeLinesOfTheLog) {
  install(
      "printf 'a\\033[2Kb\\r2026-11-24T20:14:51.205Z info -\\n'\nhead -c 3000 /dev/zero | tr '\\0' x\nexit "
      "0\n");
  Announcement announcement({kName, 7453, {}}, Log(LogLevel::kInfo));
  const auto now = Announcement::Clock::now();
  ::testing::internal::CaptureStderr();
  announcement.start_if_due(now);
  while (!announcement.start_at()) hear(announcement, now);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      log, AllOf(HasSubstr("announcing: a\\u001b[2Kb\\r2026"), Not(HasSubstr("\x1b")), Not(HasSubstr("\r"))));
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) EXPECT_LT(line.size(), 1400u);
}

TEST(ServiceName, IsTheMachinesWhereNoneIsGiven) {
  utsname system{};
  ::uname(&system);
  EXPECT_EQ(checked_service_name(""), system.nodename);
  EXPECT_EQ(checked_service_name("Müllers Jetson #2"), "Müllers Jetson #2");
  EXPECT_EQ(checked_service_name(std::string(63, 'x')).size(), 63u);
}

TEST(ServiceName, ThatDnsHasNoRoomForIsRefused) {
  for (const std::string& name :
       {std::string(64, 'x'), std::string("a\nb"), std::string("\x1b[2K"), std::string("\xff")})
    EXPECT_THROW(checked_service_name(name), Error) << name.size();
  const auto [code, text] =
      testing::run_device({"serve", "--listen", "127.0.0.1:0", "--announce", std::string(64, 'x')});
  EXPECT_EQ(code, 1) << text;
}

TEST(ServiceName, OfAServerThatNobodyElseCanReachIsRefused) {
  const auto [code, text] = testing::run_device({"serve", "--listen", "127.0.0.1:0", "--announce"});
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, AllOf(HasSubstr("nobody else can connect to 127.0.0.1"), HasSubstr("0.0.0.0:7453")));
}

}  // namespace
}  // namespace gantry::rpc
