/// One end of a connection that speaks the protocol frame by frame, for what no client of this version sends.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "rpc/protocol/message.h"

namespace gantry::testing {

struct Frame {
  rpc::FrameHeader header;
  rpc::Bytes payload;
};

/// Blocking. What takes longer than ten seconds throws std::runtime_error.
class FramePeer {
 public:
  /// Connects to a server on this machine.
  explicit FramePeer(std::uint16_t port);
  /// Speaks over a connected socket, which it owns from now on.
  static FramePeer adopt(int socket) { return FramePeer(Socket{socket}); }
  ~FramePeer();
  FramePeer(FramePeer&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }

  void send(std::span<const std::uint8_t> bytes);
  void send_data(std::uint32_t id, std::span<const std::byte> bytes);
  /// The next frame; none where the other end closes.
  std::optional<Frame> receive();
  /// So many bytes of data frames.
  rpc::Bytes receive_data(std::uint64_t size);

  /// Sends a request and returns its response; progress before it is dropped.
  template <typename T>
  rpc::wire::ResponseT ask(T body, std::span<const std::byte> data = {}) {
    const std::uint32_t id = next_id_++;
    send(rpc::encode_request(id, rpc::make_request(std::move(body))));
    send_data(id, data);
    return response_to(id);
  }
  /// The response with this id, after any progress.
  rpc::wire::ResponseT response_to(std::uint32_t id);
  /// The first message of a connection and its answer.
  void greet();
  /// Loads a module's whole file on one thread; its handle.
  std::uint32_t load(std::span<const std::byte> module);
  std::uint32_t next_id() { return next_id_++; }

 private:
  struct Socket {
    int fd;
  };
  explicit FramePeer(Socket socket);
  bool read(std::uint8_t* bytes, std::size_t size);

  int fd_ = -1;
  std::uint32_t next_id_ = 1;
};

}  // namespace gantry::testing
