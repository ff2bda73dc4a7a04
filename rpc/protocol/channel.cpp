#include "rpc/protocol/channel.h"

#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

namespace gantry::rpc {

Watchdog::Watchdog(const asio::any_io_executor& executor, std::chrono::milliseconds duration,
                   std::function<void()> on_expiry)
    : state_(std::make_shared<State>()), timer_(executor) {
  if (duration.count() <= 0) return;
  timer_.expires_after(duration);
  timer_.async_wait([state = state_, on_expiry = std::move(on_expiry)](const std::error_code& error) {
    if (error || !state->armed) return;
    state->expired = true;
    on_expiry();
  });
}

void Watchdog::disarm() {
  state_->armed = false;
  timer_.cancel();
}

asio::awaitable<void> Signal::wait() {
  std::error_code cancelled;
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
}

FrameChannel::FrameChannel(std::unique_ptr<Stream> stream)
    : stream_(std::move(stream)), writer_free_(stream_->executor()) {}

asio::awaitable<std::optional<FrameHeader>> FrameChannel::read_header(std::uint32_t max_control) {
  FrameHeaderBytes bytes;
  std::size_t have = 0;
  while (have < bytes.size()) {
    const std::size_t count =
        co_await stream_->read_some(asio::buffer(bytes.data() + have, bytes.size() - have));
    if (count == 0 && have == 0) co_return std::nullopt;
    if (count == 0) throw Error(ErrorKind::kReconnect, "the connection ended within a message");
    have += count;
  }
  co_return decode_header(bytes, max_control);
}

asio::awaitable<void> FrameChannel::read_payload(asio::mutable_buffer buffer) {
  while (buffer.size() > 0) {
    const std::size_t count = co_await stream_->read_some(buffer);
    if (count == 0) throw Error(ErrorKind::kReconnect, "the connection ended within a message");
    buffer += count;
  }
}

asio::awaitable<Bytes> FrameChannel::read_payload(const FrameHeader& header) {
  Bytes payload(header.length);
  co_await read_payload(asio::buffer(payload));
  co_return payload;
}

asio::awaitable<void> FrameChannel::read_data(std::uint32_t id, std::uint64_t size,
                                              const std::function<asio::mutable_buffer(std::size_t)>& take,
                                              const std::function<void(asio::const_buffer)>& done) {
  while (size > 0) {
    const auto header = co_await read_header();
    if (!header) throw Error(ErrorKind::kReconnect, "the connection ended within a message");
    if (header->type != FrameType::kData || header->id != id || header->length == 0 || header->length > size)
      throw Error(ErrorKind::kBug,
                  "data of " + std::to_string(size) + " bytes was expected, something else came");
    const asio::mutable_buffer piece = take(header->length);
    co_await read_payload(piece);
    if (done) done(piece);
    size -= header->length;
  }
}

asio::awaitable<void> FrameChannel::write(std::uint32_t id, const Bytes& frame,
                                          std::span<const std::byte> data,
                                          const std::function<void(std::uint64_t)>& progress) {
  while (writing_) co_await writer_free_.wait();
  writing_ = true;
  struct Release {
    FrameChannel* channel;
    ~Release() {
      channel->writing_ = false;
      channel->writer_free_.notify_all();
    }
  } release{this};
  co_await stream_->write(asio::buffer(frame), !data.empty());
  std::uint64_t done = 0;
  while (done < data.size()) {
    const auto length =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(kMaxDataBytes, data.size() - done));
    const FrameHeaderBytes header = encode_header({FrameType::kData, id, length});
    co_await stream_->write(asio::buffer(header), true);
    co_await stream_->write(asio::buffer(data.data() + done, length), done + length < data.size());
    done += length;
    if (progress) progress(done);
  }
}

}  // namespace gantry::rpc
