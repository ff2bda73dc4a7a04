// Work in processes of their own, several at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace gantry::conformance {

/// What a process has said, and how it ended.
struct ChildEnd {
  std::vector<std::string> lines;  ///< of its stdout
  std::string words;               ///< the last of its stderr
  int exit_code = 0;               ///< 128 + the signal's number where one ended it
  bool killed = false;             ///< because its time was up
  double seconds = 0;
};

/// A program with its arguments for each of 0 … count - 1, `parallel` of them at a time, fewer where the
/// system has no more threads to give, each killed after `limit`. `ended` hears of each, one at a time, in
/// the order in which they end, from any thread; what it throws ends the work, kills what runs and is thrown
/// here. User error where the program cannot be started.
void run_in_children(size_t count, size_t parallel, std::chrono::milliseconds limit,
                     const std::function<std::vector<std::string>(size_t)>& command,
                     const std::function<void(size_t, const ChildEnd&)>& ended);

}  // namespace gantry::conformance
