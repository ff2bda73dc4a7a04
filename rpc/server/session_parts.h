// What the tasks of a session work with. Private to rpc/server.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "rpc/server/log.h"
#include "rpc/server/options.h"
#include "rpc/server/session_board.h"
#include "rpc/server/session_client.h"
#include "rpc/server/session_lease.h"
#include "rpc/server/session_life.h"
#include "rpc/server/session_memory.h"
#include "rpc/server/session_segments.h"
#include "rpc/server/session_share.h"
#include "rpc/server/session_work.h"

namespace gantry::rpc {

/// One thread.
struct SessionParts {
  /// Owns `connection` and `parent`; `parent`: -1 for none. The options must outlive the object.
  SessionParts(asio::io_context& io, int connection, int parent_socket, const ServeOptions& serve_options,
               const SessionShare& of_server)
      : options(serve_options),
        share(of_server),
        log(options.log_level, peer_of(connection)),
        client(io, connection),
        parent(io),
        memory(io.get_executor(), options.session_memory_bytes, share.memory),
        queue(io.get_executor()),
        segments(options, share.verified, log),
        lease(parent),
        board(options) {
    if (parent_socket >= 0) parent.assign(parent_socket);
  }

  const ServeOptions& options;
  SessionShare share;
  Log log;
  SessionLife life;
  SessionClient client;
  asio::posix::stream_descriptor parent;  ///< not open: nobody admits or shuts down the session
  SessionMemory memory;
  WorkQueue queue;
  SessionSegments segments;
  SessionLease lease;
  SessionBoard board;
};

}  // namespace gantry::rpc
