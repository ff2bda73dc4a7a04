// What a server that root starts may do, and what those may who send it modules.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "rpc/client/client.h"
#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ServerProcess;

/// The value of a line of /proc/PID/status: "Uid" -> "0\t0\t0\t0".
std::string status_of(int process, const std::string& name) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
  return "";
}

/// A server with a key of root's in a folder of root's, and a cache of nobody's.
class Rights : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    const passwd* entry = ::getpwnam("nobody");
    if (!entry) GTEST_SKIP() << "this system has no user 'nobody'";
    nobody_ = entry->pw_uid;
    std::ofstream(key_file()) << key_file_text(key_);
    fs::permissions(key_file(), fs::perms(0600));
    fs::permissions(shared_.path(), fs::perms(0755));
    fs::create_directory(cache());
    ASSERT_EQ(::chown(cache().c_str(), entry->pw_uid, entry->pw_gid), 0);
  }
  fs::path key_file() const { return keys_.path() / "board.key"; }
  fs::path cache() const { return shared_.path() / "cache"; }
  void start_as_nobody() {
    server_.emplace(std::vector<std::string>{"--user", "nobody", "--cache", cache(), "--key", key_file()});
  }
  std::unique_ptr<BoardClient> connect() {
    ConnectOptions options;
    options.address = server_->address();
    options.key = key_;
    return BoardClient::connect(options);
  }
  LoadedModule load(BoardClient& client, const std::string& body) {
    const LoadedModule loaded = client.load(client.upload(testing::build({.body = body})), {.threads = 1});
    const std::int64_t shape[] = {4};
    const float values[] = {1, 2, 3, 4};
    client.set_input(loaded.handle, 0, {}, shape, std::as_bytes(std::span(values)));
    return loaded;
  }

  uid_t nobody_ = 0;
  PskKey key_ = generate_key("lab");
  testing::TemporaryDirectory keys_, shared_;
  std::optional<ServerProcess> server_;
};

constexpr char kDouble[] = "for (int i = 0; i < 4; ++i) out[i] = 2 * in[i]; return 0;";

TEST_F(Rights, ServerOfRootGivesUpCapabilitiesAndSaysThatItIsRoot) {
  server_.emplace(std::vector<std::string>{"--key", key_file()});
  auto client = connect();
  client->run(load(*client, kDouble).handle);
  const std::vector<int> processes = server_->processes();
  ASSERT_GE(processes.size(), 3u) << "the server, a session, its executor";
  for (const int process : processes) {
    EXPECT_EQ(status_of(process, "CapEff"), "0000000000000000");
    EXPECT_EQ(status_of(process, "CapInh"), "0000000000000000");
    EXPECT_EQ(status_of(process, "CapBnd"), "0000000000000000");
    EXPECT_EQ(status_of(process, "CapPrm"),
              process == server_->pid() ? "0000000000000004" : "0000000000000000")
        << "the server alone may open key files of others";
  }
  EXPECT_THAT(server_->errors(), AllOf(HasSubstr(" warning "), HasSubstr("runs as root")));
}

TEST_F(Rights, KeysOfOtherUsersAreReadAgainByRoot) {
  ASSERT_EQ(::chown(key_file().c_str(), nobody_, static_cast<gid_t>(-1)), 0);
  server_.emplace(std::vector<std::string>{"--key", key_file()});
  EXPECT_GT(connect()->ping().count(), 0);
  EXPECT_GT(connect()->ping().count(), 0);
}

TEST_F(Rights, UserIsThatOfTheServerAndAllItsChildren) {
  start_as_nobody();
  auto client = connect();
  client->run(load(*client, kDouble).handle);
  const std::vector<int> processes = server_->processes();
  ASSERT_GE(processes.size(), 3u);
  const std::string id = std::to_string(nobody_), all = id + "\t" + id + "\t" + id + "\t" + id;
  for (const int process : processes) {
    EXPECT_EQ(status_of(process, "Uid"), all);
    EXPECT_THAT(status_of(process, "Gid"), Not(HasSubstr("0\t0")));
    EXPECT_EQ(status_of(process, "CapEff"), "0000000000000000");
    EXPECT_EQ(status_of(process, "CapBnd"), "0000000000000000");
  }
  EXPECT_THAT(server_->errors(), Not(HasSubstr("runs as root")));
}

