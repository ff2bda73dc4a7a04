#ifndef GANTRY_RPC_SERVER_SESSION_SHARE_H
#define GANTRY_RPC_SERVER_SESSION_SHARE_H

#include "rpc/server/board_activity.h"
#include "rpc/server/session_memory.h"
#include "rpc/server/verified_segments.h"

namespace gantry::rpc {

/// What the sessions of a server have in common.
struct SessionShare {
  MemoryShare memory;
  VerifiedSegments* verified = nullptr;
  BoardActivity* activity = nullptr;  ///< in the slot of `memory`

  /// Null where nobody counts what the session does: it has no slot.
  BoardActivity* counted_activity() const { return memory.board ? activity : nullptr; }
  Doing doing(Activity what) const { return Doing(counted_activity(), memory.slot, what); }
};

}  // namespace gantry::rpc
#endif
