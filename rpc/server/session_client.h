// The client's end of a session. Private to rpc/server.
#pragma once

#include <asio/io_context.hpp>
#include <memory>

#include "rpc/protocol/channel.h"
#include "rpc/server/lease_messages.h"

namespace gantry::rpc {

/// A connection, and what is said over it. One thread.
class SessionClient {
 public:
  /// Owns the connection.
  SessionClient(asio::io_context& io, int connection);

  /// Makes the channel: with TLS where there is a context, for which the peer has to authenticate. Throws
  /// TlsError if it does not, std::system_error if the connection breaks. Nothing else may be called before,
  /// but for close().
  asio::awaitable<void> connect(ssl_ctx_st* tls, std::chrono::milliseconds stall_timeout);
  FrameChannel& channel() { return *channel_; }
  /// A response that is too large for a message becomes the failure that says so.
  asio::awaitable<void> respond(std::uint32_t id, const wire::ResponseT& response);
  asio::awaitable<void> progress(std::uint32_t id, const wire::ResponseT& response);
  /// To one that knows leases; nothing to others.
  asio::awaitable<void> tell_queue(std::uint32_t id, const LeaseListing& listing);
  void set_knows_leases(bool knows) { knows_leases_ = knows; }
  bool knows_leases() const { return knows_leases_; }
  void close() noexcept;

 private:
  Socket connection_;
  std::unique_ptr<FrameChannel> channel_;
  bool knows_leases_ = false;
};

}  // namespace gantry::rpc
