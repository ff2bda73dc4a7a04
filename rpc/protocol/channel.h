/// Frames over a stream, with one writer at a time; deadlines.
#ifndef GANTRY_RPC_PROTOCOL_CHANNEL_H
#define GANTRY_RPC_PROTOCOL_CHANNEL_H

#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>

#include "rpc/protocol/message.h"
#include "rpc/protocol/stream.h"

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
  bool expired() const { return state_->expired; }

 private:
  struct State {
    bool expired = false;
    bool armed = true;
  };
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

class FrameChannel {
 public:
  explicit FrameChannel(std::unique_ptr<Stream> stream);

  asio::any_io_executor executor() { return stream_->executor(); }
  /// The next frame's header; none at the end of the stream between two frames.
  asio::awaitable<std::optional<FrameHeader>> read_header(std::uint32_t max_control = kMaxControlBytes);
  /// Exactly `buffer` bytes of payload.
  asio::awaitable<void> read_payload(asio::mutable_buffer buffer);
  asio::awaitable<Bytes> read_payload(const FrameHeader& header);
  /// Receives exactly `size` bytes in data frames of this id, in pieces of at most kMaxDataBytes. `take` says
  /// where the next piece goes, `done` consumes it.
  asio::awaitable<void> read_data(std::uint32_t id, std::uint64_t size,
                                  const std::function<asio::mutable_buffer(std::size_t)>& take,
                                  const std::function<void(asio::const_buffer)>& done = {});

  /// Writes a control frame and the data that belongs to it, not interleaved with other writers' frames.
  asio::awaitable<void> write(std::uint32_t id, const Bytes& frame, std::span<const std::byte> data = {},
                              const std::function<void(std::uint64_t)>& progress = {});
  void close() noexcept { stream_->close(); }

 private:
  std::unique_ptr<Stream> stream_;
  Signal writer_free_;
  bool writing_ = false;
};

}  // namespace gantry::rpc
#endif
