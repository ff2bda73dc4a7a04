// The process in which modules run: what it may do, and what its session believes of it.
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "rpc/client/client.h"
#include "tests/device_runtime/module_builder.h"
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
  expect_position_independent(GANTRY_DEVICE_PROGRAM);
}

TEST(Executor, NorHasTheStaticProgram) {
  const std::filesystem::path program = GANTRY_SOURCE_DIR "/build-aarch64/bin/gantry-device";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "no gantry-device built for AArch64";
  expect_position_independent(program);
}

TEST(Executor, LiesAtOtherAddressesThanTheServerAndOtherExecutors) {
  if (contents("/proc/sys/kernel/randomize_va_space").starts_with("0"))
    GTEST_SKIP() << "the system has randomised addresses switched off";
  if (::geteuid() != 0) GTEST_SKIP() << "only root may look at the server's addresses";
  const ServerProcess server;
  RawSession first(server.port(), kId), second(server.port(), kId);
  handle_of(first.load(testing::build({})));
  handle_of(second.load(testing::build({})));
  const std::vector<int> processes = server.processes();
  ASSERT_EQ(processes.size(), 5u) << "the server, two sessions, two executors";
  const std::set<std::string> addresses = {program_address(server.pid()), program_address(processes[3]),
                                           program_address(processes[4])};
  EXPECT_EQ(addresses.size(), 3u) << ::testing::PrintToString(addresses);
  EXPECT_THAT(addresses, Not(::testing::Contains("none")));
}

TEST(Executor, GoesOnWhenTheProgramsFileIsReplaced) {
  testing::TemporaryDirectory directory;
  const auto program = directory.path() / "gantry-device";
  std::filesystem::copy_file(GANTRY_DEVICE_PROGRAM, program);
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
  if (::geteuid() != 0) GTEST_SKIP() << "only root may look into the session's memory";
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
  const std::vector<int> processes = server.processes();
  ASSERT_EQ(processes.size(), 3u) << "the server, a session, its executor";
  EXPECT_TRUE(memory_holds(processes[0], key.secret)) << "the server, for comparison";
  EXPECT_FALSE(memory_holds(processes[2], key.secret));
  EXPECT_THAT(about(processes[0], "environ"), HasSubstr("open sesame"));
  EXPECT_THAT(about(processes[2], "environ"), Not(HasSubstr("open sesame")));
}

/// A session over a socket, its executor, and what a kernel there that may call the system finds out.
class Confined {
 public:
  explicit Confined(const std::vector<std::string>& arguments = {}, const std::string& program = {})
      : server_(arguments, program) {
    ConnectOptions options;
    options.address = server_.address();
    client_ = BoardClient::connect(options);
  }
  /// Runs the code, in which `call(number, six arguments)` calls the system; returns its four results, out[].
  std::vector<float> run(const std::string& code) {
    const auto module = client_->load(
        client_->upload(testing::build({.body = testing::with_system_calls(code + " return 0;")})),
        {.threads = 1});
    const std::int64_t shape[] = {4};
    client_->set_input(module.handle, 0, {}, shape, std::vector<std::byte>(16));
    client_->run(module.handle);
    const Tensor tensor = client_->get_output(module.handle, 0);
    std::vector<float> values(4);
    std::memcpy(values.data(), tensor.bytes.data(), sizeof(float) * values.size());
    return values;
  }
  int executor() const { return server_.processes().at(2); }
  const ServerProcess& server() const { return server_; }
  BoardClient& client() { return *client_; }

 private:
  ServerProcess server_;
  std::unique_ptr<BoardClient> client_;
};

/// "call(57, 0, 0, 0, 0, 0, 0)"
std::string call(long number, const std::string& arguments = "0, 0, 0, 0, 0, 0") {
  return "call(" + std::to_string(number) + ", " + arguments + ")";
}

bool filters_system_calls(int pid) {
  return about(pid, "status").find("Seccomp:\t2") != std::string::npos;
}

