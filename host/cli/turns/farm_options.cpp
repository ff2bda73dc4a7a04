#include "host/cli/turns/farm_options.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "host/cli/between.h"
#include "host/support/error.h"
#include "rpc/error.h"

namespace gantry::cli {

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

BoardsOfType parse_boards_of_type(const std::string& text, size_t most) {
  BoardsOfType boards;
  const size_t colon = text.find(':');
  boards.type = text.substr(0, colon);
  if (colon != std::string::npos) {
    const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, boards.count);
    if (error != std::errc() || stop != end || boards.count == 0)
      user_error("--board {}: write TYPE or TYPE:COUNT, e.g. pi5:8", text);
  }
  const bool name = !boards.type.empty() && boards.type.find_first_not_of(
                                                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqr"
                                                "stuvwxyz0123456789.-_") == std::string::npos;
  if (!name) user_error("--board {}: a type of board has letters, digits, '.', '-' and '_'", text);
  if (boards.count > most)
    user_error("--board {}: this command measures on {} board{}", text, most, most == 1 ? "" : "s");
  return boards;
}

farm::LeaseRequest lease_request(const FarmOptions& options, const std::string& board_type,
                                 const TurnOptions& turns) {
  farm::LeaseRequest request;
  request.board_type = board_type;
  request.partition = options.partition;
  request.minutes = options.minutes;
  request.priority = turns.priority;
  request.longest_wait_s = turns.longest_wait_s;
  return request;
}

TurnOptions turns_on_board(const FarmOptions& options, TurnOptions turns) {
  if (!options.farm.empty()) turns.priority = rpc::LeasePriority::kNormal;
  return turns;
}

void use_board(ExecutionOptions& choice, const farm::LeasedBoard& lease) {
  choice.board = lease.address();
  choice.key = lease.key_file().string();
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
  farm::LeasedBoard lease(slurm, lease_request(options, parse_boards_of_type(options.board, 1).type, turns));
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
