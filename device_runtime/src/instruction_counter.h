// A thread's count of the instructions that it executes: of the processor by the kernel, or of the emulator
// under which the program runs.
#pragma once

#include <cstdint>
#include <utility>

#include "device_runtime/src/status.h"

namespace gantry::runtime {

/// Counts what one thread executes outside of the kernel. Exact where nothing but the thread's own code
/// decides what it executes: the same work has the same count, whatever else the machine does and however
/// long it takes.
///
/// By perf_event_open(2), PERF_COUNT_HW_INSTRUCTIONS; under qemu-user, which does not offer that, by a plugin
/// (emulated_counter.h).
class InstructionCounter {
 public:
  /// Counts nothing.
  InstructionCounter() = default;
  /// Of the thread that calls, which alone may read it. INCOMPATIBLE, with why, where there is none: the
  /// kernel allows it to nobody but root, the machine is a virtual one without counters, or the emulator has
  /// no plugin.
  static Result<InstructionCounter> open();
  ~InstructionCounter();
  InstructionCounter(InstructionCounter&& other) noexcept { *this = std::move(other); }
  InstructionCounter& operator=(InstructionCounter&& other) noexcept;

  /// Executed so far. False where the kernel has given the counter to somebody else since it was opened.
  bool read(uint64_t& count) const;
  /// By how much two reads differ that nothing stands between.
  uint64_t cost() const { return cost_; }

 private:
  enum class Source : uint8_t { kNone, kKernel, kEmulator };
  InstructionCounter(Source source, int descriptor) : source_(source), descriptor_(descriptor) {}
  /// Finds cost(); false where it does not count.
  bool counts();

  Source source_ = Source::kNone;
  int descriptor_ = -1;
  uint64_t cost_ = 0;
};

}  // namespace gantry::runtime