// A child, where one comes to life after all, ends at once.
const std::string kChildEnds = " if (child == 0) " + call(SYS_exit) + ";";

TEST(Confinement, AModuleStartsNoProcess) {
  Confined confined;
  std::string code = "int born = 0; for (int i = 0; i < 100; ++i) { long child = " +
                     call(SYS_clone, std::to_string(SIGCHLD) + ", 0, 0, 0, 0, 0") + ";" + kChildEnds +
                     " born += child > 0; }";
#if defined(SYS_fork)
  code += "{ long child = " + call(SYS_fork) + ";" + kChildEnds + " born += child > 0; }";
#endif
  code +=
      "char program[] = \"/bin/true\"; long arguments[2] = {(long)program, 0};"
      "out[0] = born; out[1] = (float)" +
      call(SYS_execve, "(long)program, (long)arguments, 0, 0, 0, 0") + "; out[2] = (float)" +
      call(435 /* clone3 */) + ";";
  const auto results = confined.run(code);
  if (!filters_system_calls(confined.executor())) GTEST_SKIP() << "the system does not filter system calls";
  EXPECT_EQ(results[0], 0) << "processes started";
  EXPECT_EQ(results[1], -EPERM);
  EXPECT_EQ(results[2], -ENOSYS) << "where a filter cannot see what is started";
}

TEST(Confinement, AModuleStillHasItsThreads) {
  Confined confined;
  auto& client = confined.client();
  const auto module = client.load(client.upload(testing::build({})), {.threads = 4});
  EXPECT_THAT(about(confined.executor(), "status"), HasSubstr("Threads:\t4"));
  const std::int64_t shape[] = {4};
  client.set_input(module.handle, 0, {}, shape, std::vector<std::byte>(16));
  client.run(module.handle);
}

TEST(Confinement, FilesThatAModuleOpensHaveAnEnd) {
  Confined confined;
  const auto results = confined.run(
      "char file[] = \"/proc/self/stat\"; long first = -1, at, opened = 0; while (opened < 100000 && (at = " +
      call(SYS_openat, "-100, (long)file, 0, 0, 0, 0") +
      ") >= 0) { if (first < 0) first = at; ++opened; } out[0] = opened;"
      "for (long i = 0; i < opened; ++i) " +
      call(SYS_close, "first + i, 0, 0, 0, 0, 0") + ";");
  EXPECT_GT(results[0], 100);
  EXPECT_LT(results[0], 6000);
}

TEST(Confinement, AFileIsNoLargerThanTheSessionsMemory) {
  Confined confined({"--session-memory", "64MiB"});
  const std::string code =
      "char name[] = \"x\"; long file = " + call(SYS_memfd_create, "(long)name, 0, 0, 0, 0, 0") +
      "; out[0] = (float)" + call(SYS_ftruncate, "file, 60l << 20, 0, 0, 0, 0") + "; out[1] = (float)" +
      call(SYS_ftruncate, "file, 70l << 20, 0, 0, 0, 0") + ";";
  const auto results = confined.run(code);
  EXPECT_EQ(results[0], 0);
  EXPECT_EQ(results[1], -EFBIG);
}

TEST(Confinement, AnExecutorHasNoDescriptorBesideItsOwn) {
  Confined confined;
  // The file of a cached segment is among those that the session holds.
  const auto results =
      confined.run("int open = 0; for (int i = 0; i < 1000; ++i) open += " +
                   call(SYS_fcntl, "i, " + std::to_string(F_GETFD) + ", 0, 0, 0, 0") +
                   " >= 0; out[0] = open; char line[] = \"forged\\n\";" + "for (int i = 0; i < 3; ++i) " +
                   call(SYS_write, "i, (long)line, 7, 0, 0, 0") + ";");
  EXPECT_EQ(results[0], 5);
  const std::string folder = "/proc/" + std::to_string(confined.executor()) + "/fd/";
  for (const char* stream : {"0", "1", "2"})
    EXPECT_EQ(std::filesystem::read_symlink(folder + stream), "/dev/null");
  EXPECT_THAT(std::filesystem::read_symlink(folder + "3").string(), HasSubstr("socket:"));
  EXPECT_THAT(std::filesystem::read_symlink(folder + "4").string(), HasSubstr("gantry-step"));
  EXPECT_THAT(confined.server().errors(), Not(HasSubstr("forged")));
  EXPECT_THAT(about(confined.executor(), "cmdline"), Not(HasSubstr("cache")));
}

