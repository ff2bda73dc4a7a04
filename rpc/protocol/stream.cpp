#include "rpc/protocol/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <system_error>
#include <vector>

#include "rpc/security/tls.h"

namespace gantry::rpc {
namespace {

class PlainStream : public Stream {
 public:
  explicit PlainStream(Socket socket) : socket_(std::move(socket)) {}
  asio::any_io_executor executor() override { return socket_.get_executor(); }
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer buffer) override {
    try {
      co_return co_await socket_.async_read_some(buffer, asio::use_awaitable);
    } catch (const std::system_error& error) {
      if (error.code() == asio::error::eof) co_return 0;
      throw;
    }
  }
  asio::awaitable<void> write(asio::const_buffer buffer, bool) override {
    while (buffer.size() > 0) {
      const std::size_t count = co_await socket_.async_write_some(buffer, asio::use_awaitable);
      buffer += count;
      taken_ += count;
    }
  }
  void close() noexcept override {
    std::error_code ignored;
    socket_.close(ignored);
  }

 private:
  Socket socket_;
};

/// Encrypted bytes that gather before one system call.
constexpr std::size_t kOutputBytes = 256 * 1024;

ssize_t send_some(int fd, const char* bytes, std::size_t size) {
  return ::send(fd, bytes, size, MSG_NOSIGNAL);
}
bool would_block() {
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace

struct TlsStream::Output {
  Output(int descriptor, std::uint64_t& counter) : fd(descriptor), taken(counter) {
    bytes.reserve(kOutputBytes);
  }
  /// Sends what gathered. False: the socket takes no more now, or is broken (see errno).
  bool send() {
    while (sent < bytes.size()) {
      const ssize_t count = send_now(bytes.data() + sent, bytes.size() - sent);
      if (count < 0) return false;
      sent += static_cast<std::size_t>(count);
    }
    bytes.clear();
    sent = 0;
    return true;
  }

  /// As send().
  ssize_t send_now(const char* from, std::size_t size) {
    const ssize_t count = send_some(fd, from, size);
    if (count > 0) taken += static_cast<std::uint64_t>(count);
    return count;
  }

  int fd;
  std::uint64_t& taken;
  bool gathering = false;
  std::vector<char> bytes;
  std::size_t sent = 0;

  // A BIO over a non-blocking socket that gathers, and never raises SIGPIPE, which OpenSSL's own does.
  static Output& of(BIO* bio) { return *static_cast<Output*>(BIO_get_data(bio)); }
  static int bio_read(BIO* bio, char* buffer, int size) {
    BIO_clear_retry_flags(bio);
    const auto count = ::recv(of(bio).fd, buffer, static_cast<std::size_t>(size), 0);
    if (count < 0 && would_block()) BIO_set_retry_read(bio);
    return static_cast<int>(count);
  }
  static int bio_write(BIO* bio, const char* buffer, int size) {
    BIO_clear_retry_flags(bio);
    Output& output = of(bio);
    const auto length = static_cast<std::size_t>(size);
    ssize_t count = size;
    if (output.gathering && output.bytes.size() + length <= kOutputBytes) {
      output.bytes.insert(output.bytes.end(), buffer, buffer + size);
    } else if (!output.send()) {
      count = -1;
    } else if (output.gathering && length <= kOutputBytes) {
      output.bytes.assign(buffer, buffer + size);
    } else {
      count = output.send_now(buffer, length);
    }
    if (count < 0 && would_block()) BIO_set_retry_write(bio);
    return static_cast<int>(count);
  }
  static long bio_ctrl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }
  static BIO* make_bio(Output* output) {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "gantry socket");
      BIO_meth_set_read(made, bio_read);
      BIO_meth_set_write(made, bio_write);
      BIO_meth_set_ctrl(made, bio_ctrl);
      return made;
    }();
    BIO* bio = BIO_new(method);
    BIO_set_data(bio, output);
    BIO_set_init(bio, 1);
    return bio;
  }
};

