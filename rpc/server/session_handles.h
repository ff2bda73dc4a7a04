#ifndef GANTRY_RPC_SERVER_SESSION_HANDLES_H
#define GANTRY_RPC_SERVER_SESSION_HANDLES_H

#include <cstdint>
#include <limits>

#include "rpc/error.h"

namespace gantry::rpc {

/// The handles that a session's executors have given to loaded modules, one executor after another: each is
/// larger than all before it, so that none is ever valid again. An executor runs foreign code and may answer
/// anything.
class SessionHandles {
 public:
  explicit SessionHandles(std::uint32_t last = 0) : last_(last) {}
  /// Where the next executor begins. Throws Error(kReconnect) if none is left.
  std::uint32_t next() const {
    if (last_ == std::numeric_limits<std::uint32_t>::max())
      throw Error(ErrorKind::kReconnect, "this session has used up its handles: connect again");
    return last_ + 1;
  }
  /// Takes the handle of an answer. Throws Error(kBoard) if it is not a new one.
  void accept(std::uint32_t handle) {
    if (handle <= last_)
      throw Error(ErrorKind::kBoard,
                  "the module's process answered with a handle that is not new: code in it "
                  "overwrote its memory, or poses as it; load the module again");
    last_ = handle;
  }

 private:
  std::uint32_t last_;
};

}  // namespace gantry::rpc
#endif
