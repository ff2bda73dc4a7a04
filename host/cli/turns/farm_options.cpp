#include "host/cli/turns/farm_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "host/cli/between.h"
#include "host/support/error.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

/// What Slurm is asked for. A user error for what is no name of a type.
farm::LeaseRequest lease_request(const FarmOptions& options, const TurnOptions& turns) {
  constexpr std::string_view kOthers = ".-_";
  if (options.board.empty() || !std::ranges::all_of(options.board, [&](unsigned char c) {
        return std::isalnum(c) != 0 || kOthers.find(static_cast<char>(c)) != std::string_view::npos;
      }))
    user_error("--board {}: a type of board has letters, digits, '.', '-' and '_'", options.board);
  farm::LeaseRequest request;
  request.board_type = options.board;
  request.partition = options.partition;
  request.minutes = options.minutes;
  request.priority = turns.priority;
  request.longest_wait_s = turns.longest_wait_s;
  return request;
}

/// The board behind a lease that is ready, as --on and --key name one.
void use_board(ExecutionOptions& choice, const farm::LeasedBoard& lease) {
  choice.board = lease.address();
  choice.key = lease.key_file().string();
}

}  // namespace

void add_farm_options(CLI::App& command, FarmOptions& options) {
  constexpr int kMostMinutes = 7 * 24 * 60;
  CLI::Option* farm =
      command
          .add_option("--farm", options.farm,
                      "Lease a board of a lab's farm for the while, instead of --on; see `gantry farm`")
          ->type_name("slurm")
          ->check(CLI::IsMember({"slurm"}).description(""));
  CLI::Option* board = command.add_option("--board", options.board, "The type of board that is leased")
                           ->type_name("TYPE")
                           ->needs(farm);
  farm->needs(board);
  command.add_option("--partition", options.partition, "Of Slurm; default: its own")
      ->type_name("NAME")
      ->needs(farm);
  command.add_option("--lease-minutes", options.minutes, "After which a lease ends; default 60")
      ->type_name("N")
      ->check(between(1, kMostMinutes))
      ->needs(farm);
}

TurnOptions turns_on_board(const FarmOptions& options, TurnOptions turns) {
  if (!options.farm.empty()) turns.priority = rpc::LeasePriority::kNormal;
  return turns;
}

void with_board(const FarmOptions& options, const TurnOptions& turns, std::vector<ExecutionOptions> choices,
                const Invocation& invocation,
                const std::function<void(const std::vector<ExecutionOptions>&)>& work) {
  if (options.farm.empty()) return work(choices);
  for (const ExecutionOptions& choice : choices)
    if (!choice.board.empty() || !choice.key.empty())
      user_error("--farm leases a board and its key: leave out --on and --key");
  constexpr int kMostLeases = 3;
  farm::SlurmCommands slurm;
  farm::LeasedBoard lease(slurm, lease_request(options, turns));
  for (int leases = 1;; ++leases) {
    {
      Progress progress(invocation.verbosity());
      lease.wait([&](const std::string& what) { progress.update(what, -1); });
    }
    invocation.note(lease.words());
    for (ExecutionOptions& choice : choices) use_board(choice, lease);
    try {
      return work(choices);
    } catch (const rpc::Error& error) {
      // The key was taken away, or the board is gone: what was measured there is of no use without the rest.
      if (error.kind() != rpc::ErrorKind::kReconnect || leases == kMostLeases) throw;
      invocation.warn(fmt::format("{}; leasing another board and measuring anew", error.what()));
    }
    lease.want_again();
  }
}

}  // namespace gantry::cli
