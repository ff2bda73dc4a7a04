// Peers that say nothing, the wrong thing or too much, and clients with the wrong key.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <thread>

#include "rpc/client/client.h"
#include "rpc/protocol/frame.h"
#include "tests/support/server_process.h"

namespace gantry::rpc {
namespace {

using ::testing::HasSubstr;
using testing::ServerProcess;
using testing::TemporaryDirectory;

class RawPeer {
 public:
  /// `from`: the address that it comes from.
  explicit RawPeer(std::uint16_t port, const char* from = "127.0.0.1")
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &address.sin_addr);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << from;
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawPeer() { ::close(fd_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;
  void send(const void* bytes, std::size_t size) const { (void)::send(fd_, bytes, size, MSG_NOSIGNAL); }
  bool was_closed() const {
    char byte = 0;
    const ssize_t count = ::recv(fd_, &byte, 1, MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN);
  }
  /// What the server sends until it closes; fails the test if it does not within `ms`.
  std::string read_to_end(int ms) const {
    std::string text;
    char buffer[4096];
    for (;;) {
      pollfd waiting{fd_, POLLIN, 0};
      if (::poll(&waiting, 1, ms) <= 0) {
        ADD_FAILURE() << "the server does not close";
        return text;
      }
      const ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
      if (count <= 0) return text;
      text.append(buffer, static_cast<std::size_t>(count));
    }
  }

 private:
  int fd_;
};

std::unique_ptr<BoardClient> connect(const ServerProcess& server, std::optional<PskKey> key = {}) {
  ConnectOptions options;
  options.address = server.address();
  options.key = std::move(key);
  return BoardClient::connect(options);
}

std::string connection_error(const ServerProcess& server, std::optional<PskKey> key, ErrorKind kind) {
  try {
    connect(server, std::move(key));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "connected";
}

void write_key_file(const PskKey& key, const std::filesystem::path& path) {
  std::ofstream(path) << key_file_text(key);
  ::chmod(path.c_str(), 0600);
}

/// A server with a key, and the key.
struct KeyedServer {
  explicit KeyedServer(std::vector<std::string> arguments = {}) : key(generate_key("bench-board")) {
    const auto file = directory.path() / "board.key";
    write_key_file(key, file);
    arguments.insert(arguments.end(), {"--key", file.string()});
    server.emplace(arguments);
  }
  TemporaryDirectory directory;
  PskKey key;
  std::optional<ServerProcess> server;
};

TEST(Security, TheRightKeyOpensASession) {
  KeyedServer keyed;
  EXPECT_GT(connect(*keyed.server, keyed.key)->ping().count(), 0);
}

TEST(Security, AWrongKeyIsRefusedByName) {
  KeyedServer keyed;
  EXPECT_THAT(connection_error(*keyed.server, generate_key("bench-board"), ErrorKind::kReconnect),
              HasSubstr("the board refused the key (identity bench-board)"));
  EXPECT_THAT(connection_error(*keyed.server, generate_key("stranger"), ErrorKind::kReconnect),
              HasSubstr("the board refused the key (identity stranger)"));
  EXPECT_GT(connect(*keyed.server, keyed.key)->ping().count(), 0);
}

TEST(Security, AClientWithoutAKeyIsToldThatOneIsNeeded) {
  KeyedServer keyed;
  EXPECT_THAT(connection_error(*keyed.server, {}, ErrorKind::kReconnect), HasSubstr("key file"));
}

TEST(Security, AClientWithAKeyIsToldThatTheServerHasNone) {
  ServerProcess server;
  EXPECT_THAT(connection_error(server, generate_key(), ErrorKind::kReconnect), HasSubstr("without a key"));
}

TEST(Security, ListeningBeyondLoopbackWithoutAKeyIsRefused) {
  const auto [code, text] = testing::run_device({"serve", "--listen", "0.0.0.0:0"});
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, HasSubstr("--key"));
}

TEST(CommandLine, WhatTheServerDoesNotKnowIsNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "give a command: serve or info"},
      {{"sevre"}, "unknown command 'sevre'; there are serve and info"},
      {{"serve", "--keys", "k.key", "--listen", "127.0.0.1:0"}, "unknown option '--keys'"},
      {{"info", "all"}, "unexpected argument 'all'"},
  };
  for (const auto& [arguments, words] : cases) {
    const auto [code, text] = testing::run_device(arguments);
    EXPECT_EQ(code, 1) << words;
    EXPECT_THAT(text, HasSubstr(words));
  }
}

TEST(Security, KeyFilesRoundTripAndMustBePrivate) {
  TemporaryDirectory directory;
  const auto file = directory.path() / "k";
  const PskKey key = generate_key("a");
  write_key_file(key, file);
  EXPECT_EQ(read_key_file(file).secret, key.secret);
  EXPECT_EQ(read_key_file(file).identity, "a");
  ::chmod(file.c_str(), 0644);
  EXPECT_THROW(read_key_file(file), Error);
  EXPECT_THROW(generate_key("with space"), Error);
}

TEST(HostilePeers, SilentPeerIsDroppedAtItsDeadline) {
  KeyedServer keyed({"--handshake-timeout", "0.3"});
  RawPeer peer(keyed.server->port());
  EXPECT_EQ(peer.read_to_end(2000), "");
}

TEST(HostilePeers, HttpGetsAHintAndIsClosed) {
  ServerProcess server;
  RawPeer peer(server.port());
  const std::string request = "GET / HTTP/1.1\r\nHost: board\r\n\r\n";
  peer.send(request.data(), request.size());
  EXPECT_THAT(peer.read_to_end(2000), HasSubstr("gantry-device"));
}

TEST(HostilePeers, FrameOfTwoGibibytesIsClosed) {
  ServerProcess server;
  RawPeer peer(server.port());
  const FrameHeaderBytes header = encode_header({FrameType::kRequest, 1, 0x80000000u});
  peer.send(header.data(), header.size());
  EXPECT_THAT(peer.read_to_end(2000), HasSubstr("allowed"));
}

TEST(HostilePeers, TwoHundredAtOnceDelayNobodyAndLeaveNothing) {
  KeyedServer keyed({"--handshake-timeout", "1"});
  const ServerProcess& server = *keyed.server;
  connect(server, keyed.key)->ping();
  if (!server.shows_descriptors()) GTEST_SKIP() << "only root sees the descriptors of a server with keys";
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const std::size_t descriptors = server.descriptors(), memory = server.resident_kilobytes();
  {
    std::vector<std::unique_ptr<RawPeer>> peers;
    for (int i = 0; i < 200; ++i) {
      peers.push_back(std::make_unique<RawPeer>(server.port()));
      const unsigned char half_a_hello[] = {0x16, 0x03, 0x01, 0x02, 0x00};
      if (i % 4 == 1) peers.back()->send("GET / HTTP/1.1\r\n", 16);
      if (i % 4 == 2) peers.back()->send(half_a_hello, sizeof half_a_hello);
      if (i % 4 == 3) peers.back()->send(encode_header({FrameType::kRequest, 1, 0x80000000u}).data(), 16);
    }
    EXPECT_GT(connect(server, keyed.key)->ping().count(), 0);
  }
  for (int i = 0; i < 60 && (server.descendants() > 0 || server.descriptors() > descriptors); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(server.descendants(), 0u);
  // The count before may hold one of a session that had just ended.
  EXPECT_LE(server.descriptors(), descriptors);
  EXPECT_LT(server.resident_kilobytes(), memory + 1024);
}

/// Keeps connections open that never authenticate, from several addresses, and makes up for those that the
/// server closes: some say nothing, some begin a handshake, some have one that fails at once.
class Flood {
 public:
  Flood(std::uint16_t port, std::vector<std::string> addresses)
      : port_(port), addresses_(std::move(addresses)), peers_(120 * addresses_.size()) {
    refill();
    thread_ = std::thread([this] {
      while (!ends_) {
        refill();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  }
  ~Flood() {
    ends_ = true;
    thread_.join();
  }

 private:
  void refill() {
    const unsigned char half_a_hello[] = {0x16, 0x03, 0x01, 0x02, 0x00};
    const unsigned char no_hello[] = {0x16, 0x03, 0x01, 0x00, 0x04, 0xff, 0xff, 0xff, 0xff};
    for (std::size_t i = 0; i < peers_.size() && !ends_; ++i) {
      if (peers_[i] && !peers_[i]->was_closed()) continue;
      peers_[i].reset();
      peers_[i] = std::make_unique<RawPeer>(port_, addresses_[i % addresses_.size()].c_str());
      if (i / addresses_.size() % 3 == 1) peers_[i]->send(half_a_hello, sizeof half_a_hello);
      if (i / addresses_.size() % 3 == 2) peers_[i]->send(no_hello, sizeof no_hello);
    }
  }

  std::uint16_t port_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<RawPeer>> peers_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

std::size_t count_lines(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HostilePeers, FloodFromOneAddressKeepsNobodyElseOut) {
  KeyedServer keyed;
  Flood flood(keyed.server->port(), {"127.0.0.2"});
  for (int i = 0; i < 30; ++i)
    ASSERT_GT(connect(*keyed.server, keyed.key)->ping().count(), 0) << "connection " << i;
}

TEST(HostilePeers, FloodFromSeveralAddressesKeepsNobodyElseOut) {
  KeyedServer keyed;
  Flood flood(keyed.server->port(), {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"});
  for (int i = 0; i < 30; ++i)
    ASSERT_GT(connect(*keyed.server, keyed.key)->ping().count(), 0) << "connection " << i;
}

TEST(HostilePeers, FloodStartsFewProcessesAndFillsNoLog) {
  KeyedServer keyed;
  const auto began = std::chrono::steady_clock::now();
  {
    Flood flood(keyed.server->port(), {"127.0.0.2"});
    std::this_thread::sleep_for(std::chrono::seconds(4));
  }
  const std::chrono::duration<double> lasted = std::chrono::steady_clock::now() - began;
  const std::string log = keyed.server->errors();
  // Every process of the flood ends with one of these lines: 8 of an address within a quarter of the 5 s.
  const std::size_t processes = count_lines(log, "it had not authenticated") +
                                count_lines(log, "authentication failed") +
                                count_lines(log, "before its session had started");
  EXPECT_GT(processes, 0u);
  EXPECT_LE(static_cast<double>(processes), 8 * (lasted.count() / 1.25 + 1));
  EXPECT_LE(static_cast<double>(count_lines(log, "connected")), 3 * (100 + 20 * lasted.count()));
}

TEST(Client, AHostThatIsDownIsNamed) {
  ConnectOptions options;
  options.address = "127.0.0.1:1";
  try {
    BoardClient::connect(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.kind()), 2);
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:1"));
  }
  options.address = "no port:x";
  EXPECT_THROW(BoardClient::connect(options), Error);
}

}  // namespace
}  // namespace gantry::rpc
