// Keys of a server: several users, and what happens when keys come, change and go while it runs.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "rpc/client/client.h"
#include "rpc/security/tls.h"
#include "rpc/server/key_store.h"
#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ServerProcess;

void write_key(const PskKey& key, const fs::path& file) {
  std::ofstream(file) << key_file_text(key);
  fs::permissions(file, fs::perms(0600));
}

/// Puts a key in place of another one as editors and deployments do, at once.
void replace_key(const PskKey& key, const fs::path& file) {
  const fs::path fresh = file.parent_path() / ".fresh";
  write_key(key, fresh);
  fs::rename(fresh, file);
}

/// A folder for keys, and servers that take them from there.
class Keys : public ::testing::Test {
 protected:
  PskKey add(const std::string& name) {
    PskKey key = generate_key(name);
    write_key(key, file(name));
    return key;
  }
  fs::path file(const std::string& name) const { return folder_.path() / (name + ".key"); }
  ServerProcess& start(std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.end(), {"--key", folder_.path().string()});
    return start_as(arguments);
  }
  ServerProcess& start_as(const std::vector<std::string>& arguments) {
    server_.emplace(arguments);
    return *server_;
  }
  std::unique_ptr<BoardClient> connect(const std::optional<PskKey>& key) {
    ConnectOptions options;
    options.address = server_->address();
    options.key = key;
    return BoardClient::connect(options);
  }
  bool can_connect(const std::optional<PskKey>& key) {
    try {
      connect(key)->ping();
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kReconnect) << error.what();
      return false;
    }
  }
  /// What ends the session, which is not busy.
  std::string end_of(BoardClient& client) {
    try {
      for (int i = 0; i < 100; ++i) {
        client.ping();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    } catch (const Error& error) {
      return error.what();
    }
    return "it goes on";
  }
  /// The first line of the log with this text, waiting for it; "" if none comes.
  std::string line_with(const std::string& text) {
    for (int i = 0; i < 100; ++i) {
      std::istringstream log(server_->errors());
      for (std::string line; std::getline(log, line);)
        if (line.find(text) != std::string::npos) return line;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return "";
  }

  testing::TemporaryDirectory folder_, elsewhere_;
  std::optional<ServerProcess> server_;
};

TEST_F(Keys, FilesAndFoldersOfThemAreAllAccepted) {
  const PskKey alice = add("alice"), bob = add("bob"), carol = generate_key("carol");
  write_key(carol, elsewhere_.path() / "carol.key");
  start({"--key", (elsewhere_.path() / "carol.key").string()});
  EXPECT_TRUE(can_connect(alice));
  EXPECT_TRUE(can_connect(bob));
  EXPECT_TRUE(can_connect(carol));
  EXPECT_FALSE(can_connect(generate_key("alice")));
  EXPECT_FALSE(can_connect(std::nullopt));
  EXPECT_THAT(line_with("listens on"), HasSubstr("3 keys: carol, alice, bob"));
}

TEST_F(Keys, TheLogNamesTheKeyThatWasUsed) {
  const PskKey alice = add("alice"), bob = add("bob");
  start();
  connect(bob)->ping();
  EXPECT_THAT(line_with("session started"), HasSubstr(" bob session started"));
  EXPECT_FALSE(can_connect(generate_key("alice")));
  EXPECT_THAT(line_with("authentication failed"), HasSubstr("named 'alice', but not this server's"));
}

TEST_F(Keys, TwoFilesWithOneIdentityAreRefusedByName) {
  add("alice");
  write_key(generate_key("alice"), file("other"));
  const auto [code, text] =
      testing::run_device({"serve", "--listen", "127.0.0.1:0", "--key", folder_.path()});
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, AllOf(HasSubstr(file("alice")), HasSubstr(file("other")), HasSubstr("'alice'")));
}

