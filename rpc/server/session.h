#ifndef GANTRY_RPC_SERVER_SESSION_H
#define GANTRY_RPC_SERVER_SESSION_H

#include "rpc/security/tls.h"
#include "rpc/server/options.h"
#include "rpc/server/session_share.h"

namespace gantry::rpc {

/// Serves one connection in this process until it ends. `connection` and `parent` are owned; `parent` is -1
/// for a session that nobody admits or shuts down (see serve_connection). Returns the process's exit code.
/// `tls` is null for a server without keys; the keys in it are forgotten once the peer has authenticated.
int run_session(int connection, int parent, ssl_ctx_st* tls, const ServeOptions& options,
                const SessionShare& share);

}  // namespace gantry::rpc
#endif
