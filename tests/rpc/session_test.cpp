// Uploads, runs, benchmarks and failures, over real sockets with the server as a process of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "device_runtime/src/sha256.h"
#include "rpc/client/client.h"
#include "rpc/protocol/message.h"
#include "tests/support/server_process.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ServerProcess;
using testing::TestModule;

std::unique_ptr<BoardClient> connect(const ServerProcess& server, std::optional<PskKey> key = {}) {
  ConnectOptions options;
  options.address = server.address();
  options.key = std::move(key);
  return BoardClient::connect(options);
}

std::vector<std::byte> floats(std::initializer_list<float> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

void set_test_input(BoardClient& client, std::uint32_t handle) {
  const std::int64_t shape[] = {4};
  client.set_input(handle, 0, {}, shape, floats({1, 2, 3, 4}));
}

LoadedModule load(BoardClient& client, const TestModule& module) {
  return client.load(client.upload(testing::build(module)), {.threads = 1});
}

template <typename Function>
Error failure_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kBug, "nothing failed");
}

TEST(Session, RunsAModuleAndReturnsItsOutput) {
  ServerProcess server;
  auto client = connect(server);
  const LoadedModule module = load(*client, {});
  EXPECT_EQ(module.target, "test");
  ASSERT_EQ(module.inputs.size(), 1u);
  EXPECT_EQ(module.inputs[0].name, "in");
  EXPECT_THAT(module.inputs[0].shape, ::testing::ElementsAre(4));
  set_test_input(*client, module.handle);
  EXPECT_GT(client->run(module.handle).run.count(), 0);
  const Tensor output = client->get_output(module.handle, 0);
  EXPECT_THAT(output.shape, ::testing::ElementsAre(4));
  EXPECT_EQ(output.bytes, floats({3, 5, 7, 9}));
}

TEST(Session, SendsNothingTheSecondTime) {
  ServerProcess server;
  const auto file = testing::build({.weights_bytes = 5u << 20});
  EXPECT_GT(connect(server)->upload(file).report().sent_bytes, 5u << 20);
  EXPECT_EQ(connect(server)->upload(file).report().sent_bytes, 0u);
}

TEST(Session, SendsOnlyTheKernelsThatChanged) {
  ServerProcess server;
  connect(server)->upload(testing::build({.weights_bytes = 5u << 20}));
  const auto changed = testing::build({.body = "out[0] = in[1]; return 0;", .weights_bytes = 5u << 20});
  const auto handle = connect(server)->upload(changed);
  EXPECT_EQ(handle.report().segments_sent, 1u);
  EXPECT_LT(handle.report().sent_bytes, 1u << 20);
}

TEST(Session, AnInterruptedUploadGoesOnWhereItStopped) {
  ServerProcess server;
  const auto file = testing::build({.weights_bytes = 20u << 20});
  struct Cut {};
  std::uint64_t sent = 0;
  try {
    connect(server)->upload(file, [&](std::uint64_t done, std::uint64_t) {
      sent = done;
      if (done > 10u << 20) throw Cut();
    });
  } catch (const Cut&) {
  } catch (const Error&) {
  }
  ASSERT_GT(sent, 10u << 20);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  auto client = connect(server);
  const auto handle = client->upload(file);
  EXPECT_LT(handle.report().sent_bytes, 15u << 20);
  const LoadedModule module = client->load(handle, {.threads = 1});
  set_test_input(*client, module.handle);
  client->run(module.handle);
  EXPECT_EQ(client->get_output(module.handle, 0).bytes, floats({3, 5, 7, 9}));
}

TEST(Session, WhatAnEarlierUploadLeftWrongIsSentAgain) {
  testing::TemporaryDirectory folder;
  const auto cache = folder.path() / "cache";
  ServerProcess server({"--cache", cache.string()});
  auto client = connect(server);
  const auto file = testing::build({.weights_bytes = 1u << 20});
  const std::string weights = to_hex(runtime::sha256(std::span(file).last(1u << 20)));
  std::ofstream(cache / "partial" / (weights + ".1048576")) << "of another upload";
  std::uint64_t sent = 0, total = 0;
  const auto handle = client->upload(file, [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GE(done, sent);
    sent = done;
    total = all;
  });
  EXPECT_EQ(handle.report().segments_sent, 2u);
  EXPECT_GT(handle.report().sent_bytes, 2u << 20) << "the weights travel twice";
  EXPECT_EQ(sent, total);
  EXPECT_GT(client->load(handle, {.threads = 1}).handle, 0u);
}

