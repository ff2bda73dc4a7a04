#ifndef GANTRY_RPC_SERVER_EXECUTOR_H
#define GANTRY_RPC_SERVER_EXECUTOR_H

#include "rpc/server/executor_limits.h"
#include "rpc/server/last_words.h"

namespace gantry::rpc {

/// The executor's whole life, in a process of its own: gives up its rights, then serves requests from
/// `socket` until it closes. Requests and replies are frames of the protocol; beside the frame go descriptors
/// of shared memory with the data, and of a module's segments. A BoardDescription that its session sends
/// unasked, and which has no answer, tells it the GPUs.
int run_executor(int socket, const ExecutorLimits& limits, SharedStep& step);

}  // namespace gantry::rpc
#endif
