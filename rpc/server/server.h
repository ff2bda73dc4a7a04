#ifndef GANTRY_RPC_SERVER_SERVER_H
#define GANTRY_RPC_SERVER_SERVER_H

#include "rpc/server/options.h"

namespace gantry::rpc {

/// Serves until SIGTERM or SIGINT; prints "listening on ADDRESS:PORT" to stdout once it accepts. Returns the
/// process's exit code. Throws Error: kRequest for options that cannot be (no key beyond loopback, no such
/// address), kBoard if the system refuses.
/// Must be called while the process has one thread: sessions are forks of it.
int serve(const ServeOptions& options);

/// Serves the one client that is connected to `socket`, which may use the whole machine as long as it likes.
/// Returns the process's exit code when it has gone.
int serve_connection(int socket);

}  // namespace gantry::rpc
#endif
