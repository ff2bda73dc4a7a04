#include "rpc/server/board_activity.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>

#include "rpc/server/board_memory.h"

namespace gantry::rpc {
namespace {

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // the same for all processes
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

struct BoardActivity::Slot {
  std::atomic<std::uint64_t> generation;  // odd while the texts change; 0: nobody has been here
  struct Counters {
    std::atomic<std::uint64_t> count, busy_ns, began_ns;  // began: of what is under way, else 0
  };
  std::array<Counters, kActivities> counters;
  FixedText<kMaxIdentity> key;
  FixedText<kMaxAddressText> address;
};

BoardActivity::BoardActivity() {
  void* page = ::mmap(nullptr, sizeof(Slot) * BoardMemory::kSlots, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw Error(ErrorKind::kBoard, "the board has no memory for the server");
  slots_ = static_cast<Slot*>(page);  // zeros are what it begins with; untouched pages cost nothing
}

BoardActivity::~BoardActivity() {
  ::munmap(slots_, sizeof(Slot) * BoardMemory::kSlots);
}

void BoardActivity::keep_from_children() const {
  (void)::madvise(slots_, sizeof(Slot) * BoardMemory::kSlots, MADV_DONTFORK);
}

void BoardActivity::open(int slot, const std::string& key, const std::string& address) {
  Slot& own = slots_[slot];
  const std::uint64_t generation = own.generation | 1;
  own.generation = generation;
  for (Slot::Counters& counters : own.counters) counters.count = counters.busy_ns = counters.began_ns = 0;
  own.key = key;
  own.address = address;
  own.generation = generation + 1;
}

void BoardActivity::close(int slot) {
  for (std::size_t i = 0; i < kActivities; ++i) end(slot, static_cast<Activity>(i));
}

void BoardActivity::begin(int slot, Activity activity) {
  Slot::Counters& own = slots_[slot].counters[static_cast<std::size_t>(activity)];
  std::uint64_t none = 0;  // of two at once, what arrives and what is handed over, the first began it
  own.began_ns.compare_exchange_strong(none, now_ns());
  ++own.count;
}

void BoardActivity::end(int slot, Activity activity) {
  Slot::Counters& own = slots_[slot].counters[static_cast<std::size_t>(activity)];
  const std::uint64_t began = own.began_ns.exchange(0);
  if (began != 0) own.busy_ns += now_ns() - began;
}

BoardActivity::Mark::Slot BoardActivity::read(const Slot& slot, std::uint64_t now_ns) const {
  Mark::Slot result;
  result.generation = slot.generation;
  for (std::size_t i = 0; i < kActivities; ++i) {
    const std::uint64_t began = slot.counters[i].began_ns;
    result.busy_ns[i] = slot.counters[i].busy_ns + (began != 0 && began < now_ns ? now_ns - began : 0);
    // What is under way counts as not yet begun, so that it shows in what comes after the mark too.
    result.count[i] = slot.counters[i].count - (began != 0 ? 1 : 0);
  }
  return result;
}

/// Those in turn, which may have been anybody's, and of the others those that were needed.
int BoardActivity::used_slots() const {
  int used = BoardMemory::kSlotsInTurn;
  while (used < BoardMemory::kSlots && slots_[used].generation != 0) ++used;
  return used;
}

BoardActivity::Mark BoardActivity::mark() const {
  Mark result;
  result.at_ns = now_ns();
  for (int i = 0, used = used_slots(); i < used; ++i) result.slots.push_back(read(slots_[i], result.at_ns));
  return result;
}

std::vector<OtherActivity> BoardActivity::since(const Mark& mark, int own_slot) const {
  const std::uint64_t now = now_ns();
  const double longest_ms = static_cast<double>(now - mark.at_ns) / 1e6;
  std::vector<OtherActivity> others;
  for (int i = 0, used = used_slots(); i < used; ++i) {
    const Slot& slot = slots_[i];
    const Mark::Slot after = read(slot, now);
    const auto at = static_cast<std::size_t>(i);
    const bool known = at < mark.slots.size() && mark.slots[at].generation == after.generation;
    const Mark::Slot before = known ? mark.slots[at] : Mark::Slot{};
    if (i == own_slot || after.generation % 2 != 0) continue;
    OtherActivity other{slot.key.str(), slot.address.str(), {}};
    if (slot.generation != after.generation) continue;  // another session's by now
    bool any = false;
    for (std::size_t kind = 0; kind < kActivities; ++kind) {
      const bool under_way = slot.counters[kind].began_ns != 0;
      const std::uint64_t busy = after.busy_ns[kind] - std::min(after.busy_ns[kind], before.busy_ns[kind]);
      auto& amount = other.amounts[kind];
      amount.ms = std::min(static_cast<double>(busy) / 1e6, longest_ms);
      amount.count =
          after.count[kind] - std::min(after.count[kind], before.count[kind]) + (under_way ? 1 : 0);
      any = any || busy > 0;
    }
    if (any) others.push_back(std::move(other));
  }
  return others;
}

}  // namespace gantry::rpc
