#include "rpc/server/board_memory.h"

#include <sys/mman.h>

#include "rpc/error.h"

namespace gantry::rpc {

BoardMemory::BoardMemory(std::uint64_t capacity) : capacity_(capacity) {
  void* page =
      ::mmap(nullptr, sizeof(Slot) * kSlots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw Error(ErrorKind::kBoard, "the board has no memory for the server");
  slots_ = new (page) Slot[kSlots]();
}

BoardMemory::~BoardMemory() {
  ::munmap(slots_, sizeof(Slot) * kSlots);
}

std::optional<int> BoardMemory::take_slot() {
  for (int i = 0; i < kSlots; ++i) {
    const int slot = i < kSlotsInTurn ? (next_ + i) % kSlotsInTurn : i;
    if (slots_[slot].taken) continue;
    slots_[slot].bytes = 0;
    slots_[slot].taken = true;
    next_ = (slot + 1) % kSlotsInTurn;
    return slot;
  }
  return std::nullopt;
}

void BoardMemory::free_slot(int slot) {
  slots_[slot].taken = false;
}

bool BoardMemory::take(int slot, std::uint64_t bytes) {
  slots_[slot].bytes += bytes;  // first, so that two sessions cannot both take the last of it
  if (used() <= capacity_) return true;
  slots_[slot].bytes -= bytes;
  return false;
}

void BoardMemory::give_back(int slot, std::uint64_t bytes) {
  slots_[slot].bytes -= bytes;
}

std::uint64_t BoardMemory::used() const {
  std::uint64_t sum = 0;
  for (int i = 0; i < kSlots; ++i)
    if (slots_[i].taken) sum += slots_[i].bytes;
  return sum;
}

void BoardMemory::keep_from_children() const {
  (void)::madvise(slots_, sizeof(Slot) * kSlots, MADV_DONTFORK);
}

}  // namespace gantry::rpc
