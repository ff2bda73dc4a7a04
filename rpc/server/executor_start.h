/// How an executor comes to life: as a program of its own.
#ifndef GANTRY_RPC_SERVER_EXECUTOR_START_H
#define GANTRY_RPC_SERVER_EXECUTOR_START_H

#include <string_view>

#include "rpc/protocol/message.h"
#include "rpc/server/child_process.h"
#include "rpc/server/executor.h"

namespace gantry::rpc {

/// How the executors of a session are started, and what they may use.
struct ExecutorSetup {
  ExecutorLimits limits;
  /// gantry-device itself, open, to be executed. It goes on to serve when its file is replaced or deleted.
  /// -1: executors are forks of this process.
  int program = -1;
  /// A frame with a BoardDescription, for executors that are to use a GPU; empty as long as nobody asked.
  Bytes gpus;
};

/// `gantry-device run-executor MEMORY FIRST-HANDLE` is an executor with these limits.
inline constexpr std::string_view kExecutorCommand = "run-executor";

/// Starts an executor that serves `socket` (the caller's copy stays open) and leaves its last words in
/// `step`. It has no memory and no descriptor of this process but these, its standard streams lead nowhere,
/// an address layout of its own, and of the environment what the runtime reads. Where the system does not
/// execute programs by descriptor, as an emulator or Linux before 3.19, it is a fork of this process, and
/// step.exec_error says why. No child, and errno, if the system refuses a process.
ChildProcess start_executor(const ExecutorSetup& setup, int socket, const StepMemory& step);

/// main() of an executor. Returns the process's exit code.
int executor_main(int argc, char** argv);

/// This program, for ExecutorSetup; -1 where the system does not show it.
int open_this_program();

}  // namespace gantry::rpc
#endif
