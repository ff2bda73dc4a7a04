// Measuring is exclusive: over real sockets, with the server as a process of its own. What overlaps is told
// by the kernels themselves, which read the machine's clock when they begin and end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "rpc/client/client.h"
#include "tests/rpc/raw_client.h"
#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ServerProcess;
using ::testing::SizeIs;
using testing::TestModule;
using testing_client::RawClient;

/// Runs for in[0] milliseconds; says when it began and ended, in microseconds of CLOCK_MONOTONIC, each as two
/// whole numbers that a float holds.
constexpr char kClockedBody[] = R"(
  struct { long s, ns; } now;
  long first = 0, last = 0;
  do {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(228L), "D"(1L), "S"(&now) : "rcx", "r11", "memory");
#else
    register long call __asm__("x8") = 113;
    register long clock __asm__("x0") = 1;
    register void* at __asm__("x1") = &now;
    __asm__ volatile("svc 0" : "+r"(clock) : "r"(call), "r"(at) : "memory");
#endif
    last = now.s * 1000000 + now.ns / 1000;
    if (first == 0) first = last;
  } while (last - first < (long)(in[0] * 1000));
  out[0] = (float)(first >> 20); out[1] = (float)(first & 0xfffff);
  out[2] = (float)(last >> 20); out[3] = (float)(last & 0xfffff);
  return 0;)";

struct Interval {
  std::int64_t begin = 0, end = 0;  ///< us
};

/// One connection with that module, which runs for so long.
class Board {
 public:
  explicit Board(const ServerProcess& server, float run_ms = 10, std::optional<PskKey> key = {}) {
    ConnectOptions options;
    options.address = server.address();
    options.key = std::move(key);
    client = BoardClient::connect(options);
    TestModule module;
    module.body = kClockedBody;
    handle = client->load(client->upload(testing::build(module)), {.threads = 1}).handle;
    const std::int64_t shape[] = {4};
    const float input[] = {run_ms, 0, 0, 0};
    client->set_input(handle, 0, {}, shape, std::as_bytes(std::span(input)));
  }
  /// One run; when it was.
  Interval measure() {
    result = client->benchmark(handle, {.warmup = 0, .repeat = 1});
    return last_run();
  }
  Interval last_run() {
    const Tensor output = client->get_output(handle, 0);
    float words[4];
    std::memcpy(words, output.bytes.data(), sizeof words);
    const auto time = [&](int i) {
      return (static_cast<std::int64_t>(words[i]) << 20) + static_cast<std::int64_t>(words[i + 1]);
    };
    return {time(0), time(2)};
  }
  Lease take(LeasePriority priority = LeasePriority::kNormal, milliseconds longest = {},
             const LeaseProgress& progress = {}, std::string purpose = "bench") {
    return client->take_lease({priority, std::move(purpose), longest}, progress);
  }

  std::unique_ptr<BoardClient> client;
  std::uint32_t handle = 0;
  BenchmarkResult result;
};

template <typename Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return false;
}

bool overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  return std::ranges::any_of(a, [&](const Interval& x) {
    return std::ranges::any_of(b, [&](const Interval& y) { return x.begin < y.end && y.begin < x.end; });
  });
}

TEST(Lease, TwoThatMeasureAtOnceNeverOverlapAndBothComeToTheirTurn) {
  ServerProcess server({"--turn", "0.2"});
  std::vector<Interval> intervals[2];
  std::atomic<int> turns = 0;
  const auto work = [&](int i) {
    Board owner(server);
    Board worker(server);
    for (int process = 0; process < 12; ++process) {
      const Lease lease = owner.take();
      turns += lease.waited.count() > 0 ? 1 : 0;
      worker.client->join_lease(lease.token);
      for (int run = 0; run < 5; ++run) intervals[i].push_back(worker.measure());
    }
  };
  { std::jthread first(work, 0), second(work, 1); }
  EXPECT_THAT(intervals[0], SizeIs(60));
  EXPECT_THAT(intervals[1], SizeIs(60));
  EXPECT_FALSE(overlap(intervals[0], intervals[1]));
  EXPECT_GE(turns, 2) << "neither measured all of its own first";
}

