/// What sessions do on a board beside each other: a page that they share, so that who measures can say what
/// else ran.
#ifndef GANTRY_RPC_SERVER_BOARD_ACTIVITY_H
#define GANTRY_RPC_SERVER_BOARD_ACTIVITY_H

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "rpc/server/lease_messages.h"

namespace gantry::rpc {

enum class Activity : std::uint8_t { kRun, kLoad, kTransfer };
inline constexpr std::size_t kActivities = 3;

/// What one session did during a while.
struct OtherActivity {
  std::string key, address;
  struct Amount {
    std::uint64_t count = 0;  ///< that were under way
    double ms = 0;            ///< of the while
  };
  std::array<Amount, kActivities> amounts;  ///< by Activity
};

/// Every session counts in the slot that BoardMemory has given it, and reads those of all. A session that is
/// killed leaves its slot to the parent. Shared by processes that are forked after it was made. What a slot
/// says is another session's word: texts of bounded length, numbers that may be anything.
class BoardActivity {
 public:
  /// Throws Error(kBoard) if the system refuses the page.
  BoardActivity();
  ~BoardActivity();
  BoardActivity(const BoardActivity&) = delete;
  BoardActivity& operator=(const BoardActivity&) = delete;

  /// For a session: the slot is its own from now on.
  void open(int slot, const std::string& key, const std::string& address);
  /// For the parent: its session has ended, in whatever it did.
  void close(int slot);
  void begin(int slot, Activity activity);
  void end(int slot, Activity activity);

  struct Mark {
    struct Slot {
      std::uint64_t generation = 0;
      std::array<std::uint64_t, kActivities> count{}, busy_ns{};
    };
    std::uint64_t at_ns = 0;
    std::vector<Slot> slots;
  };
  Mark mark() const;
  /// What sessions in other slots have done since then; those alone that did something.
  std::vector<OtherActivity> since(const Mark& mark, int own_slot) const;
  /// For a session, before it starts an executor.
  void keep_from_children() const;

 private:
  struct Slot;
  Mark::Slot read(const Slot& slot, std::uint64_t now_ns) const;
  int used_slots() const;
  Slot* slots_;
};

/// Counts an activity for as long as it lives; nothing without a page or a slot.
class Doing {
 public:
  Doing(BoardActivity* board, int slot, Activity activity) : board_(board), slot_(slot), activity_(activity) {
    if (board_) board_->begin(slot_, activity_);
  }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;
  ~Doing() {
    if (board_) board_->end(slot_, activity_);
  }

 private:
  BoardActivity* board_;
  int slot_;
  Activity activity_;
};

}  // namespace gantry::rpc
#endif