TEST_F(Rights, KeysOfRootAreRevokedUnderAnotherUser) {
  start_as_nobody();
  auto client = connect();
  EXPECT_GT(client->ping().count(), 0);
  fs::remove(key_file());
  EXPECT_THROW(connect(), Error);
  std::string end = "it goes on";
  try {
    for (int i = 0; i < 100; ++i) {
      client->ping();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  } catch (const Error& error) {
    end = error.what();
  }
  EXPECT_THAT(end, HasSubstr("its key was revoked"));
}

TEST_F(Rights, KeysOutOfReachWaitForAnotherStart) {
  if (::access("/usr/bin/setpriv", X_OK) != 0) GTEST_SKIP() << "setpriv is not installed";
  server_.emplace(std::vector<std::string>{"--user", "nobody", "--cache", cache(), "--key", key_file()},
                  std::string("/usr/bin/setpriv --bounding-set=-dac_read_search ") + GANTRY_DEVICE_PROGRAM);
  EXPECT_THAT(server_->errors(), HasSubstr("the server has to be started again"));
  EXPECT_GT(connect()->ping().count(), 0);
  fs::remove(key_file());
  EXPECT_GT(connect()->ping().count(), 0);
}

TEST_F(Rights, UnknownUserIsNamed) {
  const auto [code, text] =
      testing::run_device({"serve", "--listen", "127.0.0.1:0", "--user", "no-such-user"});
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, HasSubstr("'no-such-user'"));
}

TEST_F(Rights, CacheThatTheUserCannotUseIsNamedWithWhatToDo) {
  ASSERT_EQ(::chown(cache().c_str(), 0, 0), 0);
  const auto [code, text] =
      testing::run_device({"serve", "--listen", "127.0.0.1:0", "--user", "nobody", "--cache", cache()});
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, AllOf(HasSubstr(cache()), HasSubstr("install -d -m 700 -o nobody " + cache().string())));
}

TEST_F(Rights, KeyThatModulesCanReadIsReported) {
  ASSERT_EQ(::chown(key_file().c_str(), nobody_, static_cast<gid_t>(-1)), 0);
  start_as_nobody();
  EXPECT_THAT(server_->errors(), HasSubstr("chown root " + key_file().string()));
}

TEST_F(Rights, ModulesCannotReadTheKeyFile) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the kernel of this test makes a system call of x86-64";
#endif
  start_as_nobody();
  auto client = connect();
  const LoadedModule module = load(*client,
                                   "long result; __asm__ volatile(\"syscall\" : \"=a\"(result) : "
                                   "\"a\"(2L), \"D\"(\"" +
                                       key_file().string() +
                                       "\"), \"S\"(0L), \"d\"(0L) : \"rcx\", \"r11\", \"memory\"); "
                                       "out[0] = (float)result; return 0;");
  client->run(module.handle);
  float result = 0;
  std::memcpy(&result, client->get_output(module.handle, 0).bytes.data(), sizeof result);
  EXPECT_LT(result, 0) << "it opened the key file";
}

TEST_F(Rights, OtherProcessesOfItsUserCannotReadItsMemory) {
  if (::access("/usr/bin/setpriv", X_OK) != 0) GTEST_SKIP() << "setpriv is not installed";
  // A server that a user starts itself: what becomes another user's process is hidden by that alone.
  fs::permissions(keys_.path(), fs::perms(0755));
  ASSERT_EQ(::chown(key_file().c_str(), nobody_, static_cast<gid_t>(-1)), 0);
  const std::string id = std::to_string(nobody_);
  server_.emplace(
      std::vector<std::string>{"--cache", cache(), "--key", key_file()},
      "/usr/bin/setpriv --reuid=" + id + " --regid=" + id + " --clear-groups " + GANTRY_DEVICE_PROGRAM);
  auto client = connect();
  client->ping();
  const std::vector<int> processes = server_->processes();
  ASSERT_EQ(processes.size(), 2u) << "the server and a session";
  for (const int process : processes) {
    const std::string path = "/proc/" + std::to_string(process) + "/mem";
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setresgid(nobody_, nobody_, nobody_) != 0 || ::setresuid(nobody_, nobody_, nobody_) != 0)
        ::_exit(100);
      ::_exit(::open(path.c_str(), O_RDONLY) < 0 ? errno : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == EACCES) << path << ": " << status;
  }
}

TEST_F(Rights, CommandLineDoesNotTellWhereTheKeysAre) {
  const fs::path other = keys_.path() / "other.key";
  std::ofstream(other) << key_file_text(generate_key("other"));
  fs::permissions(other, fs::perms(0600));
  server_.emplace(std::vector<std::string>{"--key", key_file(), "--key=" + other.string()});
  auto client = connect();
  client->run(load(*client, kDouble).handle);
  for (const int process : server_->processes()) {
    for (const char* name : {"cmdline", "environ"}) {
      std::ifstream file("/proc/" + std::to_string(process) + "/" + name);
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      EXPECT_THAT(text, Not(HasSubstr(keys_.path()))) << name;
    }
  }
}

}  // namespace
}  // namespace gantry::rpc
