// Peers that stand still, or vanish: what they held is free again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "device_runtime/src/sha256.h"
#include "rpc/client/client.h"
#include "rpc/protocol/stream.h"
#include "tests/rpc/raw_client.h"
#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

using ::testing::HasSubstr;
using testing::ServerProcess;
using testing_client::RawClient;

std::unique_ptr<BoardClient> connect(const ServerProcess& server) {
  ConnectOptions options;
  options.address = server.address();
  return BoardClient::connect(options);
}

/// Waits, generously.
bool becomes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 200; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

bool accepts_a_session(const ServerProcess& server) {
  try {
    return connect(server)->ping().count() > 0;
  } catch (const Error&) {
    return false;
  }
}

TEST(Stall, ClientThatDoesNotReadAnOutputLosesItsSlot) {
  ServerProcess server({"--max-sessions", "1", "--stall-timeout", "1"});
  constexpr std::int64_t kElements = 16 << 20;
  RawClient client(server.port());
  const std::uint32_t handle = client.load(testing::build({.elements = kElements}));
  const std::vector<std::byte> input(kElements * sizeof(float));
  ASSERT_TRUE(client.send(RawClient::set_input(handle, kElements), input));
  ASSERT_TRUE(client.send(RawClient::run(handle)));
  ASSERT_TRUE(client.send(RawClient::get_output(handle)));
  EXPECT_TRUE(becomes_true([&] { return accepts_a_session(server); }));
  // The session's last line follows the end of its connection.
  const std::string reason = "took nothing of what it was sent for 1 s";
  EXPECT_TRUE(becomes_true([&] { return server.errors().find(reason) != std::string::npos; }));
}

TEST(Stall, ClientThatRestsBetweenMessagesKeepsItsSession) {
  ServerProcess server({"--stall-timeout", "0.2"});
  auto client = connect(server);
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  EXPECT_GT(client->ping().count(), 0);
}

TEST(Stall, AnInputThatArrivesSlowlyIsNoIdleness) {
  ServerProcess server({"--idle-timeout", "1"});
  RawClient client(server.port());
  constexpr std::int64_t kElements = 4;
  const std::uint32_t handle = client.load(testing::build({.elements = kElements}));
  ASSERT_TRUE(client.send(RawClient::set_input(handle, kElements)));
  constexpr std::uint32_t kThirdRequest = 3;
  const std::vector<std::byte> element(sizeof(float));
  for (int i = 0; i < kElements; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    ASSERT_TRUE(client.send_bytes(encode_header({FrameType::kData, kThirdRequest, sizeof(float)})));
    ASSERT_TRUE(client.send_bytes(element));
  }
  EXPECT_TRUE(client.receive().body.AsDone());
}

TEST(Stall, UploadThatStopsWithinAFrameIsResumedByAnotherSession) {
  ServerProcess server({"--stall-timeout", "1"});
  std::vector<std::byte> bytes(20 << 20, std::byte{5});
  wire::UploadSegmentT upload;
  upload.digest = to_wire(runtime::sha256(bytes));
  upload.size = bytes.size();
  RawClient first(server.port());
  ASSERT_TRUE(first.send(make_request(upload), std::span(bytes).first(10 << 20)));
  ASSERT_TRUE(first.send_bytes(encode_header({FrameType::kData, 2, 1 << 20})));
  ASSERT_TRUE(first.send_bytes(std::vector<std::byte>(1000)));

  RawClient second(server.port());
  std::uint64_t held = 0;
  EXPECT_TRUE(becomes_true([&] {
    wire::QuerySegmentsT query;
    auto name = std::make_unique<wire::SegmentNameT>();
    name->digest = to_wire(runtime::sha256(bytes));
    name->size = bytes.size();
    query.segments.push_back(std::move(name));
    second.send(make_request(std::move(query)));
    held = second.receive().body.AsSegmentStates()->held.at(0);
    return held > 0;
  }));
  EXPECT_EQ(held, 10u << 20);
  upload.offset = held;
  ASSERT_TRUE(second.send(make_request(upload), std::span(bytes).subspan(held)));
  EXPECT_TRUE(second.receive().body.AsDone());
}

/// The kernel's timers of established connections to or from this port: 2 is that of keepalive.
std::vector<int> timers_of(std::uint16_t port) {
  std::vector<int> timers;
  std::ifstream table("/proc/net/tcp");
  char text[8];
  std::snprintf(text, sizeof text, ":%04X", port);
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer;
    fields >> number >> local >> remote >> state >> queues >> timer;
    if (state == "01" && (local.ends_with(text) || remote.ends_with(text)))
      timers.push_back(std::stoi(timer));
  }
  return timers;
}

TEST(Stall, BothEndsAskWhetherTheOtherStillLives) {
  if (!std::ifstream("/proc/net/tcp")) GTEST_SKIP() << "the kernel shows no connections";
  ServerProcess server;
  auto client = connect(server);
  client->ping();
  EXPECT_TRUE(becomes_true([&] {
    return timers_of(server.port()) == std::vector<int>({2, 2});
  }));  // not while data is on its way
}

TEST(Stall, ConnectionSurvivesQuestionsThatAreNotAnsweredForLessThanAMinute) {
  const auto limit_of = [](std::chrono::milliseconds unacknowledged) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    notice_vanished_peer(socket, unacknowledged);
    unsigned limit = 0;
    socklen_t size = sizeof limit;
    EXPECT_EQ(::getsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, &size), 0);
    ::close(socket);
    return limit;
  };
  EXPECT_EQ(limit_of(std::chrono::milliseconds(1'000)), 60'000u) << "which is what three questions take";
  EXPECT_EQ(limit_of(std::chrono::milliseconds(120'000)), 120'000u);
  EXPECT_EQ(limit_of(std::chrono::milliseconds(0)), 0u) << "as the system says";
}

}  // namespace
}  // namespace gantry::rpc
