#include "tests/support/fake_board.h"

#include <sys/socket.h>

#include <exception>
#include <stdexcept>

namespace gantry::testing {

FakeBoard::FakeBoard(const std::function<void(FramePeer&)>& serve, bool welcome,
                     rpc::ConnectOptions options) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no sockets");
  thread_ = std::jthread([serve, welcome, end = ends[1]] {
    try {
      FramePeer peer = FramePeer::adopt(end);
      rpc::wire::WelcomeT hello;
      hello.version = rpc::kProtocolVersion;
      if (welcome) answer(peer, std::move(hello));
      serve(peer);
    } catch (const std::exception&) {
      // The client went.
    }
  });
  options.address = "pi:7453";
  client = rpc::BoardClient::adopt(ends[0], options);
}

std::uint32_t FakeBoard::next_request(FramePeer& peer) {
  for (;;) {
    const auto frame = peer.receive();
    if (!frame) throw std::runtime_error("the client went");
    if (frame->header.type == rpc::FrameType::kRequest) return frame->header.id;  // not its data
  }
}

}  // namespace gantry::testing
