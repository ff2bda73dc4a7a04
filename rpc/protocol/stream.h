/// What the protocol needs of a connection: a byte stream. Sockets, TLS and the tests' memory pipe are
/// streams.
#ifndef GANTRY_RPC_PROTOCOL_STREAM_H
#define GANTRY_RPC_PROTOCOL_STREAM_H

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

struct bio_st;
struct ssl_st;
struct ssl_ctx_st;

namespace gantry::rpc {

/// One reader and one writer at a time. Failures are thrown as std::system_error; a stream that was closed by
/// close() fails every pending and later operation.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual asio::any_io_executor executor() = 0;
  /// At least one byte, or 0 at the end of the stream.
  virtual asio::awaitable<std::size_t> read_some(asio::mutable_buffer buffer) = 0;
  /// All bytes. `more`: another write follows at once, so these may wait for it.
  virtual asio::awaitable<void> write(asio::const_buffer buffer, bool more = false) = 0;
  virtual void close() noexcept = 0;
  /// Bytes of what was written that the socket has taken so far: they move while the peer takes some.
  std::uint64_t taken() const { return taken_; }

 protected:
  std::uint64_t taken_ = 0;
};

/// TCP or a socket of this machine.
using Socket = asio::generic::stream_protocol::socket;

/// Has the kernel break the connection when the peer has vanished without a word (no power, no network): it
/// asks after 30 s of silence and every 10 s from then on, and gives up when that, or what was sent, has not
/// been acknowledged for `unacknowledged`, or for a minute where that is longer. Zero: for a minute, and what
/// was sent as long as the system says. Does nothing where the socket is none of TCP.
void notice_vanished_peer(int socket, std::chrono::milliseconds unacknowledged);

/// Bytes as they are.
std::unique_ptr<Stream> make_plain_stream(Socket socket);

/// TLS over TCP; no byte flows before handshake() is done. Records (16 KiB at most) gather and leave in large
/// pieces: a system call and a packet for each of them would cost more than their encryption.
class TlsStream : public Stream {
 public:
  enum class Role { kClient, kServer };
  TlsStream(Socket socket, ssl_ctx_st* context, Role role);
  ~TlsStream() override;
  asio::awaitable<void> handshake();
  asio::any_io_executor executor() override { return socket_.get_executor(); }
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer buffer) override;
  asio::awaitable<void> write(asio::const_buffer buffer, bool more) override;
  void close() noexcept override;

 private:
  struct Output;
  asio::awaitable<void> wait_for(int ssl_result);
  asio::awaitable<void> flush();
  Socket socket_;
  std::unique_ptr<Output> output_;
  ssl_st* ssl_;
};

}  // namespace gantry::rpc
#endif