void notice_vanished_peer(int socket, std::chrono::milliseconds unacknowledged) {
  const auto set = [socket](int level, int name, int value) {
    (void)::setsockopt(socket, level, name, &value, sizeof value);  // no TCP: not needed
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  // Where this is set, the count of questions means nothing (tcp(7)): less than the time that they take would
  // break connections whose peer has missed one.
  constexpr std::chrono::milliseconds kQuestions{60'000};
  const auto most = unacknowledged.count() > 0 ? std::max(unacknowledged, kQuestions) : unacknowledged;
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(most.count()));
}

std::unique_ptr<Stream> make_plain_stream(Socket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

TlsStream::TlsStream(Socket socket, ssl_ctx_st* context, Role role)
    : socket_(std::move(socket)),
      output_(std::make_unique<Output>(socket_.native_handle(), taken_)),
      ssl_(SSL_new(context)) {
  if (!ssl_) throw std::bad_alloc();
  socket_.native_non_blocking(true);
  BIO* bio = Output::make_bio(output_.get());
  SSL_set_bio(ssl_, bio, bio);
  if (role == Role::kClient)
    SSL_set_connect_state(ssl_);
  else
    SSL_set_accept_state(ssl_);
}

TlsStream::~TlsStream() {
  SSL_free(ssl_);
}

// Waits until the socket is ready for what OpenSSL wants; throws if the connection is over.
asio::awaitable<void> TlsStream::wait_for(int ssl_result) {
  const int why = SSL_get_error(ssl_, ssl_result);
  const int system_error = errno;
  if (why == SSL_ERROR_WANT_READ) {
    co_await socket_.async_wait(asio::socket_base::wait_read, asio::use_awaitable);
  } else if (why == SSL_ERROR_WANT_WRITE) {
    co_await socket_.async_wait(asio::socket_base::wait_write, asio::use_awaitable);
  } else if (why == SSL_ERROR_SYSCALL && ERR_peek_error() == 0) {
    throw std::system_error(system_error ? system_error : ECONNRESET, std::generic_category());
  } else {
    throw take_tls_error();
  }
}

asio::awaitable<void> TlsStream::handshake() {
  for (;;) {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_);
    if (result == 1) {
      forget_key(ssl_);
      co_return;
    }
    co_await wait_for(result);
  }
}

asio::awaitable<std::size_t> TlsStream::read_some(asio::mutable_buffer buffer) {
  std::size_t total = 0;
  while (total < buffer.size()) {
    ERR_clear_error();
    std::size_t count = 0;
    const int result =
        SSL_read_ex(ssl_, static_cast<char*>(buffer.data()) + total, buffer.size() - total, &count);
    if (result == 1) {
      total += count;
      continue;
    }
    if (total > 0) co_return total;
    const int why = SSL_get_error(ssl_, result);
    // A peer that vanished without TLS's goodbye ends the stream too; frames carry their lengths.
    if (why == SSL_ERROR_ZERO_RETURN) co_return 0;
    if (why == SSL_ERROR_SSL && ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
      co_return 0;
    co_await wait_for(result);
  }
  co_return total;
}

asio::awaitable<void> TlsStream::write(asio::const_buffer buffer, bool more) {
  output_->gathering = true;
  std::size_t total = 0;
  while (total < buffer.size()) {
    ERR_clear_error();
    std::size_t count = 0;
    const int result =
        SSL_write_ex(ssl_, static_cast<const char*>(buffer.data()) + total, buffer.size() - total, &count);
    if (result == 1)
      total += count;
    else
      co_await wait_for(result);
  }
  if (!more) co_await flush();
}

asio::awaitable<void> TlsStream::flush() {
  while (!output_->send()) {
    if (!would_block()) throw std::system_error(errno, std::generic_category());
    co_await socket_.async_wait(asio::socket_base::wait_write, asio::use_awaitable);
  }
}

void TlsStream::close() noexcept {
  std::error_code ignored;
  if (socket_.is_open() && SSL_is_init_finished(ssl_) && output_->bytes.empty()) {
    ERR_clear_error();
    output_->gathering = false;
    SSL_shutdown(ssl_);  // says goodbye if the socket takes it at once
  }
  socket_.close(ignored);
}

}  // namespace gantry::rpc
