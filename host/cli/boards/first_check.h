// Whether a board that was set up does what it is for.
#pragma once

#include <memory>
#include <string>

#include "host/cli/invocation.h"
#include "host/cli/machine.h"
#include "rpc/security/key.h"

namespace gantry::cli {

/// Connects with a key that no file has yet. rpc::Error as connect_board().
std::unique_ptr<Machine> connect_with_key(const std::string& label, const std::string& address,
                                          const rpc::PskKey& key);

/// The network of the first timing, of host/zoo, and what it takes.
inline constexpr const char* kCheckNetwork = "squeezenet1_1";
inline constexpr int64_t kCheckSize = 64;

/// It as a module for exactly that machine.
runtime::SharedBytes compile_check(Machine& machine, const Invocation& invocation);
/// Loads it there, runs it with made-up data; the median of some runs, ms.
double time_check(Machine& machine, const runtime::SharedBytes& module);

}  // namespace gantry::cli
