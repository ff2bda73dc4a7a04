// Requests for a session's executor, which wait for their turn. Private to rpc/server.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "rpc/protocol/message.h"
#include "rpc/protocol/watchdog.h"
#include "rpc/server/session_memory.h"
#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

/// A request for the executor, complete with its data.
struct SessionWork {
  std::uint32_t id;
  wire::RequestT request;
  Bytes frame;  ///< what the executor is sent
  UniqueFd data;
  std::chrono::milliseconds deadline;
  SessionMemory::Hold memory;
  bool handed_over = false;  ///< to an executor

  /// Null for other requests.
  const wire::LoadModuleT* load() const { return request.body.AsLoadModule(); }
  /// Of a benchmark: its executor stops between samples before the deadline that holds, whatever was asked
  /// for.
  void tell_deadline();
};

/// What a request asks for, `longest` at most and where it asks for nothing.
std::chrono::milliseconds deadline_of(const wire::RequestT& request, std::chrono::milliseconds longest);

/// One thread.
class WorkQueue {
 public:
  explicit WorkQueue(const asio::any_io_executor& executor) : changed_(executor) {}

  /// Waits until there is room.
  asio::awaitable<void> add(SessionWork work);
  /// Waits until there is one. None: no more is to be executed.
  asio::awaitable<std::optional<SessionWork>> next();
  bool empty() const { return waiting_.empty(); }
  /// Nothing is taken out of it any more.
  void finish();
  /// Nobody waits for room, either.
  void close();

 private:
  std::deque<SessionWork> waiting_;
  Signal changed_;
  bool finished_ = false;
  bool closed_ = false;
};

}  // namespace gantry::rpc
