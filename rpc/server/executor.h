#ifndef GANTRY_RPC_SERVER_EXECUTOR_H
#define GANTRY_RPC_SERVER_EXECUTOR_H

#include <filesystem>

#include "rpc/server/executor_limits.h"
#include "rpc/server/last_words.h"

namespace gantry::rpc {

/// The executor's whole life, in a process of its own: serves requests from `socket` until it closes.
/// Requests and replies are frames of the protocol; data travels as a descriptor of shared memory beside the
/// frame. A BoardDescription that its session sends unasked, and which has no answer, tells it the GPUs.
int run_executor(int socket, const ExecutorLimits& limits, const std::filesystem::path& cache,
                 SharedStep& step);

}  // namespace gantry::rpc
#endif
