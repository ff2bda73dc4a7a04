#include "tests/support/frame_peer.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

namespace gantry::testing {
using namespace rpc;  // NOLINT: a test's

FramePeer::FramePeer(Socket socket) : fd_(socket.fd) {
  const timeval patience{10, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

FramePeer::FramePeer(std::uint16_t port)
    : FramePeer(Socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("the server does not accept");
}

FramePeer::~FramePeer() {
  if (fd_ >= 0) ::close(fd_);
}

void FramePeer::send(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw std::runtime_error("the peer takes no more");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void FramePeer::send_data(std::uint32_t id, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min<std::size_t>(bytes.size(), kMaxDataBytes));
    send(encode_header({FrameType::kData, id, static_cast<std::uint32_t>(piece.size())}));
    send({reinterpret_cast<const std::uint8_t*>(piece.data()), piece.size()});
    bytes = bytes.subspan(piece.size());
  }
}

bool FramePeer::read(std::uint8_t* bytes, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = ::recv(fd_, bytes + done, size - done, 0);
    if (count < 0 && errno == EINTR) continue;  // a child of another thread's has ended
    if (count < 0) throw std::runtime_error("no answer");
    if (count == 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

std::optional<Frame> FramePeer::receive() {
  FrameHeaderBytes bytes;
  if (!read(bytes.data(), bytes.size())) return std::nullopt;
  Frame frame{decode_header(bytes), {}};
  frame.payload.resize(frame.header.length);
  if (!read(frame.payload.data(), frame.payload.size())) return std::nullopt;
  return frame;
}

Bytes FramePeer::receive_data(std::uint64_t size) {
  Bytes bytes;
  while (bytes.size() < size) {
    const auto frame = receive();
    if (!frame || frame->header.type != FrameType::kData)
      throw std::runtime_error("no data where some are due");
    bytes.insert(bytes.end(), frame->payload.begin(), frame->payload.end());
  }
  return bytes;
}

wire::ResponseT FramePeer::response_to(std::uint32_t id) {
  for (;;) {
    const auto frame = receive();
    if (!frame) throw std::runtime_error("the connection ended");
    if (frame->header.type == FrameType::kProgress) continue;
    wire::ResponseT response = decode_response(frame->payload);
    if (frame->header.type == FrameType::kResponse && frame->header.id == id) return response;
    const auto* failure = response.body.AsFailure();
    throw std::runtime_error("an answer to something else: " + (failure ? failure->message : std::string()));
  }
}

void FramePeer::greet() {
  wire::HelloT hello;
  hello.version_min = hello.version_max = kProtocolVersion;
  hello.client = "a test";
  if (!ask(std::move(hello)).body.AsWelcome()) throw std::runtime_error("no welcome");
}

std::uint32_t FramePeer::load(std::span<const std::byte> module) {
  wire::LoadModuleT request;
  request.whole = true;
  request.manifest_size = module.size();
  request.threads = 1;
  request.device = "cpu";
  const wire::ResponseT response = ask(std::move(request), module);
  if (const auto* failure = response.body.AsFailure()) throw std::runtime_error(failure->message);
  return response.body.AsModuleLoaded()->handle;
}

}  // namespace gantry::testing
