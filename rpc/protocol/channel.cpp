#include "rpc/protocol/channel.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace gantry::rpc {

FrameChannel::FrameChannel(std::unique_ptr<Stream> stream)
    : stream_(std::move(stream)), writer_free_(stream_->executor()) {}

void FrameChannel::close() noexcept {
  closed_ = true;
  next_look_.reset();
  stream_->close();
}

void FrameChannel::set_stall_timeout(std::chrono::milliseconds timeout) {
  stall_timeout_ = timeout;
  last_look_ = Clock::now();
  look_for_stalls();
}

void FrameChannel::look_for_stalls() {
  next_look_.reset();
  if (closed_ || stall_timeout_.count() <= 0) return;
  const auto now = Clock::now();
  const auto pause = std::max(stall_timeout_ / 8, std::chrono::milliseconds(1));
  // Where this thread was busy with something else, the peer is not to blame.
  const bool late = now - std::exchange(last_look_, now) > 4 * pause;
  const bool taking = stream_->taken() != taken_;
  taken_ = stream_->taken();
  if (late || taking) writing_since_ = now;
  if (late && reading_since_) reading_since_ = now;
  if (writing_ && now - writing_since_ >= stall_timeout_) stall_ = "took nothing of what it was sent";
  if (reading_since_ && now - *reading_since_ >= stall_timeout_)
    stall_ = "sent no more of a message that it had begun";
  if (stall_) return close();
  next_look_.emplace(executor(), pause, [this] { look_for_stalls(); });
}

void FrameChannel::throw_stall() const {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", static_cast<double>(stall_timeout_.count()) / 1000);
  throw Error(ErrorKind::kReconnect, std::string("the peer ") + stall_ + " for " + seconds + " s");
}

asio::awaitable<std::size_t> FrameChannel::read_some(asio::mutable_buffer buffer, bool within_message) {
  if (within_message) reading_since_ = Clock::now();
  try {
    const std::size_t count = co_await stream_->read_some(buffer);
    reading_since_.reset();
    co_return count;
  } catch (const std::system_error&) {
    reading_since_.reset();
    if (!stall_) throw;
  }
  throw_stall();
}

asio::awaitable<std::optional<FrameHeader>> FrameChannel::read_header(std::uint32_t max_control) {
  return read_header(max_control, false);
}

asio::awaitable<std::optional<FrameHeader>> FrameChannel::read_header(std::uint32_t max_control,
                                                                      bool within_message) {
  FrameHeaderBytes bytes;
  std::size_t have = 0;
  while (have < bytes.size()) {
    const auto rest = asio::buffer(bytes.data() + have, bytes.size() - have);
    const std::size_t count = co_await read_some(rest, within_message || have > 0);
    if (count == 0 && have == 0) co_return std::nullopt;
    if (count == 0) throw Error(ErrorKind::kReconnect, "the connection ended within a message");
    have += count;
  }
  co_return decode_header(bytes, max_control);
}

asio::awaitable<void> FrameChannel::read_payload(asio::mutable_buffer buffer) {
  while (buffer.size() > 0) {
    const std::size_t count = co_await read_some(buffer, true);
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
    const auto header = co_await read_header(kMaxControlBytes, true);
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
  writing_since_ = Clock::now();
  try {
    co_return co_await write_frames(id, frame, data, progress);
  } catch (const std::system_error&) {
    if (!stall_) throw;
  }
  throw_stall();
}

asio::awaitable<void> FrameChannel::write_frames(std::uint32_t id, const Bytes& frame,
                                                 std::span<const std::byte> data,
                                                 const std::function<void(std::uint64_t)>& progress) {
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
