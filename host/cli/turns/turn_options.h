// How a measuring command takes turns with others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rpc/protocol/lease_priority.h"

namespace CLI {
class App;
}

namespace gantry::cli {

/// False where $GANTRY_NO_WAIT is set.
bool waits_by_default();

struct TurnOptions {
  rpc::LeasePriority priority = rpc::LeasePriority::kNormal;
  bool wait =
      waits_by_default();  ///< else it measures here beside others, and a board that is measured refuses
  double longest_wait_s = 3600;
};

/// "background", "normal", "urgent"
const char* priority_name(rpc::LeasePriority priority);

/// --priority, --max-wait, --no-wait.
void add_turn_options(CLI::App& command, TurnOptions& options);

/// What became of it, for the report.
struct TurnRecord {
  uint32_t turns = 0;
  double waited_s = 0;
  std::string beside;  ///< whom it did not wait for: "another gantry (process 7: bench a.onnx)"; "": nobody
};

}  // namespace gantry::cli
