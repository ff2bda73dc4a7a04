// Results of benchmarks that no control frame holds, for clients that take them as data and for older ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "rpc/client/client.h"
#include "tests/support/frame_peer.h"
#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

using ::testing::AllOf;
using testing::FramePeer;
using ::testing::HasSubstr;
using testing::ServerProcess;
using testing::TestModule;

constexpr float kInput[] = {1, 2, 3, 4};
constexpr std::int64_t kShape[] = {4};
constexpr char kEndless[] = "for (;;) __asm__ volatile(\"\");";

/// A client with the module loaded and its input set.
struct Client {
  Client(const ServerProcess& server, const TestModule& module) {
    ConnectOptions options;
    options.address = server.address();
    client = BoardClient::connect(options);
    handle = client->load(client->upload(testing::build(module)), {.threads = 1}).handle;
    client->set_input(handle, 0, {}, kShape, std::as_bytes(std::span(kInput)));
  }
  std::unique_ptr<BoardClient> client;
  std::uint32_t handle = 0;
};

/// The same of a client that takes no long results, as those before 0.2.
struct OldClient {
  OldClient(const ServerProcess& server, const TestModule& module) : peer(server.port()) {
    peer.greet();
    benchmark.handle = peer.load(testing::build(module));
    benchmark.number = benchmark.repeat = 1;
    wire::SetInputT input;
    input.handle = benchmark.handle;
    input.type = std::make_unique<wire::ElementType>(2, 32);
    input.shape = {4};
    input.byte_size = sizeof kInput;
    peer.ask(std::move(input), std::as_bytes(std::span(kInput)));
  }
  std::string refusal() {
    const wire::ResponseT response = peer.ask(benchmark);
    const auto* failure = response.body.AsFailure();
    if (!failure) return "measured";
    EXPECT_EQ(failure->kind, wire::FailureKind::Request);
    return failure->message;
  }
  FramePeer peer;
  wire::BenchmarkT benchmark;
};

TEST(LongResults, ThreeHundredThousandSamplesArriveComplete) {
  ServerProcess server;
  Client board(server, {});
  const BenchmarkResult result = board.client->benchmark(board.handle, {.repeat = 300'000});
  ASSERT_EQ(result.samples_ms.size(), 300'000u);
  EXPECT_EQ(result.samples_taken, 300'000u);
  EXPECT_TRUE(std::ranges::all_of(result.samples_ms, [](double ms) { return ms >= 0; }));
  ASSERT_EQ(result.started_ms.size(), 300'000u);
  EXPECT_TRUE(std::ranges::is_sorted(result.started_ms));
  EXPECT_GT(result.statistics.median_ms, 0);
  EXPECT_EQ(result.weights_bytes, 4096u);
  EXPECT_GT(board.client->ping().count(), 0) << "the connection is where it should be";
}

TEST(LongResults, ATableOfKernelsOfMoreThanAMebibyteArrivesComplete) {
  ServerProcess server;
  const std::string nodes(1'500'000, 'n');
  Client board(server, {.origin = nodes});
  const BenchmarkResult result = board.client->benchmark(board.handle, {.repeat = 3, .profile = true});
  ASSERT_EQ(result.kernels.size(), 1u);
  EXPECT_TRUE(result.kernels[0].origin == nodes);
  EXPECT_EQ(result.samples_ms.size(), 3u);
}

TEST(LongResults, AClientThatTakesNoneIsRefusedBeforeAnythingRuns) {
  ServerProcess server({"--deadline", "8"});
  OldClient old(server, {.body = kEndless});
  old.benchmark.repeat = 300'000;
  EXPECT_THAT(old.refusal(),
              AllOf(HasSubstr("300000 samples"), HasSubstr("a repeat of at most 130048 fits")));
  EXPECT_TRUE(old.peer.ask(wire::PingT{}).body.AsPong());
}

TEST(LongResults, AClientThatTakesNoneIsRefusedALongTableOfKernels) {
  ServerProcess server({"--deadline", "8"});
  OldClient old(server, {.body = kEndless, .origin = std::string(1'500'000, 'n')});
  old.benchmark.profile = true;
  EXPECT_THAT(old.refusal(), AllOf(HasSubstr("1 kernels"), HasSubstr("leave the profile out")));
}

TEST(LongResults, AClientThatTakesNoneLosesWhatIsNotASampleFirst) {
  ServerProcess server;
  OldClient old(server, {});
  old.benchmark.repeat = 130'000;
  const wire::ResponseT response = old.peer.ask(old.benchmark);
  const auto* result = response.body.AsBenchmarkFinished();
  ASSERT_NE(result, nullptr) << response.body.AsFailure()->message;
  EXPECT_EQ(result->samples_ms.size(), 130'000u);
  EXPECT_EQ(result->samples_taken, 0u);
  EXPECT_TRUE(result->started_ms.empty());
  EXPECT_EQ(result->byte_size, 0u);
}

TEST(LongResults, AClientThatTakesNoneGetsSomeOfManyRunsOfStreams) {
  ServerProcess server;
  OldClient old(server, {});
  old.benchmark.streams = 1;
  old.benchmark.duration_ms = 2000;
  const wire::ResponseT response = old.peer.ask(old.benchmark);
  const auto* result = response.body.AsBenchmarkFinished();
  ASSERT_NE(result, nullptr) << response.body.AsFailure()->message;
  const double runs = result->runs_per_second * result->elapsed_ms / 1000;
  if (runs < kMaxControlBytes / sizeof(double)) GTEST_SKIP() << "this machine is too slow for so many runs";
  EXPECT_NEAR(static_cast<double>(result->samples_taken), runs, runs / 1000);
  EXPECT_LT(result->samples_ms.size(), result->samples_taken);
  EXPECT_GT(result->samples_ms.size(), result->samples_taken / 1024);
  EXPECT_GT(result->median_ms, 0);
}

}  // namespace
}  // namespace gantry::rpc
