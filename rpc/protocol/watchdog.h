/// Deadlines, and waiting for one another within a thread.
#ifndef GANTRY_RPC_PROTOCOL_WATCHDOG_H
#define GANTRY_RPC_PROTOCOL_WATCHDOG_H

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>

namespace gantry::rpc {

/// Calls `on_expiry` unless it is destroyed or disarmed first. What it calls closes or kills something, so
/// that the operation that is waited for fails.
class Watchdog {
 public:
  /// A duration of zero never expires.
  Watchdog(const asio::any_io_executor& executor, std::chrono::milliseconds duration,
           std::function<void()> on_expiry);
  ~Watchdog() { disarm(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  void disarm();
  /// The whole duration once more from now on, unless it has expired or never does.
  void restart();
  bool expired() const { return state_->expired; }

 private:
  struct State {
    bool expired = false;
    bool armed = true;
    std::chrono::milliseconds duration{0};
    std::function<void()> on_expiry;
  };
  void arm();
  std::shared_ptr<State> state_;
  asio::steady_timer timer_;
};

/// Wakes coroutines of one thread that wait for a condition to become true.
class Signal {
 public:
  explicit Signal(const asio::any_io_executor& executor)
      : timer_(executor, asio::steady_timer::time_point::max()) {}
  /// Returns after the next notify_all(); check the condition again.
  asio::awaitable<void> wait();
  void notify_all() { timer_.cancel(); }

 private:
  asio::steady_timer timer_;
};

}  // namespace gantry::rpc
#endif
