// Turns of this user's programs that measure on this machine: files in a folder, locked while their owner
// lives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rpc/protocol/lease_priority.h"

namespace gantry::cli {

/// $XDG_RUNTIME_DIR/gantry-turns, or /tmp/gantry-turns-UID: not in $TMPDIR, which may be a job's own, while
/// turns are this machine's.
std::filesystem::path turns_folder();

/// One program's place. Whoever holds the lock (flock) on the file `lock` measures; who waits has a file of
/// its own, whose name sorts as they take turns: by priority, then by arrival. A program that is killed holds
/// no lock any more, so that nobody waits for it. Nobody is woken: who waits asks again. Belongs to one
/// thread.
class LocalTurns {
 public:
  /// Makes the folder, for this user alone. Board error where it cannot be made, or is somebody else's.
  LocalTurns(std::filesystem::path folder, std::string purpose, rpc::LeasePriority priority,
             double turn_s = 60);
  ~LocalTurns();
  LocalTurns(const LocalTurns&) = delete;
  LocalTurns& operator=(const LocalTurns&) = delete;

  /// True: it is this program's turn. False: it waits, at the same place as before. Board error where there
  /// can be no place for it in the queue.
  bool try_take();
  bool holds() const { return holds_; }
  /// Between two measurements: where the turn is over and others wait who would come first, or somebody of
  /// higher priority came, ends the turn and is the last of its priority again. True: try_take() is to
  /// follow. Board error as of that: the turn is over then, too.
  bool give_way();
  /// Ends the turn, or the waiting.
  void release();

  struct Holder {
    int process = 0;
    double since_s = 0;
    std::string purpose;
  };
  /// Of another program; none where nobody measures.
  std::optional<Holder> holder() const;
  /// Of those that wait before this one.
  size_t ahead() const;

 private:
  void queue();
  void leave_queue();
  /// Names of the files of living programs that wait, in their order.
  std::vector<std::string> waiting() const;

  std::filesystem::path folder_;
  std::string purpose_;
  rpc::LeasePriority priority_;
  double turn_s_;
  int lock_ = -1;
  int ticket_ = -1;
  std::string ticket_name_;  ///< "": not in the queue
  double held_since_s_ = 0;
  bool holds_ = false;
};

}  // namespace gantry::cli
