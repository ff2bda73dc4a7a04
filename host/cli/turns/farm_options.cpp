#include "host/cli/turns/farm_options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <string_view>

#include "host/cli/between.h"
#include "host/cli/text.h"
#include "host/support/error.h"
#include "host/support/stopwatch.h"
#include "host/support/words.h"
#include "rpc/error.h"

namespace gantry::cli {
namespace {

/// A whole number from 1 on; 0 for what is none.
size_t count_of(std::string_view text) {
  size_t count = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), count);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? count : 0;
}

/// With a line that is rewritten at a terminal, and a note now and then.
void wait_for(farm::LeasedBoard& lease, const Invocation& invocation) {
  const Stopwatch waited;
  Progress progress(invocation.verbosity());
  WaitNotes notes;
  lease.wait([&](const std::string& what) {
    if (notes.due(waited.seconds())) {
      progress.clear();
      invocation.note(fmt::format("{}, for {} so far", what, rough_duration_text(waited.seconds())));
    }
    progress.update(what, -1);
  });
}

/// The board behind a lease that is ready, as --on and --key name one.
void use_board(ExecutionOptions& choice, const farm::LeasedBoard& lease) {
  choice.board = lease.address();
  choice.key = lease.key_file().string();
}

}  // namespace

BoardsWanted boards_wanted(const FarmOptions& options) {
  const size_t colon = options.board.find(':');
  BoardsWanted wanted{options.board.substr(0, colon)};
  if (!is_board_word(wanted.type))
    user_error("--board {}: a type of board has letters, digits, '.', '-' and '_', at most 64",
               options.board);
  if (colon == std::string::npos) return wanted;
  wanted.count = count_of(std::string_view(options.board).substr(colon + 1));
  if (wanted.count == 0)
    user_error("--board {0}: how many boards? {1} is one, {1}:4 are four", options.board, wanted.type);
  if (wanted.count > options.most_boards)
    user_error("--board {}: this command measures on {} at most; give --board {}{}", options.board,
               counted(options.most_boards, "board"), wanted.type,
               options.most_boards == 1 ? "" : fmt::format(":{}", options.most_boards));
  return wanted;
}

farm::LeaseRequest lease_request(const FarmOptions& options, const TurnOptions& turns) {
  farm::LeaseRequest request;
  request.board_type = boards_wanted(options).type;
  request.partition = options.partition;
  request.minutes = options.minutes;
  request.priority = turns.priority;
  request.longest_wait_s = turns.longest_wait_s;
  return request;
}

farm::LeaseRequest compile_host_request(const FarmOptions& options, const TurnOptions& turns) {
  farm::LeaseRequest request;
  request.cpus = options.compile_cpus;
  request.partition = options.compile_partition;
  request.minutes = options.minutes;
  request.priority = turns.priority;
  return request;
}

void refuse_board_beside_farm(const ExecutionOptions& choice) {
  if (!choice.board.empty() || !choice.key.empty())
    user_error("--farm leases a board and its key: leave out --on and --key");
}

void add_farm_options(CLI::App& command, FarmOptions& options, size_t most_boards) {
  constexpr int kMostMinutes = 7 * 24 * 60;
  options.most_boards = most_boards;
  CLI::Option* farm =
      command
          .add_option("--farm", options.farm,
                      most_boards == 1
                          ? "Lease a board of a lab's farm for the while, instead of --on; see `gantry farm`"
                          : "Lease boards of a lab's farm for the while, instead of --on; see `gantry farm`")
          ->type_name("slurm")
          ->check(CLI::IsMember({"slurm"}).description(""));
  CLI::Option* board =
      command
          .add_option("--board", options.board,
                      most_boards == 1 ? "The type of board that is leased"
                                       : "The type of board that is leased, and how many at once; default 1")
          ->type_name(most_boards == 1 ? "TYPE" : "TYPE[:N]")
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

void add_compile_host_options(CLI::App& command, FarmOptions& options) {
  constexpr size_t kMostHosts = 64;
  constexpr int kMostCpus = 1024;
  CLI::Option* hosts = command
                           .add_option("--compile-hosts", options.compile_hosts,
                                       "Build on so many nodes of the farm without boards, too; default none")
                           ->type_name("N")
                           ->check(between(size_t{1}, kMostHosts))
                           ->needs(command.get_option("--farm"));
  command
      .add_option("--compile-partition", options.compile_partition,
                  "Of Slurm, for --compile-hosts; default: its own")
      ->type_name("NAME")
      ->needs(hosts);
  command
      .add_option("--compile-cpus", options.compile_cpus,
                  "CPUs of each of --compile-hosts; default: all of a node, which then nobody else uses")
      ->type_name("N")
      ->check(between(1, kMostCpus))
      ->needs(hosts);
}

TurnOptions turns_on_board(const FarmOptions& options, TurnOptions turns) {
  if (!options.farm.empty()) turns.priority = rpc::LeasePriority::kNormal;
  return turns;
}

void with_board(const FarmOptions& options, const TurnOptions& turns, std::vector<ExecutionOptions> choices,
                const Invocation& invocation,
                const std::function<void(const std::vector<ExecutionOptions>&)>& work) {
  if (options.farm.empty()) return work(choices);
  for (const ExecutionOptions& choice : choices) refuse_board_beside_farm(choice);
  constexpr int kMostLeases = 3;
  farm::SlurmCommands slurm;
  farm::LeasedBoard lease(slurm, lease_request(options, turns));
  for (int leases = 1;; ++leases) {
    wait_for(lease, invocation);
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
