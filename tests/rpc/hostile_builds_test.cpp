// Peers of a compile host that have the key and send what no tuner does, or have none.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/use_future.hpp>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "rpc/protocol/stream.h"
#include "rpc/security/tls.h"
#include "tests/rpc/played_builds.h"

namespace gantry::rpc {
namespace {

using ::testing::HasSubstr;
using HostileTuners = PlayedBuilds;

/// Holds the key, and sends what it likes.
class RawTuner {
 public:
  RawTuner(std::uint16_t port, const PskKey& key) : tls_(make_client_context(key)) {
    asio::ip::tcp::socket socket(io_);
    socket.connect({asio::ip::address_v4::loopback(), port});
    auto stream = std::make_unique<TlsStream>(std::move(socket), tls_.get(), TlsStream::Role::kClient);
    TlsStream& opened = *stream;
    run(opened.handshake());
    stream_ = std::move(stream);
  }
  ~RawTuner() { stream_->close(); }

  void send(const Bytes& bytes) { run(stream_->write(asio::buffer(bytes), false)); }
  /// Everything until the other side closes.
  std::string rest() {
    std::string all;
    char buffer[4096];
    for (;;) {
      std::size_t count = 0;
      try {
        count = run(stream_->read_some(asio::buffer(buffer)));
      } catch (const std::exception&) {
      }
      if (count == 0) return all;
      all.append(buffer, count);
    }
  }

 private:
  template <typename T>
  T run(asio::awaitable<T> task) {
    std::future<T> result = asio::co_spawn(io_, std::move(task), asio::use_future);
    io_.restart();
    io_.run();
    return result.get();
  }

