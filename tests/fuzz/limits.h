// Fuzzers in this process that hang, take too much memory or crash say what they were fed.
#pragma once

#include <string>

namespace gantry::fuzz {

/// What is fed now: written to a file if the process dies of it.
extern std::string current;

/// From now on: memory may grow by 2 GiB (not under sanitizers), and a signal that says of a bug writes
/// `current` to `file` before it ends the process, which `name` then says.
void watch(const char* name, const char* file);
/// The process may take 20 s of CPU time from now on: sanitizers cost up to ten times, and a busy machine
/// fails nothing.
void limit_time();
/// As a signal of a bug does.
[[noreturn]] void die();

}  // namespace gantry::fuzz
