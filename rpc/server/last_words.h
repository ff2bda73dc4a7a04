/// What an executor leaves behind when it dies: where it was.
#ifndef GANTRY_RPC_SERVER_LAST_WORDS_H
#define GANTRY_RPC_SERVER_LAST_WORDS_H

#include <atomic>
#include <cstdint>
#include <string>

#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

/// Why an executor ends by itself.
enum Finish : std::uint32_t {
  kGoesOn,
  kGpuLost,           ///< a kernel faulted, which the reply names
  kGpuLostUnknownAt,  ///< some kernel faulted
};

/// In memory that a session and its executors share; an executor may have written anything there.
struct SharedStep {
  std::atomic<std::uint32_t> filled;     ///< 0: it was in no kernel; 2: in one of several, on a GPU
  std::atomic<std::uint32_t> finished;   ///< a Finish: it lives on no longer than its next reply
  std::atomic<std::int32_t> exec_error;  ///< why it is a fork of its session; 0: it is a program of its own
  std::atomic<std::int32_t> fork_error;  ///< why modules could start processes there; 0: they cannot
  std::int32_t index;                    ///< of the step in the plan
  char symbol[128];                      ///< the kernel's name
  char ops[256];
  char origin[1024];
};

/// A SharedStep and a descriptor by which another program can map it. Its size is fixed for good.
class StepMemory {
 public:
  /// Throws Error(kBoard) if the system has no memory for it.
  StepMemory();
  /// What another process made.
  explicit StepMemory(UniqueFd descriptor);
  ~StepMemory();
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;
  SharedStep* operator->() const { return step_; }
  SharedStep& operator*() const { return *step_; }
  int descriptor() const { return descriptor_.get(); }

 private:
  void map();

  UniqueFd descriptor_;
  SharedStep* step_ = nullptr;
};

/// Sent to an executor whose deadline has passed: it leaves its SharedStep and dies.
inline constexpr int kDeadlineSignal = 10;  // SIGUSR1

/// From now on a signal that ends this process leaves the running step there first.
void report_deaths(SharedStep& step);

/// "in kernel conv_relu_3 (step #7: …)", "outside of any kernel".
std::string place_text(const SharedStep& step);

}  // namespace gantry::rpc
#endif