TEST(Lease, ClientsThatKnowNothingOfItDoNotOverlapEither) {
  ServerProcess server({"--turn", "0.2"});
  std::vector<Interval> intervals[3];
  {
    std::vector<std::jthread> threads;
    for (auto& own : intervals)
      threads.emplace_back([&] {
        Board board(server, 5);
        for (int i = 0; i < 30; ++i) own.push_back(board.measure());
      });
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(intervals[i], SizeIs(30));
    EXPECT_FALSE(overlap(intervals[i], intervals[(i + 1) % 3]));
  }
}

TEST(Lease, WhoWaitsHearsForWhomAndAtWhichPlace) {
  ServerProcess server;
  Board holder(server), second(server), third(server);
  holder.take(LeasePriority::kNormal, {}, {}, "me@laptop: bench a.onnx\n");
  std::jthread waits([&] { second.take(LeasePriority::kUrgent); });
  ASSERT_TRUE(eventually([&] { return holder.client->leases().waiting_count == 1; }));
  std::optional<MeasuringQueue> heard;
  try {
    third.take(LeasePriority::kNormal, milliseconds(700),
               [&](const MeasuringQueue& queue) { heard = queue; });
    FAIL() << "it has not been given back";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRetry);
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1 (me@laptop: bench a.onnx\\n) has measured there for"));
    EXPECT_THAT(error.what(), HasSubstr(" s, and another one waits; try again later"));
  }
  ASSERT_TRUE(heard);
  ASSERT_TRUE(heard->holder);
  EXPECT_EQ(heard->holder->purpose, "me@laptop: bench a.onnx\\n");
  EXPECT_EQ(heard->holder->address, "127.0.0.1");
  EXPECT_EQ(heard->position, 2u);
  EXPECT_EQ(heard->waiting_count, 2u);
  ASSERT_THAT(heard->waiting, SizeIs(2));
  EXPECT_EQ(heard->waiting[0].priority, LeasePriority::kUrgent);
  EXPECT_EQ(holder.client->leases().waiting_count, 1u) << "it waits no more";
  holder.client->release_lease();
}

TEST(Lease, AClientThatGoesWhileItWaitsIsForgotten) {
  ServerProcess server;
  Board holder(server);
  holder.take();
  {
    RawClient waiting(server.port());
    waiting.send(make_request(wire::TakeLeaseT{}));
    ASSERT_TRUE(eventually([&] { return holder.client->leases().waiting_count == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return holder.client->leases().waiting_count == 0; }));
  Board next(server);
  holder.client->release_lease();
  EXPECT_LT(next.take().waited.count(), 100);
}

TEST(Lease, AHolderThatDiesInTheMiddleOfAMeasurementPassesItOn) {
  ServerProcess server;
  Board next(server);
  std::atomic<bool> began = false;
  auto holder = std::make_unique<RawClient>(server.port());
  TestModule endless;
  endless.body = "volatile long i = 0; for (;;) ++i; return 0;";
  const std::uint32_t handle = holder->load(testing::build(endless));
  holder->send(RawClient::set_input(handle, 4), std::vector<std::byte>(16));
  holder->receive();
  wire::BenchmarkT benchmark;
  benchmark.handle = handle;
  benchmark.repeat = benchmark.number = 1;
  holder->send(make_request(benchmark));
  ASSERT_TRUE(eventually([&] { return next.client->leases().measuring; }));
  std::jthread waits([&] {
    began = true;
    next.take();
  });
  ASSERT_TRUE(eventually([&] { return began.load(); }));
  holder.reset();
  waits.join();
  EXPECT_GT(next.measure().end, 0);
}

TEST(Lease, AHolderThatStopsMeasuringLosesItToOthersAndGetsItBack) {
  ServerProcess server({"--turn", "0.5"});
  Board holder(server), other(server);
  holder.take();
  const Interval before = holder.measure();
  EXPECT_GT(other.take().waited.count(), 0) << "the holder rests for longer than its turn";
  const Interval others = other.measure();
  std::jthread gives_back([&] {
    std::this_thread::sleep_for(milliseconds(300));
    other.client->release_lease();
  });
  const Interval after = holder.measure();
  EXPECT_LT(before.end, others.begin);
  EXPECT_GT(after.begin, others.end);
  EXPECT_GE(holder.result.waited.count(), 100);
}

TEST(Lease, RunsAreLetInAndRecordedWithTheSamples) {
  ServerProcess server;
  Board board(server, 300), visitor(server, 20);
  std::jthread runs([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) visitor.client->run(visitor.handle);
  });
  board.measure();
  runs.request_stop();
  ASSERT_THAT(board.result.others, SizeIs(1));
  EXPECT_EQ(board.result.others[0].address, "127.0.0.1");
  EXPECT_GE(board.result.others[0].runs.count, 5u);
  EXPECT_GE(board.result.others[0].runs.ms, 100);
  EXPECT_LE(board.result.others[0].runs.ms, 1000);
  runs.join();
  visitor.client->leases();  // answered when the last run is over for the server too
  board.measure();
  EXPECT_THAT(board.result.others, IsEmpty());
}

