// Signals reach the child that they are meant for, or nobody. kill() is this file's own for the whole
// program: it keeps what it was asked for, and lets nothing through that means more than one process.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <thread>

#include "rpc/server/child_process.h"
#include "rpc/server/executor_process.h"

namespace {
std::vector<pid_t> signalled_by_number;
}

extern "C" int kill(pid_t pid, int number) noexcept {
  signalled_by_number.push_back(pid);
  if (pid > 0) return static_cast<int>(::syscall(SYS_kill, pid, number));
  errno = EPERM;
  return -1;
}

namespace gantry::rpc {
namespace {

using ::testing::Each;
using ::testing::Gt;

/// A child that does nothing until a signal ends it.
ChildProcess sleeper() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  return ChildProcess(pid);
}

bool was_killed_by(const std::optional<int>& status, int number) {
  return status && WIFSIGNALED(*status) && WTERMSIG(*status) == number;
}

TEST(ChildProcess, NoneIsSignalledWhereThereIsNone) {
  signalled_by_number.clear();
  for (const pid_t pid : {0, -1, -7}) {
    ChildProcess child(pid);
    EXPECT_FALSE(child.running());
    EXPECT_FALSE(child.signal(SIGKILL));
    EXPECT_FALSE(child.kill());
  }
  ChildProcess none;
  EXPECT_FALSE(none.signal(SIGTERM));
  EXPECT_FALSE(none.wait());
  EXPECT_FALSE(none.wait_if_ended());
  EXPECT_THAT(signalled_by_number, ::testing::IsEmpty());
}

TEST(ChildProcess, ASignalAfterTheReapReachesNobodyAndSaysSo) {
  ChildProcess child = sleeper();
  EXPECT_TRUE(child.running());
  EXPECT_FALSE(child.wait_if_ended());
  EXPECT_TRUE(child.signal(SIGTERM));
  EXPECT_TRUE(was_killed_by(child.wait(), SIGTERM));
  signalled_by_number.clear();
  EXPECT_FALSE(child.running());
  EXPECT_FALSE(child.signal(SIGKILL));
  EXPECT_FALSE(child.wait());
  EXPECT_THAT(signalled_by_number, ::testing::IsEmpty());
}

TEST(ChildProcess, IsKilledAndReapedWhenItsOwnerGoes) {
  pid_t pid = -1;
  {
    const ChildProcess child = sleeper();
    pid = child.pid();
    EXPECT_EQ(::syscall(SYS_kill, pid, 0), 0);
  }
  EXPECT_EQ(::syscall(SYS_kill, pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(ChildProcess, MovingHandsTheChildOver) {
  ChildProcess first = sleeper(), second = std::move(first);
  EXPECT_FALSE(first.signal(SIGKILL));  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(second.running());
  const pid_t replaced = second.pid();
  second = sleeper();
  EXPECT_EQ(::syscall(SYS_kill, replaced, 0), -1) << "what is replaced is killed";
  EXPECT_TRUE(was_killed_by(second.kill(), SIGKILL));
}

TEST(ChildProcess, AForkOfItsOwnerHasNoPowerOverIt) {
  ChildProcess child = sleeper();
  const pid_t fork = ::fork();
  if (fork == 0) {
    const bool powerless = !child.running() && !child.signal(SIGKILL) && !child.kill();
    child = ChildProcess();  // nor does its end there
    ::_exit(powerless ? 0 : 1);
  }
  EXPECT_EQ(ChildProcess(fork).wait(), 0);
  EXPECT_FALSE(child.wait_if_ended()) << "it lives";
}

/// Older kernels than 5.3, for this process from now on: no pidfd. False where the system has no filters.
bool forbid_pidfds() {
  constexpr unsigned kPidfdOpen = 434;
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kPidfdOpen, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{4, program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

TEST(ChildProcess, OlderKernelsSignalByTheNumber) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (!forbid_pidfds()) ::_exit(77);
    ChildProcess child = sleeper();
    signalled_by_number.clear();
    const pid_t number = child.pid();
    const bool killed = child.signal(SIGTERM) && was_killed_by(child.wait(), SIGTERM);
    ::_exit(killed && signalled_by_number == std::vector<pid_t>{number} && !child.signal(SIGKILL) ? 0 : 1);
  }
  const auto status = ChildProcess(pid).wait();
  ASSERT_TRUE(status && WIFEXITED(*status));
  if (WEXITSTATUS(*status) == 77) GTEST_SKIP() << "the kernel has no filters of system calls";
  EXPECT_EQ(WEXITSTATUS(*status), 0);
}

TEST(ExecutorProcess, ADeadlineBesideADisconnectSignalsNobodyElse) {
  signalled_by_number.clear();
  asio::io_context io(1);
  const ExecutorSetup setup{{std::uint64_t{1} << 30}, -1, {}};
  ExecutorProcess process(io.get_executor(), setup);
  // A header that announces more than comes: the executor waits for the rest.
  const FrameHeaderBytes header = encode_header({FrameType::kRequest, 1, 100});
  const Bytes frame(header.begin(), header.end());
  const ExecutorProcess::OnProgress ignore = [](const Bytes&) -> asio::awaitable<void> { co_return; };
  const Attachments none;
  std::optional<ErrorKind> ended;
  asio::co_spawn(io, process.call(frame, none, std::chrono::milliseconds(300), ignore),
                 [&](std::exception_ptr failure, ExecutorProcess::Reply) {
                   try {
                     if (failure) std::rethrow_exception(failure);
                   } catch (const Error& error) {
                     ended = error.kind();
                   }
                 });
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  asio::posix::stream_descriptor client(io, ends[0]);
  client.async_wait(asio::posix::stream_descriptor::wait_read, [&](std::error_code) { process.kill(); });
  io.poll();
  ASSERT_TRUE(process.running());
  // The client goes and both deadlines pass before the session looks again: all in one batch.
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(900));
  io.run();
  EXPECT_EQ(ended, ErrorKind::kReconnect);
  EXPECT_FALSE(process.running());
  EXPECT_THAT(signalled_by_number, Each(Gt(0)));
  ::close(ends[1]);
}

}  // namespace
}  // namespace gantry::rpc
