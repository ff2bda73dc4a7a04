#ifndef GANTRY_RPC_SERVER_BOARD_INFO_H
#define GANTRY_RPC_SERVER_BOARD_INFO_H

#include "rpc/protocol/message.h"
#include "rpc/server/options.h"

namespace gantry::rpc {

/// This machine, and what a session may use of it.
wire::BoardDescriptionT describe_board(const ServeOptions& options);
/// Adds the machine's GPUs, or why there are none. Asked for in a child process: one that had started
/// NVIDIA's driver could not fork executors that use it.
void add_gpus(wire::BoardDescriptionT& board);
/// `session_memory_bytes` or, if that is 0, three quarters of the machine's memory.
std::uint64_t session_memory(const ServeOptions& options);
/// Of all sessions' data together (requests, answers, inputs): three quarters of the machine's memory, or
/// `session_memory_bytes` if that is more.
std::uint64_t data_memory(const ServeOptions& options);

}  // namespace gantry::rpc
#endif
