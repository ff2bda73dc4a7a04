/// The process that accepts connections and starts sessions.
#ifndef GANTRY_RPC_SERVER_PARENT_PROCESS_H
#define GANTRY_RPC_SERVER_PARENT_PROCESS_H

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "rpc/security/tls.h"
#include "rpc/server/admission.h"
#include "rpc/server/announcement.h"
#include "rpc/server/board_activity.h"
#include "rpc/server/board_memory.h"
#include "rpc/server/child_process.h"
#include "rpc/server/key_store.h"
#include "rpc/server/lease_desk.h"
#include "rpc/server/options.h"
#include "rpc/server/report_budget.h"
#include "rpc/server/verified_segments.h"
#include "rpc/server/waiting_peers.h"

namespace gantry::rpc {

/// Accepts, looks at one byte, forks. It parses nothing that a peer sent, so that nothing a peer sends can
/// hurt it; what its own sessions tell it are messages of fixed size. It has one thread, so that a fork of it
/// is whole.
class ParentProcess {
 public:
  using Clock = std::chrono::steady_clock;

  /// `options` outlives it. `keys` is null for a server without keys.
  ParentProcess(const ServeOptions& options, UniqueFd listener, std::unique_ptr<KeyStore> keys);
  /// While it runs, the network hears of this.
  void announce(AnnouncedService service);
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
    bool has_asked = false;
    bool admitted = false;
    KeySerial key = 0;                              ///< of an admitted one, where keys are needed
    LeaseParty party = {};                          ///< of an admitted one
    std::optional<Clock::time_point> kill_at = {};  ///< set once it was told to end
    bool killed = false;                            ///< it ends; SIGCHLD follows
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
  void turn_away(WaitingPeer& peer);
  [[noreturn]] void be_session(UniqueFd connection, UniqueFd control, std::optional<int> memory_slot);
  void answer_child(Child& child);
  void answer_lease(Child& child);
  void send_to(pid_t child, std::span<const std::byte> message);
  void report_lease(pid_t child, const std::string& event);
  LeaseTerms lease_terms() const;
  char answer_to(const AskAdmission& question);
  void check_keys();
  void read_keys_again();

  const ServeOptions& options_;
  UniqueFd listener_;
  std::unique_ptr<KeyStore> keys_;
  TlsContext tls_;
  Clock::time_point keys_checked_{};
  int signals_ = -1;
  BoardMemory memory_;
  VerifiedSegments verified_;
  BoardActivity activity_;
  LeaseDesk leases_;
  WaitingPeers waiting_;
  HandshakePlaces places_;
  std::vector<Child> children_;  // oldest first
  std::optional<Announcement> announcement_;
  Clock::time_point accept_after_{};
  std::optional<Clock::time_point> force_at_;  // set while shutting down
  std::optional<Clock::time_point> kill_at_;   // set once sessions were told to end at once
  ReportBudget report_budget_;
  Log log_;
};

}  // namespace gantry::rpc
#endif
