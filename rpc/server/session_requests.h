// What a session's client asks. Private to rpc/server.
#pragma once

#include <optional>

#include "rpc/server/session_parts.h"

namespace gantry::rpc {

/// Reads requests, answers those that need no executor and have no turn, and queues the others.
class SessionRequests {
 public:
  explicit SessionRequests(SessionParts& session) : session_(session) {}
  /// Until the client has no more or the session is stopped. Throws Error(kBug) for what is no request,
  /// Error(kReconnect) and std::system_error where the connection breaks.
  asio::awaitable<void> read_all();

 private:
  asio::awaitable<void> handle(const FrameHeader& header);
  asio::awaitable<void> handle_request(std::uint32_t id, wire::RequestT request, Bytes frame);
  asio::awaitable<void> enqueue(std::uint32_t id, wire::RequestT request, Bytes frame);
  asio::awaitable<void> receive_data(SessionWork& work, std::uint64_t size);

  SessionParts& session_;
  std::optional<std::uint32_t> discarded_id_;  // data frames of a request that failed
};

}  // namespace gantry::rpc
