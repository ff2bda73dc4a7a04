// One run, timed on every thread: when each step began and ended, and when which thread computed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device_runtime/src/observed_host.h"
#include "device_runtime/src/status.h"

namespace gantry::runtime {

/// What a traced run has shown. Times are since its begin.
struct RunTimeline {
  struct Thread {
    std::string name;  ///< "thread 0", which is the one that runs the session; "GPU"
    int cpu = -1;      ///< that it computed on; -1: none, or several
  };
  struct Step {
    int64_t begin_ns = 0, end_ns = 0;
  };
  /// A stretch in which a thread computed a part of a step.
  struct Span {
    uint32_t thread = 0, step = 0;
    int64_t begin_ns = 0, end_ns = 0;
  };
  int64_t run_ns = 0;
  std::vector<Thread> threads;
  std::vector<Step> steps;  ///< in the plan's order
  std::vector<Span> spans;  ///< a thread's together and in order, which do not overlap
};

/// Stands between kernels and their host while one run lasts, and stamps what passes. Runs that are not
/// traced never come here, and pay nothing.
///
/// A thread computes while it is in the body of a loop; the one that runs the session also does between a
/// step's begin and end wherever it does not wait for the others. Pauses below kPauseNanoseconds are none: a
/// thread that takes the next piece of a loop goes on. Of a step a thread has at most kMostSpansOfStep
/// stretches, the last of which then holds what would come behind it, pauses included. All memory is there
/// before the run: a stamp costs a look at the clock, twice for each piece of a loop.
///
/// Belongs to the thread that runs; its pool's threads write through host(), which kernels are to be given
/// between begin and end.
class RunTrace : public ObservedHost<RunTrace> {
 public:
  static constexpr int64_t kPauseNanoseconds = 1000;
  static constexpr uint32_t kMostSpansOfStep = 8;
  /// Of all threads and steps; 6 MiB.
  static constexpr uint64_t kMostSpans = uint64_t{1} << 18;

  RunTrace() = default;
  /// INVALID_ARGUMENT where so many threads and steps could have more than kMostSpans stretches, even one
  /// each.
  static Result<RunTrace> create(int threads, size_t steps);

  /// Drops what was stamped, and begins to.
  void begin(const GantryKernelHost& host);
  void begin_step(size_t step);
  void end_step();
  /// The run is over. Steps that were not run have no time.
  RunTimeline end();

  /// The timeline of a device that runs one step after another and tells how long each took.
  static RunTimeline one_after_another(std::span<const int64_t> nanoseconds, const char* track);

 private:
  friend class ObservedHost<RunTrace>;
  /// What one thread writes, on cache lines of its own.
  struct alignas(64) Track {
    std::vector<RunTimeline::Span> spans;  ///< has room for all
    uint32_t of_step = 0;                  ///< how many of the last one's step
    bool inside = false;                   ///< a body of a loop
    bool moved = false;                    ///< has computed on several CPUs
    int cpu = -1;
  };

  bool& is_inside(size_t thread) { return tracks_[thread].inside; }
  int32_t run(size_t thread, const Loop& loop, int64_t begin, int64_t end);
  bool continues(const Track& track, int64_t begin) const;
  void add(Track& track, uint32_t thread, int64_t begin, int64_t end) const;
  void add_alone(int64_t now);
  void enter_loop();
  void leave_loop();

  std::vector<Track> tracks_;
  std::vector<RunTimeline::Step> steps_;
  uint32_t most_of_step_ = 0;
  uint32_t step_ = 0;
  int64_t begin_ = 0;
  int64_t alone_since_ = 0;  ///< the calling thread computes outside of loops
  bool looped_ = false;      ///< the step has come to a loop
};

}  // namespace gantry::runtime