TEST(Session, CacheEvictsTheOldestSegments) {
  ServerProcess server({"--cache-size", "8MiB"});
  const auto first = testing::build({.weights_bytes = 5u << 20, .seed = 1});
  const auto second = testing::build({.weights_bytes = 5u << 20, .seed = 2});
  connect(server)->upload(first);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // its session lets go of the segments
  connect(server)->upload(second);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_GE(connect(server)->upload(first).report().sent_bytes, 5u << 20);
}

/// Flips a bit of every cached segment of so many bytes.
void alter_segments(const std::filesystem::path& cache, std::uintmax_t size) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the clock of the file system's times ticks
  for (const auto& entry : std::filesystem::directory_iterator(cache / "segments")) {
    if (entry.file_size() != size) continue;
    std::filesystem::permissions(entry, std::filesystem::perms(0600));
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    const int byte = file.get();
    file.seekp(0);
    file.put(static_cast<char>(byte ^ 0x40));
  }
}

TEST(Session, SegmentThatWasAlteredIsSentAgainAndNotUsed) {
  testing::TemporaryDirectory folder;
  const auto file = testing::build({.weights_bytes = 1u << 20});
  const auto cache = folder.path() / "cache";
  ServerProcess server({"--cache", cache.string()});
  for (int session = 0; session < 2; ++session) {
    auto client = connect(server);
    const auto handle = client->upload(file);
    EXPECT_EQ(handle.report().segments_sent, session == 0 ? 2u : 1u);
    const LoadedModule module = client->load(handle, {.threads = 1});
    set_test_input(*client, module.handle);
    client->run(module.handle);
    EXPECT_EQ(client->get_output(module.handle, 0).bytes, floats({3, 5, 7, 9}));
    client.reset();
    alter_segments(cache, 1u << 20);
  }
  EXPECT_THAT(server.errors(), HasSubstr("is damaged: it was deleted"));
}

TEST(Session, SegmentThatWasAlteredAfterTheQueryIsNotLoaded) {
  testing::TemporaryDirectory folder;
  const auto cache = folder.path() / "cache";
  ServerProcess server({"--cache", cache.string()});
  auto client = connect(server);
  const auto file = testing::build({.weights_bytes = 1u << 20});
  const auto handle = client->upload(file);
  alter_segments(cache, 1u << 20);
  const Error error = failure_of([&] { client->load(handle, {.threads = 1}); });
  EXPECT_EQ(error.kind(), ErrorKind::kRetry);
  EXPECT_THAT(error.what(), HasSubstr("upload the module"));
  EXPECT_GT(client->load(client->upload(file), {.threads = 1}).handle, 0u);
}

TEST(Session, SegmentLargerThanTheCacheIsRefused) {
  ServerProcess server({"--cache-size", "4MiB"});
  auto client = connect(server);
  const Error error = failure_of([&] { client->upload(testing::build({.weights_bytes = 5u << 20})); });
  EXPECT_EQ(error.kind(), ErrorKind::kBoard);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(server.address()), HasSubstr("--cache-size")));
  EXPECT_GT(client->ping().count(), 0) << "the session goes on";
}

TEST(Session, ThousandsOfModulesPassThroughASmallCacheInOneSession) {
  rlimit usual{};
  ::getrlimit(RLIMIT_NOFILE, &usual);
  const rlimit few{1024, usual.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);  // the server inherits it
  ServerProcess server({"--cache-size", "1MiB"});
  ::setrlimit(RLIMIT_NOFILE, &usual);
  auto client = connect(server);
  const auto kernel = testing::build_kernel({});
  for (std::uint32_t i = 0; i < 3000; ++i) {
    const LoadedModule module =
        client->load(client->upload(testing::build({.seed = i}, kernel)), {.threads = 1});
    set_test_input(*client, module.handle);
    client->run(module.handle);
    client->unload(module.handle);
  }
  EXPECT_GT(client->ping().count(), 0);
}

