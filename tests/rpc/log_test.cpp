// What the server reports of itself while clients come and go.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "rpc/client/client.h"
#include "rpc/security/key.h"
#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ServerProcess;
using testing::TestModule;

/// A server with a key named "bench-board", and a client of it.
class ServerLog : public ::testing::Test {
 protected:
  ServerLog() {
    const std::filesystem::path file = folder_.path() / "key";
    std::ofstream(file) << key_file_text(key_);
    std::filesystem::permissions(file, std::filesystem::perms(0600));  // others may not read a key
  }

  ServerProcess& start(std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.end(), {"--key", (folder_.path() / "key").string()});
    server_.emplace(arguments);
    return *server_;
  }
  std::unique_ptr<BoardClient> connect(const std::optional<PskKey>& key, const std::string& name = "tester") {
    ConnectOptions options;
    options.address = server_->address();
    options.key = key;
    options.client_name = name;
    return BoardClient::connect(options);
  }
  LoadedModule load(BoardClient& client, const TestModule& module) {
    const LoadedModule loaded = client.load(client.upload(testing::build(module)), {.threads = 1});
    const std::int64_t shape[] = {4};
    const float values[] = {1, 2, 3, 4};
    client.set_input(loaded.handle, 0, {}, shape, std::as_bytes(std::span(values)));
    return loaded;
  }
  /// The first line with this text, waiting for it; "" if none comes.
  std::string line_with(const std::string& text) {
    for (int i = 0; i < 100; ++i) {
      std::istringstream log(server_->errors());
      for (std::string line; std::getline(log, line);) {
        if (line.find(text) != std::string::npos) return line;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return "";
  }

  testing::TemporaryDirectory folder_;
  PskKey key_ = generate_key("bench-board");
  std::optional<ServerProcess> server_;
};

TEST_F(ServerLog, SessionIsReportedFromItsStartToItsEnd) {
  start();
  {
    auto client = connect(key_);
    load(*client, {});
  }
  EXPECT_NE(line_with("session ended"), "");
  const std::string peer = R"(127\.0\.0\.1:\d+ )", time = R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z )";
  for (const auto& [text, pattern] : std::vector<std::pair<std::string, std::string>>{
           {" connected", time + "info " + peer + "- connected"},
           {"session started", time + "info " + peer + "bench-board session started by client 'tester'"},
           {" loaded", time + "info " + peer + R"(bench-board module of \d+ segments for cpu loaded: .*)"},
           {"session ended", time + "info " + peer +
                                 R"(bench-board session ended after \d+\.\d{3} s: the client closed .*)"}}) {
    const std::string line = line_with(text);
    EXPECT_TRUE(std::regex_match(line, std::regex(pattern))) << line;
  }
}

TEST_F(ServerLog, RefusedKeysAreNamed) {
  start();
  EXPECT_THROW(connect(generate_key("stranger")), Error);
  EXPECT_THAT(line_with("authentication failed"),
              AllOf(HasSubstr(" warning 127.0.0.1:"), HasSubstr("'stranger'")));
  EXPECT_THROW(connect(std::nullopt), Error);
  EXPECT_NE(line_with("authentication failed: the peer has no key"), "");
}

TEST_F(ServerLog, CrashIsReportedWithItsKernel) {
  start();
  auto client = connect(key_);
  const LoadedModule module = load(*client, {.body = "*(volatile int*)0 = 1; return 0;"});
  EXPECT_THROW(client->run(module.handle), Error);
  EXPECT_THAT(line_with("executor ended"),
              AllOf(HasSubstr(" warning "), HasSubstr("SIGSEGV"), HasSubstr("test.double")));
}

TEST_F(ServerLog, ForeignTextStaysInItsLine) {
  start();
  connect(key_, "evil\n\x1b[2J2026-01-01T00:00:00.000Z info - - nothing happened");
  EXPECT_THAT(line_with("session started"),
              AllOf(HasSubstr(R"(evil\n\u001b[2J2026)"), Not(HasSubstr("\x1b"))));
}

TEST_F(ServerLog, ShutdownIsReportedAndClientsHearOfIt) {
  start();
  auto client = connect(key_);
  client->ping();
  EXPECT_EQ(server_->stop(), 0);
  EXPECT_NE(line_with("SIGTERM: shutting down; 1 sessions"), "");
  EXPECT_NE(line_with("stopped"), "");
  EXPECT_THAT(line_with("session ended"), HasSubstr("its server is shutting down"));
  try {
    client->ping();
    ADD_FAILURE() << "the server is gone";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kReconnect);
    EXPECT_THAT(error.what(), HasSubstr("its server is shutting down"));
  }
}

TEST_F(ServerLog, RequestThatOutlivesTheGraceIsToldWhy) {
  start({"--shutdown-grace", "0.2"});
  auto client = connect(key_);
  const LoadedModule module = load(*client, {.body = "for (;;) __asm__ volatile(\"\");"});
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_EQ(server_->stop(), 0);
  });
  try {
    client->run(module.handle);
    ADD_FAILURE() << "the kernel never ends";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("its server is shutting down"));
  }
  stopper.join();
}

TEST_F(ServerLog, LevelAndQuietSayLess) {
  start({"--log-level", "warning"});
  connect(key_)->ping();
  EXPECT_THROW(connect(generate_key("stranger")), Error);
  EXPECT_NE(line_with("authentication failed"), "");
  EXPECT_THAT(server_->errors(), Not(HasSubstr(" info ")));
  start({"--quiet"});
  EXPECT_THROW(connect(generate_key("stranger")), Error);
  server_->stop();
  EXPECT_EQ(server_->errors(), "");
}

TEST_F(ServerLog, BoardsAreNamedAsTheUserDoes) {
  ConnectOptions options;
  options.address = "127.0.0.1:1";
  options.label = "pi";
  try {
    BoardClient::connect(options);
    ADD_FAILURE() << "nobody listens there";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("board pi (127.0.0.1:1): "));
  }
}

}  // namespace
}  // namespace gantry::rpc
