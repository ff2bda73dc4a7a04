// A client that does what the protocol allows and gantry's own never does: pipeline, stop, not read.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include "rpc/protocol/message.h"

namespace gantry::rpc::testing_client {

class RawClient {
 public:
  /// Connects without a key and greets.
  explicit RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("no connection");
    wire::HelloT hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.client = "raw";
    send(make_request(std::move(hello)));
    if (!receive().body.AsWelcome()) throw std::runtime_error("the server does not welcome this client");
  }
  ~RawClient() { ::close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// Sends the request and the data behind it; false if the connection broke.
  bool send(const wire::RequestT& request, std::span<const std::byte> data = {}) {
    const std::uint32_t id = next_id_++;
    if (!send_bytes(encode_request(id, request))) return false;
    while (!data.empty()) {
      const auto length = std::min<std::size_t>(data.size(), kMaxDataBytes);
      if (!send_bytes(encode_header({FrameType::kData, id, static_cast<std::uint32_t>(length)})) ||
          !send_bytes(std::as_bytes(data.first(length))))
        return false;
      data = data.subspan(length);
    }
    return true;
  }
  template <typename Bytes>
  bool send_bytes(const Bytes& bytes) {
    const auto* at = reinterpret_cast<const char*>(std::data(bytes));
    for (std::size_t left = std::size(bytes); left > 0;) {
      const ssize_t count = ::send(fd_, at, left, MSG_NOSIGNAL);
      if (count <= 0) return false;
      at += count;
      left -= static_cast<std::size_t>(count);
    }
    return true;
  }

  /// The next answer; its data is skipped. Throws if none comes within half a minute.
  wire::ResponseT receive() {
    FrameHeaderBytes bytes;
    receive_bytes(bytes.data(), bytes.size());
    const FrameHeader header = decode_header(bytes);
    Bytes payload(header.length);
    receive_bytes(payload.data(), payload.size());
    wire::ResponseT response = decode_response(payload);
    for (std::uint64_t left = following_bytes(response); left > 0;) {
      receive_bytes(bytes.data(), bytes.size());
      payload.resize(decode_header(bytes).length);
      receive_bytes(payload.data(), payload.size());
      left -= payload.size();
    }
    return response;
  }

  /// Loads a module that is sent whole, on one thread. Its handle.
  std::uint32_t load(std::span<const std::byte> module_file) {
    wire::LoadModuleT load;
    load.whole = true;
    load.manifest_size = module_file.size();
    load.threads = 1;
    load.device = "cpu";
    send(make_request(std::move(load)), module_file);
    const wire::ResponseT answer = receive();
    if (const auto* failure = answer.body.AsFailure()) throw std::runtime_error(failure->message);
    return answer.body.AsModuleLoaded()->handle;
  }

  /// Input 0, so many floats.
  static wire::RequestT set_input(std::uint32_t handle, std::int64_t floats) {
    wire::SetInputT input;
    input.handle = handle;
    input.type = std::make_unique<wire::ElementType>(2, 32);
    input.shape = {floats};
    input.byte_size = static_cast<std::uint64_t>(floats) * sizeof(float);
    return make_request(std::move(input));
  }
  static wire::RequestT run(std::uint32_t handle) {
    wire::RunT request;
    request.handle = handle;
    return make_request(request);
  }
  static wire::RequestT get_output(std::uint32_t handle) {
    wire::GetOutputT request;
    request.handle = handle;
    return make_request(request);
  }

 private:
  void receive_bytes(void* to, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
      pollfd waiting{fd_, POLLIN, 0};
      if (::poll(&waiting, 1, 30'000) <= 0) throw std::runtime_error("the board does not answer");
      const ssize_t count = ::recv(fd_, static_cast<char*>(to) + done, size - done, 0);
      if (count <= 0) throw std::runtime_error("the board closed the connection");
      done += static_cast<std::size_t>(count);
    }
  }

  int fd_;
  std::uint32_t next_id_ = 1;
};

}  // namespace gantry::rpc::testing_client
