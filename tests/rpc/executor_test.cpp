// The process in which modules run: what it may do, and what its session believes of it.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "rpc/client/client.h"
#include "tests/support/raw_session.h"
#include "tests/support/server_process.h"
#include "tests/support/system_calls.h"
#include "tests/support/test_module.h"

namespace gantry::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::RawSession;
using testing::ServerProcess;

constexpr std::uint32_t kId = 7;
constexpr int kExecutorSocket = 3;

std::uint32_t handle_of(const wire::ResponseT& answer) {
  const auto* failure = answer.body.AsFailure();
  EXPECT_TRUE(answer.body.AsModuleLoaded()) << (failure ? failure->message : "another answer");
  return answer.body.AsModuleLoaded() ? answer.body.AsModuleLoaded()->handle : 0;
}

std::string bytes_in_c(const Bytes& bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += std::to_string(byte) + ",";
  return text;
}

/// A module that, when it runs, poses as its executor: it says that the run is finished, answers the next
/// request with `next`, and never returns.
std::vector<std::byte> impostor(const wire::ResponseT& next) {
  Bytes frames = encode_response(kId, make_response(wire::RunFinishedT{}));
  const Bytes more = encode_response(kId, next);
  frames.insert(frames.end(), more.begin(), more.end());
  return testing::build({.body = testing::with_system_calls(
                             "static const unsigned char frames[] = {" + bytes_in_c(frames) + "};" + "call(" +
                             std::to_string(SYS_write) + ", " + std::to_string(kExecutorSocket) +
                             ", (long)frames, sizeof frames, 0, 0, 0); for (;;) __asm__ volatile(\"\");")});
}

wire::ResponseT loaded_as(std::uint32_t handle) {
  wire::ModuleLoadedT module;
  module.handle = handle;
  module.target = "none";
  return make_response(std::move(module));
}

/// Of a process, the first address at which its program lies.
std::string program_address(int pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::string line;
  while (std::getline(maps, line))
    if (line.find("gantry-device") != std::string::npos) return line.substr(0, line.find('-'));
  return "none";
}

std::string contents(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// What a process's file below /proc says.
std::string about(int pid, const std::string& file) {
  return contents("/proc/" + std::to_string(pid) + "/" + file);
}

void expect_position_independent(const std::filesystem::path& program) {
  std::ifstream file(program, std::ios::binary);
  Elf64_Ehdr header{};
  ASSERT_TRUE(file.read(reinterpret_cast<char*>(&header), sizeof header)) << program;
  EXPECT_EQ(header.e_type, ET_DYN) << program << " always lies at the same addresses";
}

TEST(Executor, ItsProgramHasNoAddressOfItsOwn) {
  const ServerProcess server;
  expect_position_independent("/proc/" + std::to_string(server.pid()) + "/exe");
}

TEST(Executor, NorHasTheStaticProgram) {
  const std::filesystem::path program = GANTRY_SOURCE_DIR "/build-aarch64/bin/gantry-device";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "no gantry-device built for AArch64";
  expect_position_independent(program);
}

TEST(Executor, LiesAtOtherAddressesThanTheServerAndOtherExecutors) {
  if (contents("/proc/sys/kernel/randomize_va_space").starts_with("0"))
    GTEST_SKIP() << "the system has randomised addresses switched off";
  const ServerProcess server;
  RawSession first(server.port(), kId), second(server.port(), kId);
  handle_of(first.load(testing::build({})));
  handle_of(second.load(testing::build({})));
  const std::vector<int> processes = server.descendant_ids();
  ASSERT_EQ(processes.size(), 4u) << "two sessions, two executors";
  const std::set<std::string> addresses = {program_address(server.pid()), program_address(processes[2]),
                                           program_address(processes[3])};
  EXPECT_EQ(addresses.size(), 3u) << ::testing::PrintToString(addresses);
  EXPECT_THAT(addresses, Not(::testing::Contains("none")));
}

TEST(Executor, GoesOnWhenTheProgramsFileIsReplaced) {
  testing::TemporaryDirectory directory;
  const auto program = directory.path() / "gantry-device";
  std::filesystem::copy_file(
      std::filesystem::read_symlink("/proc/" + std::to_string(ServerProcess().pid()) + "/exe"), program);
  const ServerProcess server({}, program.string());
  std::filesystem::remove(program);
  std::ofstream(program) << "something else";
  RawSession session(server.port(), kId);
  const std::uint32_t handle = handle_of(session.load(testing::build({})));
  EXPECT_TRUE(session.run(handle).body.AsRunFinished());
  EXPECT_THAT(server.errors(), Not(HasSubstr("executors are forks")));
}

TEST(Executor, IsAForkWhereAnEmulatorCannotExecuteItAndTheLogSaysSo) {
  const std::filesystem::path program = GANTRY_SOURCE_DIR "/build-aarch64/bin/gantry-device";
  const std::string qemu = "/usr/bin/qemu-aarch64";
  if (!std::filesystem::exists(program) || !std::filesystem::exists(qemu))
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  const ServerProcess server({}, qemu + " " + program.string());
  RawSession session(server.port(), kId);
  const auto module = testing::build({.other_architecture = true, .compiler = "aarch64-linux-gnu-gcc"});
  const std::uint32_t handle = handle_of(session.load(module));
  EXPECT_TRUE(session.run(handle).body.AsRunFinished());
  // A system that knows how to run such programs (binfmt_misc) executes the emulator anew.
  if (std::filesystem::exists("/proc/sys/fs/binfmt_misc/qemu-aarch64")) return;
  EXPECT_THAT(server.errors(), HasSubstr("executors are forks of their session"));
  EXPECT_THAT(server.errors(), HasSubstr("modules could start processes"));
}

/// Whether any of the process's memory that can be read holds the bytes.
bool memory_holds(int pid, std::span<const std::uint8_t> bytes) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps"),
      memory("/proc/" + std::to_string(pid) + "/mem", std::ios::binary);
  EXPECT_TRUE(memory) << "the test may not read the process's memory";
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long long first = 0, end = 0;
    char readable = '-';
    if (std::sscanf(line.c_str(), "%llx-%llx %c", &first, &end, &readable) != 3 || readable != 'r') continue;
    if (end - first > (64u << 20)) continue;
    std::vector<char> content(end - first);
    memory.clear();
    if (!memory.seekg(static_cast<std::streamoff>(first)) ||
        !memory.read(content.data(), static_cast<std::streamsize>(content.size())))
      continue;
    if (std::search(content.begin(), content.end(), bytes.begin(), bytes.end(), [](char a, std::uint8_t b) {
          return static_cast<std::uint8_t>(a) == b;
        }) != content.end())
      return true;
  }
  return false;
}

