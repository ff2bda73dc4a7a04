#ifndef GANTRY_RPC_SERVER_EXECUTOR_H
#define GANTRY_RPC_SERVER_EXECUTOR_H

#include <atomic>
#include <cstdint>
#include <filesystem>

namespace gantry::rpc {

/// What an executor may use.
struct ExecutorLimits {
  std::uint64_t memory_bytes = 0;
  std::uint32_t first_handle = 1;  ///< of what it loads, then one by one: see SessionHandles
};

/// Why an executor ends by itself.
enum Finish : std::uint32_t {
  kGoesOn,
  kGpuLost,           ///< a kernel faulted, which the reply names
  kGpuLostUnknownAt,  ///< some kernel faulted
};

/// Memory that an executor leaves behind: what it was doing when it died.
struct SharedStep {
  std::atomic<std::uint32_t> filled;    ///< 0: it was in no kernel; 2: in one of several, on a GPU
  std::atomic<std::uint32_t> finished;  ///< a Finish: it lives on no longer than its next reply
  std::int32_t index;                   ///< of the step in the plan
  char symbol[128];                     ///< the kernel's name
  char ops[256];
  char origin[1024];
};

/// Sent to an executor whose deadline has passed: it leaves its SharedStep and dies.
inline constexpr int kDeadlineSignal = 10;  // SIGUSR1

/// The executor's whole life, in a process of its own: serves requests from `socket` until it closes.
/// Requests and replies are frames of the protocol; data travels as a descriptor of shared memory beside the
/// frame.
int run_executor(int socket, const ExecutorLimits& limits, const std::filesystem::path& cache,
                 SharedStep* step);

}  // namespace gantry::rpc
#endif