TEST(Lease, OnlyNamedKeysMayBeUrgent) {
  testing::TemporaryDirectory folder;
  std::filesystem::create_directory(folder.path() / "keys");
  std::vector<PskKey> keys;
  for (const char* name : {"ci", "bob"}) {
    keys.push_back(generate_key(name));
    const auto file = folder.path() / "keys" / name;
    std::ofstream(file) << key_file_text(keys.back());
    std::filesystem::permissions(file, std::filesystem::perms(0600));
  }
  ServerProcess server({"--key", (folder.path() / "keys").string(), "--urgent", "ci"});
  Board ci(server, 1, keys[0]), bob(server, 1, keys[1]);
  try {
    bob.take(LeasePriority::kUrgent);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRequest);
    EXPECT_THAT(error.what(), HasSubstr("--urgent"));
  }
  ci.take(LeasePriority::kUrgent);
  const MeasuringQueue queue = bob.client->leases();
  ASSERT_TRUE(queue.holder);
  EXPECT_EQ(queue.holder->key, "ci");
}

TEST(Lease, AServerThatShutsDownTellsThoseWhoWait) {
  ServerProcess server;
  Board holder(server), other(server);
  holder.take();
  std::jthread stops([&] {
    eventually([&] { return holder.client->leases().waiting_count == 1; });
    server.stop();
  });
  try {
    other.take();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kReconnect);
    EXPECT_THAT(error.what(), HasSubstr("shutting down"));
  }
}

TEST(Lease, APeerThatSaysItKnowsNoneIsToldNothingOfThem) {
  ServerProcess server({"--turn", "0.3"});
  Board holder(server);
  holder.take();
  RawClient old(server.port());  // its hello has no features
  TestModule module;
  const std::uint32_t handle = old.load(testing::build(module));
  old.send(RawClient::set_input(handle, 4), std::vector<std::byte>(16));
  ASSERT_TRUE(old.receive().body.AsDone());
  wire::BenchmarkT benchmark;
  benchmark.handle = handle;
  benchmark.repeat = benchmark.number = 1;
  old.send(make_request(benchmark));
  EXPECT_TRUE(eventually([&] { return holder.client->leases().waiting_count == 1; }));
  holder.client->release_lease();
  for (;;) {
    const wire::ResponseT answer = old.receive();
    EXPECT_FALSE(answer.body.AsLeaseQueue() || answer.body.AsMeasuredBeside());
    if (answer.body.AsBenchmarkFinished()) break;
    ASSERT_TRUE(answer.body.AsBenchmarkProgress());
  }
}

TEST(Lease, AMeasurementWithoutALeaseWaitsForPartOfItsDeadlineAlone) {
  ServerProcess server({"--deadline", "2"});
  Board holder(server), other(server);
  holder.take();
  std::jthread keeps([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) holder.measure();
  });
  try {
    other.measure();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRetry);
  }
}

TEST(Lease, AMeasurementWithHardlyAnyDeadlineDoesNotWaitForEver) {
  ServerProcess server;
  Board holder(server), other(server);
  holder.take();
  try {
    other.client->benchmark(other.handle, {.warmup = 0, .repeat = 1, .deadline = milliseconds(1)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRetry);
  }
}

}  // namespace
}  // namespace gantry::rpc
