#include <CLI/CLI.hpp>

#include "host/cli/between.h"
#include "host/cli/boards/board_commands.h"
#include "host/cli/boards/board_facts.h"
#include "host/cli/boards/board_work.h"
#include "host/cli/boards/scripts.h"
#include "host/cli/boards/ssh_command.h"
#include "host/cli/boards_file.h"
#include "host/cli/terminal.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry boards uninstall pi
  gantry boards uninstall me@pi          one that is not in the list of boards
Stops the server and removes exactly what setup has put there, its user included, and the board from the list.)";

constexpr std::chrono::seconds kRemoving{180};

struct Options {
  std::string board;
  SshOptions ssh;
};

struct Target {
  std::string name;  ///< in the list; empty: it is not
  BoardEntry entry;
};

/// A board of the list, or a destination for ssh.
Target find_target(const Options& options) {
  const BoardsFile boards = BoardsFile::read(boards_path());
  const bool listed = boards.boards().count(options.board) > 0;
  if (!listed && options.board.find('@') == std::string::npos)
    boards.find(options.board);  // says what is near
  Target target;
  if (listed) target = {options.board, boards.find(options.board)};
  if (listed && target.entry.ssh.destination.empty()) {
    user_error("board '{}' was not set up by `gantry boards setup`; `gantry boards remove {}` forgets it",
               options.board, options.board);
  }
  target.entry.ssh =
      listed ? ssh_access(target.entry.ssh, options.ssh) : ssh_access(options.board, options.ssh);
  return target;
}

/// The board's folder: the one of the list, else the one that setup has filled.
std::string folder_of(const Target& target, const BoardFacts& facts) {
  using State = BoardFacts::Place::State;
  if (!target.entry.ssh.folder.empty()) return target.entry.ssh.folder;
  return facts.for_all.state == State::kSetUp || facts.for_user.state != State::kSetUp ? kSystemFolder
                                                                                       : user_folder(facts);
}

void forget(const Target& target) {
  if (target.name.empty()) return;
  BoardsFile::update(boards_path(), [&](BoardsFile& boards) {
    if (boards.boards().count(target.name) > 0) boards.remove(target.name);
  });
  // One that setup has made; others are the user's.
  std::error_code code;
  if (target.entry.key == setup_key_path(target.name)) std::filesystem::remove(target.entry.key, code);
}

int uninstall(const Options& options, const Invocation& invocation) {
  const Target target = find_target(options);
  const SshAccess& access = target.entry.ssh;
  const std::string label =
      target.name.empty() ? access.destination : fmt::format("{} ({})", target.name, access.destination);
  Steps steps(invocation);
  steps.doing("connecting to " + access.destination);
  BoardShell shell(label, access, probe_script(), "0");
  const BoardFacts facts = read_facts(shell, label);
  const std::string folder = folder_of(target, facts);
  steps.done(fmt::format("{}: {}", label, facts_text(facts)));
  begin_script(shell, uninstall_script(), "uninstall", runs_by_sudo(facts, label, folder),
               fmt::format("folder {}\n", folder));
  steps.doing("removing");
  bool absent = false;
  for (;;) {
    const BoardShell::Answer answer = shell.answer(kRemoving);
    if (answer.kind == "left")
      invocation.note(
          fmt::format("{}: left {}, which setup has not put there", label, visible_line(answer.text)));
    absent = absent || answer.kind == "absent";
    if (absent || answer.kind == "done") break;
  }
  forget(target);
  steps.done(absent ? fmt::format("nothing that gantry has set up was in {}", folder)
                    : fmt::format("stopped the server and removed {}", folder));
  if (!target.name.empty())
    steps.done(fmt::format("board '{}' is out of {}", target.name, boards_path().string()));
  return 0;
}

}  // namespace

void add_boards_uninstall_command(CLI::App& boards, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = boards.add_subcommand("uninstall", "Remove from a board what setup has put there");
  command->add_option("NAME", options->board, "The board, or USER@HOST")->required();
  add_ssh_options(*command, options->ssh, "as it was set up");
  command->footer(kExamples);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return uninstall(*options, invocation); };
  });
}

}  // namespace gantry::cli
