#ifndef GANTRY_RPC_SERVER_EXECUTOR_H
#define GANTRY_RPC_SERVER_EXECUTOR_H

#include <cstdint>
#include <filesystem>

#include "rpc/server/last_words.h"

namespace gantry::rpc {

/// What an executor may use.
struct ExecutorLimits {
  std::uint64_t memory_bytes = 0;
  std::uint32_t first_handle = 1;  ///< of what it loads, then one by one: see SessionHandles
};

/// The executor's whole life, in a process of its own: serves requests from `socket` until it closes.
/// Requests and replies are frames of the protocol; data travels as a descriptor of shared memory beside the
/// frame.
int run_executor(int socket, const ExecutorLimits& limits, const std::filesystem::path& cache,
                 SharedStep& step);

}  // namespace gantry::rpc
#endif
