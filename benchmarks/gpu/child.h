// Processes that the bundle starts. Each leads a process group of its own, has a time limit, and costs
// nothing but its own result when it crashes or hangs.
//
// A process is signalled only while it has not been waited for, so that its number cannot have become
// another's. This process adopts what its children leave behind (they are then its own children, with the
// same guarantee), and ends it.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gantry::gpu_bundle {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Command {
  std::vector<std::string> arguments;    ///< the program's path, or a name for PATH, first
  std::vector<std::string> environment;  ///< NAME=VALUE, beside this process's own
  Seconds limit{60};
};

/// How a process ended, and the beginning and end of what it printed.
struct Outcome {
  enum class End {
    kExited,      ///< `code`: its exit code
    kSignalled,   ///< `code`: the signal
    kTimedOut,    ///< after its limit
    kNotStarted,  ///< `code`: an errno
    kStopped,     ///< as this process has been asked to end
  };
  End end = End::kNotStarted;
  int code = 0;
  double seconds = 0;
  std::string output, errors;  ///< stdout, stderr

  bool ok() const { return end == End::kExited && code == 0; }
  /// What went wrong: how it ended, and the end of what it said on stderr.
  std::string why() const;
};

/// Begins to take SIGTERM, SIGINT and SIGHUP for a request to end, and to adopt orphans. Once, at the start.
void watch_signals();
/// The signal that asked this process to end; 0: none.
int stop_signal();

/// Runs one to its end. Ends what it has left behind.
Outcome run(const Command& command);

/// Runs `next` until it has no more, at most `at_once` side by side; `done` hears of each with the number
/// that it had among those that `next` gave. `next` returns false where there is nothing left to start.
void run_many(int at_once, const std::function<bool(Command&)>& next,
              const std::function<void(size_t number, Outcome)>& done);

/// A program that runs until the object goes: a server.
class Server {
 public:
  /// Waits until it prints a line on stdout or ends.
  Server(const Command& command, Seconds patience);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Empty if it said nothing.
  const std::string& first_line() const { return first_line_; }
  /// What it printed on stderr so far.
  std::string errors();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string first_line_;
};

}  // namespace gantry::gpu_bundle