TEST(Executor, HoldsNothingOfTheServersKey) {
  testing::TemporaryDirectory directory;
  const auto file = directory.path() / "board.key";
  const PskKey key = generate_key("bench");
  std::ofstream(file) << key_file_text(key);
  ::chmod(file.c_str(), 0600);
  ::setenv("TOKEN_OF_A_BUILD", "open sesame", 1);
  const ServerProcess server({"--key", file.string()});
  ::unsetenv("TOKEN_OF_A_BUILD");
  ConnectOptions options;
  options.address = server.address();
  options.key = key;
  const auto client = BoardClient::connect(options);
  client->load(client->upload(testing::build({})), {.threads = 1});
  const std::vector<int> processes = server.descendant_ids();
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_TRUE(memory_holds(processes[0], key.secret)) << "the session, for comparison";
  EXPECT_FALSE(memory_holds(processes[1], key.secret));
  EXPECT_THAT(about(processes[0], "environ"), HasSubstr("open sesame"));
  EXPECT_THAT(about(processes[1], "environ"), Not(HasSubstr("open sesame")));
}

TEST(Handles, GoOnWhereTheLastExecutorStopped) {
  ServerProcess server;
  RawSession session(server.port(), kId);
  const auto good = testing::build({}), bad = testing::build({.body = "__builtin_trap();"});
  const std::uint32_t first = handle_of(session.load(good));
  EXPECT_EQ(handle_of(session.load(bad)), first + 1);
  EXPECT_TRUE(session.run(first + 1).body.AsFailure());
  EXPECT_EQ(handle_of(session.load(good)), first + 2) << "in another process";
}

TEST(Handles, AnExecutorCannotGiveOneAgain) {
  ServerProcess server;
  RawSession session(server.port(), kId);
  const auto good = testing::build({});
  const std::uint32_t first = handle_of(session.load(good));
  const std::uint32_t second = handle_of(session.load(impostor(loaded_as(first))));
  ASSERT_TRUE(session.run(second).body.AsRunFinished());
  const wire::ResponseT answer = session.load(good);
  ASSERT_TRUE(answer.body.AsFailure());
  EXPECT_EQ(answer.body.AsFailure()->kind, wire::FailureKind::Board);
  EXPECT_THAT(answer.body.AsFailure()->message, HasSubstr("a handle that is not new"));
  EXPECT_GT(handle_of(session.load(good)), second) << "the session goes on";
}

TEST(Handles, NoneIsLeftAfterTheLast) {
  ServerProcess server({"--deadline", "5"});
  RawSession session(server.port(), kId);
  const auto good = testing::build({});
  constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
  const std::uint32_t first = handle_of(session.load(impostor(loaded_as(kLast))));
  ASSERT_TRUE(session.run(first).body.AsRunFinished());
  EXPECT_EQ(handle_of(session.load(good)), kLast);
  const wire::ResponseT answer = session.load(good);
  ASSERT_TRUE(answer.body.AsFailure());
  EXPECT_EQ(answer.body.AsFailure()->kind, wire::FailureKind::Reconnect);
  EXPECT_THAT(answer.body.AsFailure()->message, HasSubstr("connect again"));
}

}  // namespace
}  // namespace gantry::rpc
