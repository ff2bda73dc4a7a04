#include "rpc/protocol/watchdog.h"

#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

namespace gantry::rpc {

Watchdog::Watchdog(const asio::any_io_executor& executor, std::chrono::milliseconds duration,
                   std::function<void()> on_expiry)
    : state_(std::make_shared<State>()), timer_(executor) {
  state_->duration = duration;
  state_->on_expiry = std::move(on_expiry);
  if (duration.count() > 0) arm();
}

void Watchdog::arm() {
  timer_.expires_after(state_->duration);  // which cancels the wait before
  timer_.async_wait([state = state_](const std::error_code& error) {
    if (error || !state->armed) return;
    state->expired = true;
    state->on_expiry();
  });
}

void Watchdog::restart() {
  if (state_->duration.count() > 0 && state_->armed && !state_->expired) arm();
}

void Watchdog::disarm() {
  state_->armed = false;
  timer_.cancel();
}

asio::awaitable<void> Signal::wait() {
  std::error_code cancelled;
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
}

}  // namespace gantry::rpc
