// Programs of one machine that measure in turns, by files.
#include "host/cli/turns/local_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "host/support/error.h"
#include "rpc/server/child_process.h"
#include "tests/support/server_process.h"

namespace gantry::cli {
namespace {

using rpc::LeasePriority;

class Turns : public ::testing::Test {
 protected:
  std::filesystem::path folder() const { return directory_.path() / "turns"; }
  std::unique_ptr<LocalTurns> program(const std::string& purpose = "bench",
                                      LeasePriority priority = LeasePriority::kNormal, double turn_s = 60) {
    return std::make_unique<LocalTurns>(folder(), purpose, priority, turn_s);
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder()), {}));
  }
  testing::TemporaryDirectory directory_;
};

TEST_F(Turns, AreTakenInTheOrderOfArrival) {
  auto first = program("bench a.onnx"), second = program("bench b.onnx"), third = program();
  EXPECT_TRUE(first->try_take());
  EXPECT_FALSE(second->try_take());
  EXPECT_FALSE(third->try_take());
  EXPECT_EQ(second->ahead(), 0u);
  EXPECT_EQ(third->ahead(), 1u);
  const auto holder = third->holder();
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->process, ::getpid());
  EXPECT_EQ(holder->purpose, "bench a.onnx");
  first->release();
  EXPECT_FALSE(third->try_take()) << "free, but not its turn";
  EXPECT_TRUE(second->try_take());
  second.reset();
  EXPECT_TRUE(third->try_take());
  third->release();
  EXPECT_EQ(files(), 1u) << "the lock alone stays";
}

TEST_F(Turns, OfJobsWithTemporaryFoldersOfTheirOwnAreInOneFolder) {
  const std::string machines = "/tmp/gantry-turns-" + std::to_string(::geteuid());
  ::unsetenv("XDG_RUNTIME_DIR");
  ::setenv("TMPDIR", directory_.path().c_str(), 1);
  EXPECT_EQ(turns_folder().string(), machines);
  ::unsetenv("TMPDIR");
  EXPECT_EQ(turns_folder().string(), machines);
  ::setenv("XDG_RUNTIME_DIR", directory_.path().c_str(), 1);
  EXPECT_EQ(turns_folder().string(), (directory_.path() / "gantry-turns").string());
}

TEST_F(Turns, HigherPrioritiesComeFirst) {
  auto holder = program(), background = program("tune", LeasePriority::kBackground), normal = program(),
       urgent = program("ci", LeasePriority::kUrgent);
  EXPECT_TRUE(holder->try_take());
  for (auto* waiting : {&background, &normal, &urgent}) EXPECT_FALSE((*waiting)->try_take());
  holder->release();
  EXPECT_FALSE(background->try_take());
  EXPECT_FALSE(normal->try_take());
  EXPECT_TRUE(urgent->try_take());
  urgent->release();
  EXPECT_FALSE(background->try_take());
  EXPECT_TRUE(normal->try_take());
}

TEST_F(Turns, GiveWayAtTheirEndToThoseWhoWait) {
  auto holder = program("bench", LeasePriority::kNormal, 0.0),
       patient = program("bench", LeasePriority::kNormal, 60);
  EXPECT_TRUE(holder->try_take());
  EXPECT_FALSE(holder->give_way()) << "nobody waits";
  EXPECT_FALSE(patient->try_take());
  EXPECT_TRUE(holder->give_way());
  EXPECT_FALSE(holder->try_take());
  EXPECT_TRUE(patient->try_take());
  EXPECT_FALSE(patient->give_way()) << "its turn is not over";
  patient->release();
  EXPECT_TRUE(holder->try_take());
}

TEST_F(Turns, GiveWayAtOnceToHigherPriorities) {
  auto holder = program(), background = program("tune", LeasePriority::kBackground, 0.0),
       urgent = program("ci", LeasePriority::kUrgent);
  EXPECT_TRUE(holder->try_take());
  EXPECT_FALSE(background->try_take());
  EXPECT_FALSE(holder->give_way());
  EXPECT_FALSE(urgent->try_take());
  EXPECT_TRUE(holder->give_way());
  EXPECT_TRUE(urgent->try_take());
}

/// A program that does that, and is killed.
template <typename Do>
void killed(Do work) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  rpc::ChildProcess child(::fork());
  if (!child.running()) {
    work();
    (void)!::write(ready[1], "r", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  child.kill();
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(Turns, NobodyWaitsForTheDead) {
  killed([&] {
    auto holder = program();
    auto waiting = program();
    holder->try_take();
    waiting->try_take();
    (void)holder.release();
    (void)waiting.release();
  });
  auto next = program();
  EXPECT_TRUE(next->try_take());
  EXPECT_FALSE(program()->holder()->purpose.empty());
  EXPECT_EQ(files(), 1u) << "what the dead one left is gone";
}

TEST_F(Turns, WhatWasKilledBeforeItWaitedIsRemovedAfterAWhile) {
  program();  // makes the folder
  const auto left = folder() / "new-1-0000002a", young = folder() / "new-1-0000002b";
  for (const auto& path : {left, young}) std::ofstream(path) << "";
  std::filesystem::last_write_time(left,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::minutes(2));
  auto next = program();
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(young)) << "its program may be about to lock it";
  EXPECT_TRUE(next->try_take());
}

TEST_F(Turns, ManyProgramsNeverOverlap) {
  const auto log = directory_.path() / "log";
  std::vector<rpc::ChildProcess> children;
  for (int i = 0; i < 6; ++i) {
    children.emplace_back(::fork());
    if (children.back().running()) continue;
    auto own = program("bench", LeasePriority::kNormal, 0.002);
    for (int turn = 0; turn < 20; ++turn) {
      while (!own->try_take()) ::usleep(500);
      { std::ofstream(log, std::ios::app) << 'b'; }
      ::usleep(1000);
      { std::ofstream(log, std::ios::app) << 'e'; }
      own->give_way();
    }
    own.reset();
    ::_exit(0);
  }
  for (auto& child : children) EXPECT_EQ(child.wait(), 0);
  std::string text;
  std::ifstream(log) >> text;
  ASSERT_EQ(text.size(), 240u);
  for (size_t i = 0; i < text.size(); ++i) ASSERT_EQ(text[i], i % 2 == 0 ? 'b' : 'e') << i;
}

TEST_F(Turns, AFolderOfSomebodyElseIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  std::filesystem::create_directory(folder());
  ASSERT_EQ(::chown(folder().c_str(), 1234, 1234), 0);
  try {
    program();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(folder().string()));
  }
  std::filesystem::remove(folder());
  std::filesystem::create_directory_symlink("/tmp", folder());
  EXPECT_THROW(program(), Error);
}

}  // namespace
}  // namespace gantry::cli