TEST(Session, BenchmarkReturnsEverySampleAndTheKernels) {
  ServerProcess server;
  auto client = connect(server);
  const LoadedModule module = load(*client, {});
  set_test_input(*client, module.handle);
  const BenchmarkResult result = client->benchmark(module.handle, {.repeat = 7, .profile = true});
  EXPECT_EQ(result.samples_ms.size(), 7u);
  EXPECT_GT(result.statistics.median_ms, 0);
  EXPECT_LE(result.statistics.min_ms, result.statistics.median_ms);
  ASSERT_EQ(result.kernels.size(), 1u);
  EXPECT_EQ(result.kernels[0].name, "test.double");
  EXPECT_EQ(result.kernels[0].origin, "Node_7");
  EXPECT_EQ(result.kernels[0].symbol, "kernel");
  EXPECT_EQ(result.kernels[0].step, 0u);
  EXPECT_EQ(result.weights_bytes, 4096u);
  EXPECT_FALSE(result.board.architecture.empty());
  ASSERT_GE(result.readings.size(), 2u) << "before and after";
  EXPECT_EQ(result.readings.front().at_ms, 0);
  EXPECT_GT(result.readings.back().at_ms, 0);
  EXPECT_GE(result.reading_cpus.size(), 1u);
  EXPECT_LE(result.reading_cpus.size(), static_cast<std::size_t>(result.threads));
  if (result.pulses.empty()) return;  // an emulated board, or one of unlike cores
  EXPECT_LE(result.pulses.front().at_ms, 0);
  EXPECT_GT(result.pulses.back().at_ms, result.started_ms.back());
}

TEST(Session, ABenchmarkCountsInstructionsOrSaysWhyNotWhereThatIsAskedFor) {
  ServerProcess server;
  auto client = connect(server);
  const LoadedModule module = load(*client, {});
  set_test_input(*client, module.handle);
  const BenchmarkResult result = client->benchmark(module.handle, {.repeat = 1, .count_instructions = true});
  EXPECT_EQ(result.samples_ms.size(), 1u);
  // The machine decides which of the two it is.
  EXPECT_EQ(result.step_instructions.size(), result.instructions_problem.empty() ? 1u : 0u);
  const BenchmarkResult unasked = client->benchmark(module.handle, {.repeat = 1});
  EXPECT_TRUE(unasked.step_instructions.empty());
  EXPECT_EQ(unasked.instructions_problem, "");
}

TEST(Session, CrashNamesSignalKernelAndNodeAndTheSessionGoesOn) {
  ServerProcess server;
  auto client = connect(server);
  const LoadedModule bad =
      load(*client, {.body = "*(volatile int*)0 = 1; return 0;", .kernel_name = "test.crash"});
  set_test_input(*client, bad.handle);
  const Error error = failure_of([&] { client->run(bad.handle); });
  EXPECT_EQ(error.kind(), ErrorKind::kBoard);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("SIGSEGV"), HasSubstr("in kernel kernel (step #0: test.crash; nodes Node_7)")));
  EXPECT_EQ(failure_of([&] { client->run(bad.handle); }).kind(), ErrorKind::kRequest);
  const LoadedModule good = load(*client, {});
  EXPECT_NE(good.handle, bad.handle);
  set_test_input(*client, good.handle);
  client->run(good.handle);
  EXPECT_EQ(client->get_output(good.handle, 0).bytes, floats({3, 5, 7, 9}));
}

TEST(Session, EndlessLoopIsStoppedAtItsDeadline) {
  ServerProcess server;
  auto client = connect(server);
  const LoadedModule module =
      load(*client, {.body = "for (;;) __asm__ volatile(\"\");", .kernel_name = "test.endless"});
  set_test_input(*client, module.handle);
  const auto start = std::chrono::steady_clock::now();
  const Error error = failure_of([&] { client->run(module.handle, std::chrono::milliseconds(300)); });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(error.kind(), ErrorKind::kBoard);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("deadline"), HasSubstr("test.endless"), HasSubstr("Node_7")));
}

TEST(Session, WorkspaceOfAHundredGibibytesIsAnError) {
  ServerProcess server;
  auto client = connect(server);
  const Error error = failure_of([&] {
    const LoadedModule module = load(*client, {.workspace_bytes = std::uint64_t{100} << 30});
    set_test_input(*client, module.handle);
    client->run(module.handle);
  });
  EXPECT_EQ(error.kind(), ErrorKind::kBoard);
  EXPECT_THAT(error.what(), HasSubstr("100.0 GiB"));
  EXPECT_GT(client->ping().count(), 0);
}

