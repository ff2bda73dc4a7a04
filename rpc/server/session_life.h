// How long a session lives, and why it ends. Private to rpc/server.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace gantry::rpc {

class SessionLife {
 public:
  using Clock = std::chrono::steady_clock;

  /// The client has been welcomed.
  void start() { started_ = Clock::now(); }
  /// Something was done in it.
  void touch() { last_activity_ = Clock::now(); }
  Clock::duration idle() const { return Clock::now() - last_activity_; }
  /// The first reason is the one.
  void end_because(const std::string& why) {
    if (end_.empty()) end_ = why;
  }
  /// Empty: nobody has said why.
  const std::string& end() const { return end_; }
  /// False: it was stopped before.
  bool stop() noexcept { return !std::exchange(stopped_, true); }
  bool stopped() const { return stopped_; }
  /// For the log, at its end: how long it was and why it ended. None: it never started.
  std::optional<std::string> summary() const;

 private:
  std::optional<Clock::time_point> started_;
  Clock::time_point last_activity_ = Clock::now();
  std::string end_;
  bool stopped_ = false;
};

}  // namespace gantry::rpc
