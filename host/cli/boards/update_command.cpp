#include <CLI/CLI.hpp>

#include "host/cli/boards/board_commands.h"
#include "host/cli/boards/board_facts.h"
#include "host/cli/boards/board_work.h"
#include "host/cli/boards/scripts.h"
#include "host/cli/boards/ssh_command.h"
#include "host/cli/boards_file.h"
#include "host/support/error.h"
#include "host/support/program.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry boards update pi                              the gantry-device that came with this gantry
  gantry boards update pi --device-program ./gantry-device
  gantry boards update pi --ssh-port 2222              its ssh server has moved since it was set up
Key, settings and cache stay. The old program comes back if the new one does not answer.)";

constexpr std::chrono::seconds kStarting{180}, kConfirming{60};

struct Options {
  std::string name, program;
  SshOptions ssh;
};

int update(const Options& options, const Invocation& invocation) {
  const BoardEntry entry = BoardsFile::read(boards_path()).find(options.name);
  if (entry.ssh.destination.empty() || entry.ssh.folder.empty()) {
    user_error(
        "board '{}' was not set up by `gantry boards setup`; update it as it was installed (the package: "
        "apt)",
        options.name);
  }
  const SshAccess access = ssh_access(entry.ssh, options.ssh);
  const rpc::PskKey key = rpc::read_key_file(entry.key);
  const std::string label = fmt::format("{} ({})", options.name, entry.ssh.destination);
  Steps steps(invocation);
  steps.doing("connecting to " + entry.ssh.destination);
  BoardShell shell(label, access, probe_script(), "0");
  const BoardFacts facts = read_facts(shell, label);
  const BoardFacts::Place& place = entry.ssh.folder == kSystemFolder ? facts.for_all : facts.for_user;
  if (place.state != BoardFacts::Place::State::kSetUp)
    board_error("{}: nothing that gantry has set up is in {} there; `gantry boards setup` does", label,
                entry.ssh.folder);
  const bool sudo = runs_by_sudo(facts, label, entry.ssh.folder);
  const DeviceProgram program = find_device_program(label, facts.machine, options.program, own_folder());
  steps.done(fmt::format("{}: {}; has {}", label, facts_text(facts), place.version));
  undo_where_it_fails(shell, label, [&] {
    begin_script(
        shell, update_script(), "update", sudo,
        fmt::format("folder {}\nprogram {}\n", entry.ssh.folder, header_entry(read_program(program))));
    const std::string version = send_program(shell, program, steps);
    steps.done(fmt::format("copied {}", version));
    steps.doing("starting it");
    shell.expect("started", kStarting);
    steps.done("started it in the place of the old one");
    check_board(shell, label, entry.address, key, steps, invocation);
    shell.send("confirm\n");
    shell.expect("done", kConfirming);
  });
  steps.done(
      fmt::format("board '{}' is up to date; all of it took {:.1f} s", options.name, steps.all_seconds()));
  return 0;
}

}  // namespace

void add_boards_update_command(CLI::App& boards, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      boards.add_subcommand("update", "Replace the gantry-device of a board that setup has set up");
  command->add_option("NAME", options->name, "The board")->required();
  add_ssh_options(*command, options->ssh, "as it was set up");
  command
      ->add_option("--device-program", options->program,
                   "The gantry-device for the board; default: the one for its machine that came with gantry")
      ->type_name("FILE");
  command->footer(kExamples);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return update(*options, invocation); };
  });
}

}  // namespace gantry::cli