TEST(Session, BadModulesLeaveAnotherSessionsBenchmarkAlone) {
  ServerProcess server;
  std::size_t samples = 0;
  std::string trouble;
  std::atomic<bool> started = false, finished = false;
  std::jthread other([&] {
    try {
      auto client = connect(server);
      const LoadedModule module = load(*client, {});
      set_test_input(*client, module.handle);
      const auto on_progress = [&](std::uint32_t, std::uint32_t) { started = true; };
      samples =
          client->benchmark(module.handle, {.repeat = 50, .cooldown_ms = 60}, on_progress).samples_ms.size();
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    finished = true;
  });
  while (!started && !finished) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  auto client = connect(server);
  for (const char* body :
       {"*(volatile int*)0 = 1; return 0;", "for (;;) __asm__ volatile(\"\");", "__builtin_trap();"}) {
    const LoadedModule module = load(*client, {.body = body});
    set_test_input(*client, module.handle);
    EXPECT_EQ(failure_of([&] { client->run(module.handle, std::chrono::milliseconds(200)); }).kind(),
              ErrorKind::kBoard);
  }
  const Error error = failure_of([&] {
    const LoadedModule module = load(*client, {.workspace_bytes = std::uint64_t{100} << 30});
    set_test_input(*client, module.handle);
    client->run(module.handle, std::chrono::milliseconds(200));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kBoard);
  EXPECT_THAT(error.what(), HasSubstr("100.0 GiB"));
  EXPECT_FALSE(finished) << "the benchmark runs beside every bad module";
  other.join();
  EXPECT_EQ(trouble, "");
  EXPECT_EQ(samples, 50u);
}

TEST(Session, ModuleOfAnotherArchitectureIsRefused) {
  ServerProcess server;
  auto client = connect(server);
  const Error error = failure_of([&] { load(*client, {.other_architecture = true}); });
  EXPECT_EQ(error.kind(), ErrorKind::kRequest);
}

TEST(Session, WrongInputsNameTheInput) {
  ServerProcess server;
  auto client = connect(server);
  const LoadedModule module = load(*client, {});
  EXPECT_EQ(failure_of([&] { client->run(module.handle); }).kind(), ErrorKind::kRequest) << "no input set";
  const std::int64_t shape[] = {3};
  const Error error = failure_of([&] { client->set_input(module.handle, 0, {}, shape, floats({1, 2, 3})); });
  EXPECT_EQ(error.kind(), ErrorKind::kRequest);
  EXPECT_THAT(error.what(), HasSubstr("in"));
  EXPECT_EQ(failure_of([&] { client->run(module.handle + 1); }).kind(), ErrorKind::kRequest);
}

TEST(Session, FileThatIsNoModuleIsRefusedBeforeItTravels) {
  ServerProcess server;
  auto client = connect(server);
  const std::vector<std::byte> noise(10000, std::byte{7});
  EXPECT_EQ(failure_of([&] { client->upload(noise); }).kind(), ErrorKind::kRequest);
}

TEST(Session, SessionsBeyondTheLimitAreTurnedAway) {
  ServerProcess server({"--max-sessions", "1"});
  auto first = connect(server);
  const Error error = failure_of([&] { connect(server); });
  EXPECT_EQ(error.kind(), ErrorKind::kRetry);
  EXPECT_THAT(error.what(), HasSubstr("--max-sessions"));
  first.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_GT(connect(server)->ping().count(), 0);
}

TEST(Session, ClientThatLeavesTakesItsProcessesAlong) {
  ServerProcess server;
  {
    auto client = connect(server);
    const LoadedModule module = load(*client, {.body = "for (;;) __asm__ volatile(\"\");"});
    set_test_input(*client, module.handle);
    EXPECT_EQ(server.descendants(), 2u);
  }
  for (int i = 0; i < 50 && server.descendants() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(server.descendants(), 0u);
}

TEST(Session, TerminationTellsTheClientAndExitsCleanly) {
  ServerProcess server;
  auto client = connect(server);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(failure_of([&] { client->ping(); }).kind(), ErrorKind::kReconnect);
}

}  // namespace
}  // namespace gantry::rpc
