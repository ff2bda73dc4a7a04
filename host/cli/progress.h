// Progress on stderr, for what takes longer than a second.
#pragma once

#include <chrono>
#include <string>

namespace gantry::cli {

/// How much the program says on stderr, from --verbose and --quiet.
enum class Verbosity { kQuiet, kNormal, kVerbose };

/// A line that is rewritten in place on a terminal, from one second after its start; plain lines with
/// --verbose where stderr is no terminal; otherwise nothing. Belongs to one thread.
class Progress {
 public:
  explicit Progress(Verbosity verbosity);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  /// `done`: 0 to 1, or negative where it is not known.
  void update(const std::string& what, double done);
  /// Removes the line, so that other output may follow.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool lines_;
  Clock::time_point started_, shown_{};
  std::string last_line_;
  bool visible_ = false;
};

}  // namespace gantry::cli
