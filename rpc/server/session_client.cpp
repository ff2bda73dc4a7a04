#include "rpc/server/session_client.h"

#include <asio/ip/tcp.hpp>

#include "rpc/server/session_lease.h"

namespace gantry::rpc {

using tcp = asio::ip::tcp;

SessionClient::SessionClient(asio::io_context& io, int connection) : connection_(io) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getpeername(connection, reinterpret_cast<sockaddr*>(&address), &length);
  connection_.assign({address.ss_family, 0}, connection);
}

asio::awaitable<void> SessionClient::connect(ssl_ctx_st* tls, std::chrono::milliseconds stall_timeout) {
  std::error_code not_tcp;
  connection_.set_option(tcp::no_delay(true), not_tcp);
  notice_vanished_peer(connection_.native_handle(), stall_timeout);
  if (!tls) {
    channel_ = std::make_unique<FrameChannel>(make_plain_stream(std::move(connection_)));
    co_return;
  }
  auto stream = std::make_unique<TlsStream>(std::move(connection_), tls, TlsStream::Role::kServer);
  TlsStream* handshaker = stream.get();
  channel_ = std::make_unique<FrameChannel>(std::move(stream));
  co_await handshaker->handshake();
}

asio::awaitable<void> SessionClient::respond(std::uint32_t id, const wire::ResponseT& response) {
  Bytes frame;
  try {
    frame = encode_response(id, response);
  } catch (const Error& error) {
    frame = encode_response(id, make_failure(error.kind(), error.what()));
  }
  co_await channel_->write(id, frame);
}

asio::awaitable<void> SessionClient::progress(std::uint32_t id, const wire::ResponseT& response) {
  co_await channel_->write(id, encode_response(id, response, FrameType::kProgress));
}

asio::awaitable<void> SessionClient::tell_queue(std::uint32_t id, const LeaseListing& listing) {
  if (knows_leases_) co_await progress(id, make_response(to_wire(listing)));
}

void SessionClient::close() noexcept {
  std::error_code ignored;
  if (channel_) channel_->close();
  connection_.close(ignored);
}

}  // namespace gantry::rpc
