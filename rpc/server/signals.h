/// Signals as bytes of a pipe, for a process that waits in poll().
#ifndef GANTRY_RPC_SERVER_SIGNALS_H
#define GANTRY_RPC_SERVER_SIGNALS_H

#include <vector>

namespace gantry::rpc {

/// Has these signals written into a pipe, whose reading end is returned; it does not block. Once a process.
/// Throws Error(kBoard) if the system refuses a pipe.
int open_signal_pipe(const std::vector<int>& signals);
/// For a fork: closes the pipe and takes the signals as a program does that has not asked for them, but for
/// `ignored`.
void close_signal_pipe(const std::vector<int>& ignored);
void ignore_signal(int number);

}  // namespace gantry::rpc
#endif
