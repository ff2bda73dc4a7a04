// What a session's data may use of the board's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "rpc/client/client.h"
#include "rpc/server/board_memory.h"
#include "tests/rpc/raw_client.h"
#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::ServerProcess;
using testing_client::RawClient;

constexpr std::uint64_t kMiB = 1u << 20;

/// Bytes in use in memory that the server's processes share among themselves.
std::uint64_t shared_bytes(const ServerProcess& server) {
  std::map<ino_t, std::uint64_t> files;
  for (const int process : server.processes()) {
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", gone)) {
      struct stat status {};
      const std::string target = fs::read_symlink(entry.path(), gone).string();
      if (target.starts_with("/memfd:") && ::stat(entry.path().c_str(), &status) == 0)
        files[status.st_ino] = static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    // What is mapped only: start-end rights offset device inode path.
    std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("/memfd:") == std::string::npos) continue;
      unsigned long start = 0, end = 0, inode = 0;
      std::sscanf(line.c_str(), "%lx-%lx %*s %*s %*s %lu", &start, &end, &inode);
      files.emplace(inode, end - start);
    }
  }
  std::uint64_t sum = 0;
  for (const auto& [inode, bytes] : files) sum += bytes;
  return sum;
}

/// The most while something else goes on.
class Watch {
 public:
  explicit Watch(const ServerProcess& server)
      : thread_([this, &server](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            most_ = std::max<std::uint64_t>(most_, shared_bytes(server));
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}
  std::uint64_t most() {
    thread_.request_stop();
    thread_.join();
    return most_;
  }

 private:
  std::atomic<std::uint64_t> most_ = 0;
  std::jthread thread_;
};

constexpr char kSlowBody[] = "for (volatile long i = 0; i < 1000000000; ++i) {} return 0;";

TEST(SessionMemory, ManyLargeInputsWaitInTheirClientAndAllAreAnswered) {
  ServerProcess server({"--session-memory", "64MiB"});
  constexpr std::int64_t kElements = 4 << 20;  // 16 MiB
  RawClient client(server.port());
  const std::uint32_t handle = client.load(testing::build({.body = kSlowBody, .elements = kElements}));
  const std::vector<std::byte> input(kElements * sizeof(float), std::byte{1});
  Watch watch(server);
  // While the run takes its time, the inputs behind it arrive; nothing is read before all have been sent.
  ASSERT_TRUE(client.send(RawClient::set_input(handle, kElements), input));
  ASSERT_TRUE(client.send(RawClient::run(handle)));
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(client.send(RawClient::set_input(handle, kElements), input));
  EXPECT_TRUE(client.receive().body.AsDone());
  EXPECT_TRUE(client.receive().body.AsRunFinished());
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(client.receive().body.AsDone());
  EXPECT_LE(watch.most(), 2 * 64 * kMiB);
}

TEST(SessionMemory, OutputsCountToo) {
  ServerProcess server({"--session-memory", "64MiB"});
  constexpr std::int64_t kElements = 6 << 20;  // 24 MiB
  RawClient client(server.port());
  const std::uint32_t handle = client.load(testing::build({.elements = kElements}));
  const std::vector<std::byte> input(kElements * sizeof(float), std::byte{1});
  ASSERT_TRUE(client.send(RawClient::set_input(handle, kElements), input));
  EXPECT_TRUE(client.receive().body.AsDone());
  ASSERT_TRUE(client.send(RawClient::run(handle)));
  EXPECT_TRUE(client.receive().body.AsRunFinished());
  Watch watch(server);
  ASSERT_TRUE(client.send(RawClient::get_output(handle)));
  std::thread sender([&] {
    for (int i = 0; i < 8; ++i) client.send(RawClient::set_input(handle, kElements), input);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the output waits for its reader
  EXPECT_TRUE(client.receive().body.AsOutput());
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(client.receive().body.AsDone());
  sender.join();
  EXPECT_LE(watch.most(), (64 + 24) * kMiB) << "on their way, and the input that is set";
}

TEST(SessionMemory, OneRequestMayBeAsLargeAsTheSession) {
  ServerProcess server({"--session-memory", "64MiB"});
  constexpr std::int64_t kElements = 16 << 20;  // 64 MiB
  RawClient client(server.port());
  const std::vector<std::byte> input(kElements * sizeof(float));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send(RawClient::set_input(1, kElements), input));
    // Taken whole; only there is no module for it.
    EXPECT_EQ(client.receive().body.AsFailure()->kind, wire::FailureKind::Request);
  }
  ASSERT_TRUE(client.send(RawClient::set_input(1, kElements + 1), input));
  const wire::ResponseT answer = client.receive();
  ASSERT_TRUE(answer.body.AsFailure());
  EXPECT_THAT(answer.body.AsFailure()->message, HasSubstr("--session-memory"));
}

TEST(SessionMemory, AnnouncedSizeCostsNothing) {
  ServerProcess server({"--session-memory", "1GiB"});
  RawClient client(server.port());
  const std::uint32_t handle = client.load(testing::build({}));
  ASSERT_TRUE(client.send(RawClient::set_input(handle, 250 << 20)));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(shared_bytes(server), kMiB);
  RawClient other(server.port());
  EXPECT_GT(other.load(testing::build({})), 0u);
}

TEST(BoardMemory, SessionsTogetherTakeNoMoreThanThereIs) {
  BoardMemory memory(100);
  const auto first = memory.take_slot(), second = memory.take_slot();
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  EXPECT_TRUE(memory.take(*first, 60));
  EXPECT_FALSE(memory.take(*second, 60));
  EXPECT_TRUE(memory.take(*second, 40));
  EXPECT_EQ(memory.used(), 100u);
  memory.give_back(*first, 10);
  EXPECT_TRUE(memory.take(*second, 10));
}

TEST(BoardMemory, WhatAKilledSessionHeldGoesWithItsSlot) {
  BoardMemory memory(100);
  const auto slot = memory.take_slot();
  EXPECT_TRUE(memory.take(*slot, 100));
  memory.free_slot(*slot);
  EXPECT_EQ(memory.used(), 0u);
  EXPECT_TRUE(memory.take(*memory.take_slot(), 100));
}

}  // namespace
}  // namespace gantry::rpc