TEST(Confinement, AModuleTracesNeitherItsSessionNorTheServer) {
  Confined confined;
  constexpr int kSeize = 0x4206;  // does not stop the process
  const auto seize = [](const std::string& pid) {
    return call(SYS_ptrace, std::to_string(kSeize) + ", " + pid + ", 0, 0, 0, 0");
  };
  const auto results = confined.run("out[0] = (float)" + seize(call(SYS_getppid)) + "; out[1] = (float)" +
                                    seize(std::to_string(confined.server().pid())) + ";");
  EXPECT_EQ(results[0], -EPERM);
  EXPECT_EQ(results[1], -EPERM);
}

/// The hard limit, "unlimited" or a number.
std::string hard_limit(int pid, const std::string& name) {
  std::istringstream lines(about(pid, "limits"));
  std::string line, soft, hard;
  while (std::getline(lines, line)) {
    if (!line.starts_with(name)) continue;
    std::istringstream(line.substr(26)) >> soft >> hard;
    return hard;
  }
  return "none";
}

TEST(Confinement, AnExecutorHasNoPrivilegesAndHardLimits) {
  Confined confined({"--session-memory", "512MiB"});
  const auto results =
      confined.run("unsigned long limit[2] = {1ul << 40, 1ul << 40}; out[0] = (float)" +
                   call(SYS_prlimit64, "0, " + std::to_string(RLIMIT_CORE) + ", (long)limit, 0, 0, 0") + ";");
  EXPECT_EQ(results[0], -EPERM) << "a module cannot raise them";
  const int executor = confined.executor();
  EXPECT_THAT(about(executor, "status"), HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(about(executor, "status"), HasSubstr("CapEff:\t0000000000000000"));
  EXPECT_THAT(about(executor, "status"), HasSubstr("CapPrm:\t0000000000000000"));
  EXPECT_EQ(hard_limit(executor, "Max core file size"), "0");
  EXPECT_EQ(hard_limit(executor, "Max file size"), std::to_string(512u << 20));
  for (const char* name : {"Max open files", "Max processes"})
    EXPECT_NE(hard_limit(executor, name), "unlimited") << name;
}

TEST(Confinement, ThreadsOfOneModuleHaveAnEndToo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  const std::string setpriv = "/usr/bin/setpriv";
  if (!std::filesystem::exists(setpriv)) GTEST_SKIP() << "no setpriv";
  testing::TemporaryDirectory directory;
  std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
  Confined confined({"--cache", (directory.path() / "cache").string()},
                    setpriv + " --reuid 61234 --regid 61234 --clear-groups " GANTRY_DEVICE_PROGRAM);
  confined.run("");
  const std::string most = hard_limit(confined.executor(), "Max processes");
  EXPECT_LT(std::stoul(most), 4096u + 20000u);
  EXPECT_GE(std::stoul(most), 4096u);
}

TEST(Confinement, AModuleOfManySegmentsLoads) {
  runtime::testing::ModuleBuilder builder = runtime::testing::static_module();
  for (int i = 0; i < 600; ++i) builder.constant_buffer(std::vector<float>(16, static_cast<float>(i)));
  Confined confined;
  auto& client = confined.client();
  const auto handle = client.upload(builder.write());
  EXPECT_GT(handle.report().segments, 600u);
  const auto module = client.load(handle, {.threads = 1});
  const std::int64_t shape[] = {2, 3};
  client.set_input(module.handle, 0, {}, shape, std::vector<std::byte>(24));
  client.run(module.handle);
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
