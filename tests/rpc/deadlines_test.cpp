// Benchmarks that do not end before their deadline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/client/client.h"
#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ServerProcess;
using testing::TestModule;

/// A client with the module loaded and its input set.
struct Client {
  explicit Client(const ServerProcess& server, const TestModule& module = {}) {
    ConnectOptions options;
    options.address = server.address();
    client = BoardClient::connect(options);
    handle = client->load(client->upload(testing::build(module)), {.threads = 1}).handle;
    const float values[] = {1, 2, 3, 4};
    const std::int64_t shape[] = {4};
    client->set_input(handle, 0, {}, shape, std::as_bytes(std::span(values)));
  }
  BenchmarkResult benchmark(const BenchmarkOptions& options) { return client->benchmark(handle, options); }
  std::unique_ptr<BoardClient> client;
  std::uint32_t handle = 0;
};

TEST(Deadlines, ABenchmarkThatReachesItsDeadlineKeepsWhatItHas) {
  ServerProcess server;
  Client board(server);
  const BenchmarkResult result = board.benchmark(
      {.repeat = 1'000'000, .cooldown_ms = 0.01, .profile = true, .deadline = milliseconds(1000)});
  EXPECT_TRUE(result.reached_deadline);
  EXPECT_GT(result.samples_ms.size(), 0u);
  EXPECT_LT(result.samples_ms.size(), 1'000'000u);
  EXPECT_EQ(result.kernels.size(), 1u);
  EXPECT_FALSE(board.benchmark({.repeat = 3}).reached_deadline) << "the module is still loaded";
}

TEST(Deadlines, TheBoardsDeadlineHoldsWhateverIsAskedFor) {
  ServerProcess server({"--deadline", "1"});
  Client board(server);
  for (const milliseconds asked : {milliseconds(0), milliseconds(3'600'000)}) {
    const BenchmarkResult result =
        board.benchmark({.repeat = 1'000'000, .cooldown_ms = 0.01, .deadline = asked});
    EXPECT_TRUE(result.reached_deadline);
    EXPECT_GT(result.samples_ms.size(), 0u);
  }
}

TEST(Deadlines, ASampleThatWouldEndBehindTheDeadlineIsNotBegun) {
  ServerProcess server;
  Client board(server);
  const BenchmarkResult result =
      board.benchmark({.repeat = 10, .cooldown_ms = 600, .deadline = milliseconds(2000)});
  EXPECT_TRUE(result.reached_deadline);
  EXPECT_GE(result.samples_ms.size(), 1u);
  EXPECT_LE(result.samples_ms.size(), 2u);
}

TEST(Deadlines, SamplesThatCannotBecomeLongEnoughAreKept) {
  ServerProcess server;
  Client board(server);
  const BenchmarkResult result =
      board.benchmark({.repeat = 10, .min_repeat_ms = 60'000, .deadline = milliseconds(1000)});
  EXPECT_TRUE(result.reached_deadline);
  EXPECT_GE(result.samples_ms.size(), 1u);
}

TEST(Deadlines, StreamsEndBeforeThem) {
  ServerProcess server;
  Client board(server);
  const BenchmarkResult result =
      board.benchmark({.deadline = milliseconds(4000), .streams = 2, .duration_ms = 60'000});
  EXPECT_TRUE(result.reached_deadline);
  EXPECT_GT(result.runs_per_second, 0);
  EXPECT_LT(result.elapsed_ms, 4000);
}

TEST(Deadlines, ARunThatIsLongerIsKilled) {
  ServerProcess server;
  Client board(server, {.body = "for (;;) __asm__ volatile(\"\");", .kernel_name = "test.endless"});
  try {
    board.benchmark({.deadline = milliseconds(300)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBoard);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("deadline of 0.3"), HasSubstr("test.endless")));
  }
}

}  // namespace
}  // namespace gantry::rpc