TEST_F(Keys, BadFilesAreRefusedByNameAtTheStart) {
  add("good");
  const auto refusal = [&] {
    const auto [code, text] =
        testing::run_device({"serve", "--listen", "127.0.0.1:0", "--key", folder_.path()});
    EXPECT_EQ(code, 1) << text;
    return text;
  };
  add("open");
  fs::permissions(file("open"), fs::perms(0644));
  EXPECT_THAT(refusal(), AllOf(HasSubstr(file("open")), HasSubstr("chmod 600")));
  fs::remove(file("open"));
  std::ofstream(file("text")) << "no key\n";
  fs::permissions(file("text"), fs::perms(0600));
  EXPECT_THAT(refusal(), AllOf(HasSubstr(file("text")), HasSubstr("not a gantry key file")));
  fs::remove(file("text"));
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal(), HasSubstr(file("pipe")));
  fs::remove(file("pipe"));
  const auto [code, text] =
      testing::run_device({"serve", "--listen", "127.0.0.1:0", "--key", file("missing").string()});
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, HasSubstr(file("missing")));
}

TEST_F(Keys, AnEmptyFolderServesNobodyAndNotTheNetwork) {
  const auto [code, text] = testing::run_device({"serve", "--listen", "0.0.0.0:0", "--key", folder_.path()});
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, HasSubstr(folder_.path()));
  start();
  EXPECT_FALSE(can_connect(std::nullopt));
  EXPECT_FALSE(can_connect(generate_key("alice")));
  EXPECT_TRUE(can_connect(add("alice"))) << "one that is added is accepted at once";
}

TEST_F(Keys, RemovingAKeyEndsItsSessionsAndNoOthers) {
  const PskKey alice = add("alice"), bob = add("bob");
  start();
  auto of_alice = connect(alice), of_bob = connect(bob);
  fs::remove(file("alice"));
  EXPECT_FALSE(can_connect(alice)) << "from the next handshake on";
  EXPECT_THAT(end_of(*of_alice), HasSubstr("its key was revoked"));
  EXPECT_THAT(line_with("session ended"), AllOf(HasSubstr(" alice "), HasSubstr("its key was revoked")));
  EXPECT_NE(line_with("key 'alice' is revoked"), "");
  EXPECT_GT(of_bob->ping().count(), 0);
  EXPECT_TRUE(can_connect(bob));
}

TEST_F(Keys, RemovingAKeyEndsItsSessionsWhileTheyRunSomething) {
  const PskKey alice = add("alice");
  start();
  auto client = connect(alice);
  const auto module = client->load(
      client->upload(testing::build({.body = "for (;;) __asm__ volatile(\"\");"})), {.threads = 1});
  const std::int64_t shape[] = {4};
  const float values[] = {1, 2, 3, 4};
  client->set_input(module.handle, 0, {}, shape, std::as_bytes(std::span(values)));
  std::thread remover([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    fs::remove(file("alice"));
  });
  try {
    client->run(module.handle);
    ADD_FAILURE() << "the kernel never ends";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("its key was revoked"));
  }
  remover.join();
  for (int i = 0; i < 100 && server_->descendants() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(server_->descendants(), 0u);
}

TEST_F(Keys, ReplacingAKeyRevokesTheOldOne) {
  const PskKey old = add("alice"), fresh = generate_key("alice");
  start();
  auto client = connect(old);
  replace_key(fresh, file("alice"));
  EXPECT_FALSE(can_connect(old));
  EXPECT_THAT(end_of(*client), HasSubstr("its key was revoked"));
  EXPECT_TRUE(can_connect(fresh));
}

