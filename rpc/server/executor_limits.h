/// What an executor may use: bounds that the system enforces.
#ifndef GANTRY_RPC_SERVER_EXECUTOR_LIMITS_H
#define GANTRY_RPC_SERVER_EXECUTOR_LIMITS_H

#include <cstdint>

namespace gantry::rpc {

struct ExecutorLimits {
  std::uint64_t memory_bytes = 0;
  std::uint32_t first_handle = 1;  ///< of what it loads, then one by one: see SessionHandles
};

/// Bounds this process's memory to what is mapped now, what the session may use, and stacks and arenas of its
/// threads. Sanitizers need all addresses: nothing is bounded under them.
void limit_memory(const ExecutorLimits& limits);

/// Bounds everything else, for good, as far as the system can: no privileges, also not of root and not by
/// executing anything; no further processes; threads as many as the system has now and 4,096 (not for root,
/// whom Linux counts no processes of); open files; files no larger than the session's memory; no core.
/// Returns 0, or why further processes are possible, an errno.
int give_up_rights(const ExecutorLimits& limits);

/// NVIDIA's driver reserves far more addresses than memory. Lets it, once there is a GPU for it: from then on
/// what may be written to is bounded instead of what is reserved, at the session's memory and the driver's
/// own.
void allow_gpu_addresses();

}  // namespace gantry::rpc
#endif
