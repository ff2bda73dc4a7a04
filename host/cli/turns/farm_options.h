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
  std::string board;  ///< its type; "pi5:4" where several are leased at once
  std::string partition;
  int minutes = 60;        ///< of a lease
  size_t most_boards = 1;  ///< that the command can use at once
  size_t compile_hosts = 0;
  std::string compile_partition;  ///< of compile hosts; empty: Slurm's default
  int compile_cpus = 0;           ///< of each; 0: all that its node has
};

/// --farm, --board, --partition, --lease-minutes. `most_boards`: that the command can use at once.
void add_farm_options(CLI::App& command, FarmOptions& options, size_t most_boards = 1);

/// --compile-hosts, --compile-partition, --compile-cpus, of commands that have add_farm_options().
void add_compile_host_options(CLI::App& command, FarmOptions& options);

/// When a wait for a lease is worth a note: after ten seconds, then after twice as long, and so on.
class WaitNotes {
 public:
  /// Whether one is due, of a wait that has taken so long.
  bool due(double waited_s) {
    if (waited_s < next_s_) return false;
    next_s_ *= 2;
    return true;
  }

 private:
  double next_s_ = 10;
};

/// What --board says.
struct BoardsWanted {
  std::string type;
  size_t count = 1;
};
/// User errors for what is no name of a type, and for more boards than the command can use.
BoardsWanted boards_wanted(const FarmOptions& options);
/// What Slurm is asked for, for each of them. User errors as of boards_wanted().
farm::LeaseRequest lease_request(const FarmOptions& options, const TurnOptions& turns);
/// What Slurm is asked for, for each compile host. They are not waited for.
farm::LeaseRequest compile_host_request(const FarmOptions& options, const TurnOptions& turns);
/// User errors for --on or --key beside a farm.
void refuse_board_beside_farm(const ExecutionOptions& choice);

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
