// Boards of a lab's farm for the commands that measure.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "host/cli/execution.h"
#include "host/cli/turns/turn_options.h"
#include "host/farm/leased_board.h"

namespace gantry::cli {

struct FarmOptions {
  std::string farm;   ///< "slurm"; empty: none
  std::string board;  ///< its type
  std::string partition;
  int minutes = 60;  ///< of a lease
};

/// --farm, --board, --partition, --lease-minutes.
void add_farm_options(CLI::App& command, FarmOptions& options);

/// On a leased board nobody else waits, and its lease's key has no rights of its own: whose turn it is Slurm
/// has said.
TurnOptions turns_on_board(const FarmOptions& options, TurnOptions turns);

/// Calls `work` with choices that name the machine to use: as they are without a farm, else with a board that
/// is leased for the while. Where the lease ends in the middle, `work` is called anew with another one, at
/// most twice more: what it had measured until then does not count. User errors for --on or --key beside a
/// farm.
void with_board(const FarmOptions& options, const TurnOptions& turns, std::vector<ExecutionOptions> choices,
                const Invocation& invocation,
                const std::function<void(const std::vector<ExecutionOptions>&)>& work);

}  // namespace gantry::cli