  asio::io_context io_;
  TlsContext tls_;
  std::unique_ptr<TlsStream> stream_;
};

Bytes hello(const std::string& generator = "7-abc") {
  build_wire::HelloT body;
  body.version = kBuildProtocolVersion;
  body.generator = generator;
  return encode_build_request(1, with_body<build_wire::RequestT>(std::move(body)));
}
Bytes build_of(std::uint64_t size) {
  build_wire::BuildT body;
  body.size = size;
  return encode_build_request(2, with_body<build_wire::RequestT>(std::move(body)));
}
Bytes with(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}
Bytes frame(FrameType type, const Bytes& payload, std::uint32_t id = 2) {
  const FrameHeaderBytes header = encode_header({type, id, static_cast<std::uint32_t>(payload.size())});
  return with(Bytes(header.begin(), header.end()), payload);
}

TEST_F(HostileTuners, WhatIsNoMessageEndsTheConnectionAndNothingElse) {
  build_wire::PutModelT long_text;
  long_text.text_size = kMaxBuildText + 1;
  const Bytes model = encode_build_request(2, with_body<build_wire::RequestT>(std::move(long_text)));
  const struct {
    Bytes sent;
    const char* said;
  } cases[] = {
      {build_of(0), "greeting"},
      {with(hello(), hello()), "greeting"},
      {with(hello(), Bytes(64, 0x41)), ""},
      {with(hello(), frame(FrameType::kRequest, Bytes(40, 0x41))), "verify"},
      {with(hello(), frame(FrameType::kRequest, {})), "verify"},
      {with(hello(), frame(FrameType::kData, Bytes(8, 0))), "no request"},
      {with(hello(), frame(FrameType::kResponse, Bytes(8, 0))), "no request"},
      {with(hello(), build_of(kMaxBuildText + 1)), "impossible size"},
      {with(hello(), model), "impossible size"},
      // Data of another request, and more than was announced.
      {with(hello(), with(build_of(8), frame(FrameType::kData, Bytes(8, 0), 3))), "something else came"},
      {with(hello(), with(build_of(8), frame(FrameType::kData, Bytes(9, 0)))), "something else came"},
      {with(hello(), with(build_of(8), build_of(0))), "something else came"},
      {hello("\x1b[1m"), "7-abc"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.said);
    RawTuner tuner(server_->port(), key_);
    tuner.send(one.sent);
    EXPECT_THAT(tuner.rest(), HasSubstr(one.said));
  }
  EXPECT_EQ(handler_.builds_, 0);
  EXPECT_EQ(handler_.models_, 0);
  expect_service();
}

TEST_F(HostileTuners, ATunerThatGoesInTheMiddleOfAMessageLeavesTheHostToOthers) {
  {
    RawTuner tuner(server_->port(), key_);
    tuner.send(with(hello(), with(build_of(8), frame(FrameType::kData, Bytes(4, 0)))));
  }
  expect_service();
}

/// Connects and says nothing of a tuner's.
class Stray {
 public:
  explicit Stray(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Stray() { ::close(socket_); }
  Stray(const Stray&) = delete;
  Stray& operator=(const Stray&) = delete;

  void send(const std::string& bytes) const {
    EXPECT_GT(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  }
  bool is_open() const {
    char byte = 0;
    return ::recv(socket_, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  void wait_for_end() const {
    char byte = 0;
    EXPECT_LE(::recv(socket_, &byte, 1, 0), 0);
  }

 private:
  int socket_;
};

TEST_F(HostileTuners, StraysAreOfNoConsequence) {
  const Stray stray(server_->port());
  stray.send("GET / HTTP/1.1\r\n\r\n");
  expect_service();
}

TEST_F(HostileTuners, StraysThatSayNothingKeepNoTunerWaiting) {
  const Stray stray(server_->port());
  expect_service();
  EXPECT_TRUE(stray.is_open()) << "its handshake goes on beside";
}

TEST_F(HostileTuners, OfManyStraysTheOldestGo) {
  std::deque<Stray> strays;
  for (int i = 0; i < 70; ++i) strays.emplace_back(server_->port());
  expect_service();
  strays.front().wait_for_end();
  EXPECT_TRUE(strays.back().is_open());
}

/// Strategies: bits flipped, bytes replaced, ends cut off, in requests and responses of every kind.
TEST(BuildMessages, ChangedBytesAreReadOrRefused) {
  build_wire::PutModelT model;
  model.options = "{\"target\": \"x86-64-v3\"}";
  model.text_size = 100;
  model.weights_size = 1 << 20;
  build_wire::BuiltT built;
  built.module_size = 1000;
  built.steps_size = 10;
  build_wire::NotBuiltT failed;
  failed.why = "it does not fit";
  build_wire::FailureT failure;
  failure.message = "another generator";
  const Bytes frames[] = {hello(),
                          build_of(7),
                          encode_build_request(1, with_body<build_wire::RequestT>(std::move(model))),
                          encode_build_response(1, with_body<build_wire::ResponseT>(std::move(built))),
                          encode_build_response(1, with_body<build_wire::ResponseT>(std::move(failed))),
                          encode_build_response(1, with_body<build_wire::ResponseT>(std::move(failure)))};
  std::mt19937 random(7);
  size_t read = 0, refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes(frames[round % 6].begin() + kFrameHeaderSize, frames[round % 6].end());
    for (unsigned changes = random() % 4; changes > 0 && !bytes.empty(); --changes) {
      const size_t at = random() % bytes.size();
      if (random() % 8 == 0) {
        bytes.resize(at);
      } else {
        bytes[at] = random() % 2 == 0 ? static_cast<std::uint8_t>(random())
                                      : static_cast<std::uint8_t>(bytes[at] ^ (1u << random() % 8));
      }
    }
    for (const bool request : {true, false}) {
      try {
        const std::uint64_t following = request ? following_bytes(decode_build_request(bytes))
                                                : following_bytes(decode_build_response(bytes));
        EXPECT_LE(following, kMaxModuleBytes + kMaxBuildText);
        ++read;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(read, 0u);
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace gantry::rpc
