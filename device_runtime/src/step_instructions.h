// What each step of a run executes, on all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device_runtime/src/instruction_counter.h"
#include "device_runtime/src/observed_host.h"
#include "device_runtime/src/status.h"
#include "device_runtime/src/thread_pool.h"

namespace gantry::runtime {

/// Stands between kernels and their host while one run lasts, as RunTrace does, and counts what its threads
/// execute: in bodies of loops, and, of the thread that runs the session, between a step's begin and end
/// wherever it does not wait for the others. How long threads wait, spinning, does not count; nor does what
/// counting itself executes.
///
/// Belongs to the thread that created it, which is the one that runs; its pool's threads count through
/// host(), which kernels are to be given between begin and end. The pool must live longer.
class StepInstructions : public ObservedHost<StepInstructions> {
 public:
  StepInstructions() = default;
  /// Opens a counter on each of the pool's threads. INCOMPATIBLE where there is none
  /// (InstructionCounter::open).
  static Result<StepInstructions> create(ThreadPool& pool, size_t steps);

  /// Drops what was counted, and begins to.
  void begin(const GantryKernelHost& host);
  void begin_step(size_t step);
  void end_step();
  /// The run is over: of each step, those of all threads; of a step that was not run, 0. INCOMPATIBLE where a
  /// counter was taken away meanwhile, or counted nothing.
  Result<std::vector<uint64_t>> end();

 private:
  friend class ObservedHost<StepInstructions>;
  /// What one thread writes, on cache lines of its own.
  struct alignas(64) Track {
    InstructionCounter counter;
    uint64_t of_step = 0;
    bool inside = false;  ///< a body of a loop
    bool lost = false;    ///< a read has failed
    uint64_t read();
    void add_since(uint64_t before);
  };

  bool& is_inside(size_t thread) { return tracks_[thread].inside; }
  int32_t run(size_t thread, const Loop& loop, int64_t begin, int64_t end);
  void enter_loop();
  void leave_loop();

  std::vector<Track> tracks_;
  std::vector<uint64_t> steps_;
  size_t step_ = 0;
  uint64_t alone_since_ = 0;  ///< by the calling thread's counter: it computes outside of loops
};

}  // namespace gantry::runtime
