// Requests for leases, in their turn among those for the executor. Private to rpc/server.
#pragma once

#include "rpc/server/session_parts.h"

namespace gantry::rpc {

/// Takes, joins or releases the session's lease, and answers. False: the request is another one. Throws as
/// SessionLease does.
asio::awaitable<bool> serve_lease(SessionParts& session, const SessionWork& work);

}  // namespace gantry::rpc
