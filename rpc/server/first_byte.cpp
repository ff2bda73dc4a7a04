#include "rpc/server/first_byte.h"

#include <sys/socket.h>

#include <cerrno>

#include "rpc/protocol/message.h"
#include "rpc/security/tls.h"

namespace gantry::rpc {
namespace {

/// Answers. What the peer has sent is read first: closing over unread bytes would cut the answer off.
void dismiss(int connection, const void* answer, std::size_t size) {
  char discarded[4096];
  for (int i = 0; i < 16 && ::recv(connection, discarded, sizeof discarded, MSG_DONTWAIT) > 0; ++i) {
  }
  (void)::send(connection, answer, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(connection, SHUT_WR);
}

void dismiss_stranger(int connection, unsigned char byte, Log& log) {
  if (byte >= 'A' && byte <= 'Z') {
    constexpr char kHint[] =
        "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
        "This is gantry-device; it speaks gantry's protocol, not HTTP.\n";
    log.warning("refused: it does not speak gantry's protocol, but perhaps HTTP");
    dismiss(connection, kHint, sizeof kHint - 1);
  } else {
    log.warning("refused: it does not speak gantry's protocol");
  }
}

}  // namespace

Visitor look_at_first_byte(int connection, bool keyed, Log& log) {
  unsigned char byte = 0;
  const ssize_t count = ::recv(connection, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Visitor::kSilent;
  if (count <= 0) {
    log.info("disconnected without a word");
    return Visitor::kGone;
  }
  constexpr unsigned char kTlsHandshake = 0x16;
  const bool tls = byte == kTlsHandshake, plain = byte == kFrameMagic[0];
  if (keyed ? tls : plain) return Visitor::kClient;
  if (tls) {
    log.warning("authentication failed: the peer has a key, and this server runs without one");
    dismiss(connection, kNoKeyAlert, sizeof kNoKeyAlert);
  } else if (plain) {
    log.warning("authentication failed: the peer has no key");
    const Bytes frame = encode_response(
        0, make_failure(ErrorKind::kReconnect, "it accepts only clients with its key; give the key file"));
    dismiss(connection, frame.data(), frame.size());
  } else {
    dismiss_stranger(connection, byte, log);
  }
  return Visitor::kGone;
}

}  // namespace gantry::rpc
