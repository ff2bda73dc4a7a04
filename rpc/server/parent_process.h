/// The process that accepts connections and starts sessions.
#ifndef GANTRY_RPC_SERVER_PARENT_PROCESS_H
#define GANTRY_RPC_SERVER_PARENT_PROCESS_H

#include <chrono>
#include <optional>
#include <vector>

#include "rpc/security/tls.h"
#include "rpc/server/board_memory.h"
#include "rpc/server/child_process.h"
#include "rpc/server/options.h"
#include "rpc/server/report_budget.h"
#include "rpc/server/verified_segments.h"
#include "rpc/server/waiting_peers.h"

namespace gantry::rpc {

/// Accepts, looks at one byte, forks. It parses nothing that a peer sent, so that nothing a peer sends can
/// hurt it, and it has one thread, so that a fork of it is whole.
class ParentProcess {
 public:
  using Clock = std::chrono::steady_clock;

  /// `options` outlives it. `tls` is null for a server without a key.
  ParentProcess(const ServeOptions& options, UniqueFd listener, TlsContext tls);
  /// Until SIGTERM or SIGINT. Returns the process's exit code. Throws Error(kBoard) if the system refuses
  /// what it needs.
  int run();

 private:
  /// A session's process, whose peer need not have authenticated yet.
  struct Child {
    pid_t id;  ///< by which places_ knows it
    ChildProcess process;
    UniqueFd control;
    Clock::time_point handshake_deadline;
    Log log;
    std::optional<int> memory_slot;
    bool admitted = false;
    bool killed = false;  ///< it ends; SIGCHLD follows
  };

  int next_timeout() const;
  void poll_once();
  void accept_some();
  Log log_of(int connection);
  bool still_waits(WaitingPeer& peer);
  void expire();
  void read_signals();
  void begin_shutdown(int signal);
  void force_shutdown();
  void reap();
  void start_sessions();
  void start_session(WaitingPeer peer);
  [[noreturn]] void be_session(UniqueFd connection, UniqueFd control, std::optional<int> memory_slot);
  void answer_child(Child& child);

  const ServeOptions& options_;
  UniqueFd listener_;
  TlsContext tls_;
  int signals_ = -1;
  BoardMemory memory_;
  VerifiedSegments verified_;
  WaitingPeers waiting_;
  HandshakePlaces places_;
  std::vector<Child> children_;  // oldest first
  Clock::time_point accept_after_{};
  std::optional<Clock::time_point> force_at_;  // set while shutting down
  std::optional<Clock::time_point> kill_at_;   // set once sessions were told to end at once
  ReportBudget report_budget_;
  Log log_;
};

}  // namespace gantry::rpc
#endif
