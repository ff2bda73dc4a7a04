#ifndef GANTRY_RPC_SERVER_SERVER_H
#define GANTRY_RPC_SERVER_SERVER_H

#include "rpc/server/options.h"

namespace gantry::rpc {

/// Serves until SIGTERM or SIGINT; prints "listening on ADDRESS:PORT" to stdout once it accepts. Returns the
/// process's exit code. Throws Error: kRequest for options that cannot be (no key beyond loopback, no such
/// address), kBoard if the system refuses.
/// Must be called while the process has one thread: sessions are forks of it.
int serve(const ServeOptions& options);

}  // namespace gantry::rpc
#endif
