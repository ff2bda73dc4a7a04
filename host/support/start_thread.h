// Threads that share work which those that are there can do alone.
#pragma once

#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gantry {

/// Appends a thread that calls `run(args...)`; false, and nothing, where the system has no more to give.
template <typename Run, typename... Args>
bool start_thread(std::vector<std::thread>& threads, Run&& run, Args&&... args) {
  try {
    threads.emplace_back(std::forward<Run>(run), std::forward<Args>(args)...);
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

}  // namespace gantry
