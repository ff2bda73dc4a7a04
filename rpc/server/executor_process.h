/// The process in which a session's modules are loaded and run: what happens to it happens to nobody else.
#ifndef GANTRY_RPC_SERVER_EXECUTOR_PROCESS_H
#define GANTRY_RPC_SERVER_EXECUTOR_PROCESS_H

#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <optional>

#include "rpc/protocol/channel.h"
#include "rpc/server/attachments.h"
#include "rpc/server/executor_start.h"
#include "rpc/server/session_handles.h"

namespace gantry::rpc {

/// Talks with one executor after another: when one dies, the next call starts a fresh one.
class ExecutorProcess {
 public:
  struct Reply {
    Bytes frame;              ///< header and payload, verified
    UniqueFd payload;         ///< memory with the reply's data, if it has any
    Finish finish = kGoesOn;  ///< else the executor has ended after this reply
  };
  using OnProgress = std::function<asio::awaitable<void>(const Bytes& frame)>;

  /// `setup` must outlive the object; GPUs may become known later.
  ExecutorProcess(asio::any_io_executor executor, const ExecutorSetup& setup);
  ~ExecutorProcess();

  bool running() const { return child_.running(); }
  /// The last executor died while a GPU ran several kernels, of which call() could name none.
  bool died_in_a_graph() const { return !running() && step_ && (*step_)->filled.load() == 2; }
  /// Why the last executor is a fork of this process, an errno, though it was to be a program of its own; 0
  /// if it is one.
  int exec_error() const { return step_ ? (*step_)->exec_error.load() : 0; }
  /// Why modules could start processes in the last executor, an errno; 0 if they cannot.
  int fork_error() const { return step_ ? (*step_)->fork_error.load() : 0; }
  /// Checks the answer to a request, a load or another, for a handle that this session has not had. Throws
  /// Error(kBoard), having ended the executor, if it is none.
  void check_handle(bool loads, const wire::ResponseT& answer);
  /// Throws Error(kReconnect) if the session can have no further handle.
  void require_handle() const { (void)handles_.next(); }
  /// Sends a request (a whole frame) with copies of its attachments, and waits for the reply. One call at a
  /// time. Throws Error(kBoard), which says what killed the executor, in which kernel of which nodes, if
  /// it died or was killed because `deadline` passed.
  asio::awaitable<Reply> call(const Bytes& frame, const Attachments& attachments,
                              std::chrono::milliseconds deadline, const OnProgress& on_progress);
  /// Ends the executor at once; a call() that waits fails.
  void kill() noexcept;

 private:
  void start();
  asio::awaitable<void> send(const Bytes& frame, const Attachments& attachments);
  asio::awaitable<std::size_t> receive(void* buffer, std::size_t size, std::vector<UniqueFd>& payload);
  asio::awaitable<std::optional<Reply>> receive_reply();
  static asio::awaitable<void> told(const OnProgress& on_progress, const Bytes& frame);
  [[noreturn]] void report_death(bool deadline_passed, std::chrono::milliseconds deadline);

  asio::any_io_executor executor_;
  const ExecutorSetup& setup_;
  std::optional<StepMemory> step_;
  std::optional<asio::posix::stream_descriptor> socket_;
  ChildProcess child_;
  bool knows_gpus_ = false;  ///< the running executor has been sent setup_.gpus
  SessionHandles handles_;
};

}  // namespace gantry::rpc
#endif
