/// A client that says what no client of ours says, and chooses its requests' ids.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <span>
#include <stdexcept>

#include "rpc/protocol/message.h"
#include "rpc/server/unique_fd.h"

namespace gantry::testing {

/// A session without a key over a socket of its own; every request has the id that is given here.
class RawSession {
 public:
  RawSession(std::uint16_t port, std::uint32_t id)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), id_(id) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("no connection");
    rpc::wire::HelloT hello;
    hello.version_min = hello.version_max = rpc::kProtocolVersion;
    if (!ask(rpc::make_request(hello)).body.AsWelcome()) throw std::runtime_error("no welcome");
  }

  /// The answer to a request with its data, if it has any; data that follows the answer is left.
  rpc::wire::ResponseT ask(const rpc::wire::RequestT& request, std::span<const std::byte> data = {}) {
    const rpc::Bytes frame = rpc::encode_request(id_, request);
    send(frame.data(), frame.size());
    while (!data.empty()) {
      const auto piece = data.first(std::min<std::size_t>(data.size(), rpc::kMaxDataBytes));
      const auto header =
          rpc::encode_header({rpc::FrameType::kData, id_, static_cast<std::uint32_t>(piece.size())});
      send(header.data(), header.size());
      send(piece.data(), piece.size());
      data = data.subspan(piece.size());
    }
    rpc::FrameHeaderBytes bytes;
    receive(bytes.data(), bytes.size());
    rpc::Bytes payload(rpc::decode_header(bytes).length);
    receive(payload.data(), payload.size());
    return rpc::decode_response(payload);
  }
  rpc::wire::ResponseT load(std::span<const std::byte> file) {
    rpc::wire::LoadModuleT load;
    load.manifest_size = file.size();
    load.threads = 1;
    load.device = "cpu";
    load.whole = true;
    return ask(rpc::make_request(std::move(load)), file);
  }
  /// Sets the input of a TestModule and runs it.
  rpc::wire::ResponseT run(std::uint32_t handle) {
    rpc::wire::SetInputT input;
    input.handle = handle;
    input.type = std::make_unique<rpc::wire::ElementType>(2, 32);
    input.shape = {4};
    input.byte_size = 16;
    ask(rpc::make_request(std::move(input)), std::vector<std::byte>(16));
    rpc::wire::RunT run;
    run.handle = handle;
    return ask(rpc::make_request(run));
  }

 private:
  void send(const void* bytes, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
      const ssize_t count =
          ::send(socket_.get(), static_cast<const char*>(bytes) + done, size - done, MSG_NOSIGNAL);
      if (count <= 0) throw std::runtime_error("the server has gone");
      done += static_cast<std::size_t>(count);
    }
  }
  void receive(void* bytes, std::size_t size) {
    if (size > 0 && ::recv(socket_.get(), bytes, size, MSG_WAITALL) != static_cast<ssize_t>(size))
      throw std::runtime_error("the server has gone");
  }

  rpc::UniqueFd socket_;
  std::uint32_t id_;
};

}  // namespace gantry::testing
