/// Processes that this one has started: who may signal and reap them, and when.
#ifndef GANTRY_RPC_SERVER_CHILD_PROCESS_H
#define GANTRY_RPC_SERVER_CHILD_PROCESS_H

#include <sys/types.h>

#include <optional>

#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

/// Owns a child from fork() on: only through it is the child signalled and reaped, exactly once. So no signal
/// can reach anybody else: neither a process that has got a dead child's number, nor all of the user's, which
/// kill() means by -1. The process that made the object is the owner; in a fork of it the object is
/// powerless.
class ChildProcess {
 public:
  /// No child: signals go nowhere.
  ChildProcess() = default;
  /// What fork() returned to the parent. No child where that is not positive.
  explicit ChildProcess(pid_t pid);
  /// Kills and reaps it, if it still lives.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;

  /// It has been started and not been reaped yet.
  bool running() const;
  /// Its number, -1 where there is none; to report, not to signal.
  pid_t pid() const { return pid_; }
  /// False: nobody got the signal, because there is no child, or no longer.
  bool signal(int number) noexcept;
  /// Waits for its end; what waitpid() says of it. None if there is no child.
  std::optional<int> wait() noexcept { return reap(0); }
  /// As wait(), but none while it lives.
  std::optional<int> wait_if_ended() noexcept;
  /// SIGKILL, then wait().
  std::optional<int> kill() noexcept;

 private:
  std::optional<int> reap(int options) noexcept;

  pid_t pid_ = -1;
  pid_t owner_ = -1;
  UniqueFd handle_;  ///< a pidfd; none before Linux 5.3, where the number does: nobody else reaps it
};

/// For a child between fork() and exec: all descriptors from that one on.
void close_descriptors_from(int first);

}  // namespace gantry::rpc
#endif
