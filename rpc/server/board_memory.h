/// How much data all sessions of a server hold together: a page that they share.
#ifndef GANTRY_RPC_SERVER_BOARD_MEMORY_H
#define GANTRY_RPC_SERVER_BOARD_MEMORY_H

#include <atomic>
#include <cstdint>
#include <optional>

namespace gantry::rpc {

/// A budget of bytes for several processes. The parent makes it and gives each session that it forks a slot;
/// what stands in the slot of a session that was killed goes with the slot. Only what has arrived is counted:
/// a size that a client announces takes nothing from other sessions.
class BoardMemory {
 public:
  static constexpr int kSlots = 2048;
  /// So many are given out in turn, the others only where these are taken.
  static constexpr int kSlotsInTurn = 64;

  /// Throws Error(kBoard) if the system refuses the page.
  explicit BoardMemory(std::uint64_t capacity);
  ~BoardMemory();
  BoardMemory(const BoardMemory&) = delete;
  BoardMemory& operator=(const BoardMemory&) = delete;

  /// For the parent: a free slot, none where there are too many processes. Not the one that was freed last,
  /// so that what another page says of its session (BoardActivity) stays for a while.
  std::optional<int> take_slot();
  void free_slot(int slot);

  /// For a session: takes `bytes`, or returns false and takes none if they are not left.
  bool take(int slot, std::uint64_t bytes);
  void give_back(int slot, std::uint64_t bytes);
  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t used() const;
  /// For a session, before it starts an executor: a process that runs modules is no place for the page.
  void keep_from_children() const;

 private:
  struct Slot {
    std::atomic<std::uint64_t> bytes;
    std::atomic<bool> taken;
  };
  std::uint64_t capacity_;
  Slot* slots_;
  int next_ = 0;
};

}  // namespace gantry::rpc
#endif
