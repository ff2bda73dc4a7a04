#include "rpc/server/child_process.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace gantry::rpc {
namespace {

// By their numbers, which are the same on every architecture: glibc has had the names since 2.36 only.
constexpr long kPidfdSendSignal = 424;
constexpr long kPidfdOpen = 434;

}  // namespace

ChildProcess::ChildProcess(pid_t pid) {
  if (pid <= 0) return;
  pid_ = pid;
  owner_ = ::getpid();
  handle_.reset(static_cast<int>(::syscall(kPidfdOpen, pid, 0)));
}

ChildProcess::~ChildProcess() {
  kill();
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      owner_(std::exchange(other.owner_, -1)),
      handle_(std::move(other.handle_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  kill();
  pid_ = std::exchange(other.pid_, -1);
  owner_ = std::exchange(other.owner_, -1);
  handle_ = std::move(other.handle_);
  return *this;
}

bool ChildProcess::running() const {
  return pid_ > 0 && owner_ == ::getpid();
}

bool ChildProcess::signal(int number) noexcept {
  if (!running()) return false;
  if (handle_) {
    if (::syscall(kPidfdSendSignal, handle_.get(), number, nullptr, 0) == 0) return true;
    if (errno != ENOSYS && errno != EPERM)
      return false;  // a filter of system calls may refuse this one alone
  }
  // Not reaped yet, so that the number is still its own.
  return ::kill(pid_, number) == 0;
}

std::optional<int> ChildProcess::wait_if_ended() noexcept {
  return reap(WNOHANG);
}

std::optional<int> ChildProcess::kill() noexcept {
  signal(SIGKILL);
  return reap(0);
}

std::optional<int> ChildProcess::reap(int options) noexcept {
  if (!running()) return std::nullopt;
  int status = 0;
  pid_t result = 0;
  while ((result = ::waitpid(pid_, &status, options)) < 0 && errno == EINTR) {
  }
  if (result == 0) return std::nullopt;
  const bool reaped = result == pid_;
  pid_ = -1;  // also where the system knows no such child any more
  handle_.reset();
  return reaped ? std::optional(status) : std::nullopt;
}

void close_descriptors_from(int first) {
#if defined(SYS_close_range)
  // Not by its name: glibc has it only since 2.34.
  if (::syscall(SYS_close_range, first, ~0u, 0) == 0) return;
#endif
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 16));
  for (int fd = first; fd < end; ++fd) ::close(fd);
}

}  // namespace gantry::rpc
