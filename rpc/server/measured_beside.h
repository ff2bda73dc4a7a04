/// What others did on the board while a session measured.
#ifndef GANTRY_RPC_SERVER_MEASURED_BESIDE_H
#define GANTRY_RPC_SERVER_MEASURED_BESIDE_H

#include <chrono>
#include <optional>

#include "rpc/protocol/message.h"
#include "rpc/server/board_activity.h"

namespace gantry::rpc {

class MeasuredBeside {
 public:
  /// `activity`: null where the board does not count what sessions do. `slot`: the session's own.
  MeasuredBeside(const BoardActivity* activity, int slot) : activity_(activity), slot_(slot) {}

  /// It measures from now on, and has waited so long for that.
  void begin(std::chrono::milliseconds waited);
  /// Since begin(); nothing where there is nothing to tell.
  std::optional<wire::MeasuredBesideT> told() const;

 private:
  const BoardActivity* activity_;
  int slot_;
  std::chrono::milliseconds waited_{0};
  std::optional<BoardActivity::Mark> mark_;
};

}  // namespace gantry::rpc
#endif