TEST_F(Keys, AFileThatIsRenamedOrWrittenAgainIsTheSameKey) {
  const PskKey alice = add("alice");
  start();
  auto client = connect(alice);
  fs::rename(file("alice"), file("alice-2026"));
  EXPECT_TRUE(can_connect(alice));
  replace_key(alice, file("alice-2026"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_GT(client->ping().count(), 0);
}

TEST_F(Keys, BadFilesThatComeLaterAreLeftOutAndReportedOnce) {
  const PskKey alice = add("alice");
  start();
  auto client = connect(alice);
  std::ofstream(file("broken")) << "no key\n";
  fs::permissions(file("broken"), fs::perms(0600));
  write_key(generate_key("alice"), file("again"));
  EXPECT_TRUE(can_connect(alice)) << "which was there first";
  EXPECT_THAT(line_with("not a gantry key file"), AllOf(HasSubstr(" warning "), HasSubstr(file("broken"))));
  EXPECT_THAT(line_with("the same identity"), AllOf(HasSubstr(file("again")), HasSubstr("'alice'")));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_GT(client->ping().count(), 0);
  const std::string log = server_->errors(), text = "not a gantry key file";
  EXPECT_EQ(log.find(text), log.rfind(text));
}

TEST_F(Keys, AnEmptiedFolderLetsNobodyIn) {
  const PskKey alice = add("alice");
  start();
  fs::remove(file("alice"));
  EXPECT_FALSE(can_connect(alice));
  EXPECT_FALSE(can_connect(std::nullopt));
  fs::remove_all(folder_.path());
  EXPECT_FALSE(can_connect(alice));
}

TEST_F(Keys, HangUpReadsThemAgain) {
  if (const int terminal = ::open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY); terminal >= 0) {
    ::close(terminal);
    GTEST_SKIP() << "SIGHUP ends a server that was started in a terminal";
  }
  add("alice");
  start();
  add("bob");
  ::kill(server_->pid(), SIGHUP);
  EXPECT_THAT(line_with("SIGHUP"), HasSubstr("2 keys: alice, bob"));
}

/// What OpenSSL says about a handshake that the server refuses.
std::string refusal_of(std::uint16_t port, const PskKey& key) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const TlsContext context = make_client_context(key);
  SSL* ssl = SSL_new(context.get());
  SSL_set_fd(ssl, fd);
  EXPECT_NE(SSL_connect(ssl), 1);
  std::string text = take_tls_error().what();
  SSL_free(ssl);
  ::close(fd);
  return text;
}

TEST_F(Keys, AStrangersNameIsRefusedAsAWrongKeyIs) {
  add("alice");
  add("bob");
  start();
  EXPECT_EQ(refusal_of(server_->port(), generate_key("stranger")),
            refusal_of(server_->port(), generate_key("alice")));
}

TEST_F(Keys, WantOfDescriptorsRevokesNothing) {
  const PskKey alice = add("alice");
  KeyStore store({folder_.path() / ""});  // as with a slash at its end
  const KeySerial serial = store.keys()->entries().at(0).serial;
  Log log(LogLevel::kError);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{3, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  store.refresh(log);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(store.keys()->hold(serial));
  fs::remove(file("alice"));
  store.refresh(log);
  EXPECT_FALSE(store.keys()->hold(serial));
}

/// Whether the memory of a process holds these bytes.
bool memory_holds(int process, const std::string& bytes) {
  const std::string folder = "/proc/" + std::to_string(process);
  const int memory = ::open((folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_GE(memory, 0);
  std::ifstream maps(folder + "/maps");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t first = 0, last = 0;
    char dash = 0;
    std::string rights;
    std::istringstream(line) >> std::hex >> first >> dash >> last >> rights;
    if (rights.find('w') == std::string::npos) continue;
    std::string content(last - first, '\0');
    const ssize_t size = ::pread(memory, content.data(), content.size(), static_cast<off_t>(first));
    content.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    found = found || content.find(bytes) != std::string::npos;
  }
  ::close(memory);
  return found;
}

TEST_F(Keys, SessionsHoldNoKeyOnceTheirPeerHasAuthenticated) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root sees the memory of a server with keys";
  const PskKey alice = add("alice"), bob = add("bob");
  start();
  auto client = connect(alice);
  for (const bool has_executor : {false, true}) {
    if (has_executor) client->load(client->upload(testing::build({})), {.threads = 1});
    const std::vector<int> processes = server_->processes();
    ASSERT_EQ(processes.size(), has_executor ? 3u : 2u) << "the server, a session, its executor";
    for (const PskKey& key : {alice, bob}) {
      const std::string raw(key.secret.begin(), key.secret.end());
      const std::string text = key_file_text(key), digits = text.substr(text.rfind(' ') + 1, 64);
      EXPECT_TRUE(memory_holds(processes[0], raw)) << "the test finds what is there";
      EXPECT_FALSE(memory_holds(processes[0], digits));
      for (std::size_t i = 1; i < processes.size(); ++i) {
        EXPECT_FALSE(memory_holds(processes[i], raw)) << key.identity << ", process " << i;
        EXPECT_FALSE(memory_holds(processes[i], digits)) << key.identity << ", process " << i;
      }
    }
  }
}

}  // namespace
}  // namespace gantry::rpc
