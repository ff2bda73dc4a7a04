/// Who connects, by the first byte that it sends.
#ifndef GANTRY_RPC_SERVER_FIRST_BYTE_H
#define GANTRY_RPC_SERVER_FIRST_BYTE_H

#include "rpc/server/log.h"

namespace gantry::rpc {

enum class Visitor : unsigned char {
  kSilent,  ///< nothing has come so far
  kClient,  ///< speaks as this server does, with TLS or without: what it has sent is still to be read
  kGone,    ///< has had its answer, if there is one for it, or has left: close the connection
};

/// Looks at the first byte alone, answers those who are wrong here, and reports them. Never waits.
/// `keyed`: this server speaks TLS.
Visitor look_at_first_byte(int connection, bool keyed, Log& log);

}  // namespace gantry::rpc
#endif
