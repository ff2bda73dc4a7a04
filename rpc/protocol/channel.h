/// Frames over a stream, with one writer at a time.
#ifndef GANTRY_RPC_PROTOCOL_CHANNEL_H
#define GANTRY_RPC_PROTOCOL_CHANNEL_H

#include <functional>
#include <optional>

#include "rpc/protocol/message.h"
#include "rpc/protocol/stream.h"
#include "rpc/protocol/watchdog.h"

namespace gantry::rpc {

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
  /// A peer that stands still for so long within a message, one that it sends or one that it is sent, breaks
  /// the connection: the operation throws Error(kReconnect). Between messages it may rest. Zero: never.
  void set_stall_timeout(std::chrono::milliseconds timeout);
  void close() noexcept;
  bool closed() const { return closed_; }

 private:
  using Clock = std::chrono::steady_clock;
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer buffer, bool within_message);
  asio::awaitable<void> write_frames(std::uint32_t id, const Bytes& frame, std::span<const std::byte> data,
                                     const std::function<void(std::uint64_t)>& progress);
  void look_for_stalls();
  [[noreturn]] void throw_stall() const;
  asio::awaitable<std::optional<FrameHeader>> read_header(std::uint32_t max_control, bool within_message);
  std::unique_ptr<Stream> stream_;
  Signal writer_free_;
  bool writing_ = false;
  // A look now and then, not a timer for each operation: those cost more than a short message.
  std::chrono::milliseconds stall_timeout_{0};
  std::optional<Watchdog> next_look_;
  Clock::time_point last_look_;
  std::optional<Clock::time_point> reading_since_;  // within a message
  Clock::time_point writing_since_;                 // or since the peer was last seen to have taken something
  std::uint64_t taken_ = 0;
  const char* stall_ = nullptr;  // what the peer did, if it stands still
  bool closed_ = false;
};

}  // namespace gantry::rpc
#endif
