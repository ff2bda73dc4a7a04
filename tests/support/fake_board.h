/// A client with a board that a test plays, frame by frame.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "rpc/client/client.h"
#include "tests/support/frame_peer.h"

namespace gantry::testing {

/// The client calls it pi:7453.
class FakeBoard {
 public:
  /// `serve` runs on a thread of its own, once the client has been welcomed, if it is not to welcome it
  /// itself. Exceptions end it: the client went. `options`: the client's, but for the address.
  explicit FakeBoard(const std::function<void(FramePeer&)>& serve, bool welcome = true,
                     rpc::ConnectOptions options = {});
  ~FakeBoard() { client.reset(); }

  /// The id of the next request.
  static std::uint32_t next_request(FramePeer& peer);
  /// Answers the next request.
  template <typename T>
  static void answer(FramePeer& peer, T body) {
    peer.send(rpc::encode_response(next_request(peer), rpc::make_response(std::move(body))));
  }

  std::unique_ptr<rpc::BoardClient> client;

 private:
  std::jthread thread_;
};

}  // namespace gantry::testing
