#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "host/cli/between.h"
#include "host/cli/boards/board_commands.h"
#include "host/cli/boards/board_facts.h"
#include "host/cli/boards/board_work.h"
#include "host/cli/boards/first_check.h"
#include "host/cli/boards/scripts.h"
#include "host/cli/boards/setup_plan.h"
#include "host/cli/boards/ssh_command.h"
#include "host/cli/boards_file.h"
#include "host/cli/terminal.h"
#include "host/cli/text.h"
#include "host/support/error.h"
#include "host/support/output_file.h"
#include "host/support/program.h"
#include "rpc/security/key.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry boards setup me@192.168.1.20 --name pi    from nothing to a first timing
  gantry boards setup pi                           a host of ~/.ssh/config; the board's name is the host's
  gantry boards setup me@pi --dry-run              what the board is, and what would be done
  gantry boards setup me@pi --no-root              as a server of this user's, whatever rights it has
  gantry bench model.onnx --on pi                  afterwards
The board needs a shell and an ssh server; nothing is compiled or downloaded there. What is cut off leaves nothing.)";

constexpr std::chrono::seconds kStarting{180};

struct Options {
  std::string destination, name, address, program;
  std::string listen = "0.0.0.0";
  SshOptions ssh;
  uint16_t port = 7453;
  bool no_root = false, dry_run = false;
};

/// "192.168.1.20:7453, by `ssh me@pi` in /opt/gantry-device"
std::string entry_text(const BoardEntry& entry) {
  std::string text = entry.address;
  if (!entry.ssh.destination.empty()) text += ", by `" + ssh_command_text(entry.ssh) + "`";
  if (!entry.ssh.folder.empty()) text += " in " + entry.ssh.folder;
  return text;
}

/// User error where the list has another board of that name, whose entry and key would be lost.
/// `access.folder` is empty as long as it is not known.
void refuse_another_board(const std::string& name, const SshAccess& access) {
  const BoardsFile boards = BoardsFile::read(boards_path());
  const auto found = boards.boards().find(name);
  if (found == boards.boards().end()) return;
  SshAccess listed = found->second.ssh;
  if (listed.folder.empty() || access.folder.empty()) listed.folder = access.folder;
  if (listed == access) return;
  user_error("board '{}' is another one ({}); choose a name with --name, or `gantry boards remove {}` first",
             name, entry_text(found->second), name);
}

/// The name that the board gets. User errors: one that cannot be a name, or is another board's; what the list
/// of boards could not keep.
std::string board_name(const Options& options, const SshAccess& access) {
  const std::string name = options.name.empty() ? host_part(options.destination) : options.name;
  refuse_another_board(name, access);
  BoardsFile boards = BoardsFile::read(boards_path());
  try {
    boards.add(name, {"localhost:1", {}});  // of this copy alone: whether it can be a name
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(error.what()) + "; give one with --name");
  }
  boards.add(name, {"localhost:1", setup_key_path(name), access});  // and whether the rest can be kept
  return name;
}

void check_addresses(const Options& options) {
  const auto is_number = [](unsigned char c) { return std::isxdigit(c) != 0 || c == '.' || c == ':'; };
  if (options.listen.empty() || !std::ranges::all_of(options.listen, is_number))
    user_error("--listen '{}': is no IP address of the board's, such as 0.0.0.0 for all",
               visible_line(options.listen));
  if (!options.address.empty() && !is_address(host_and_port(options.address, options.port)))
    user_error("--address '{}': write the host alone; --port says the port", visible_line(options.address));
}

/// Names the user in the board's log.
std::string key_identity() {
  const char* user = std::getenv("USER");
  const std::string name = user == nullptr ? "" : user;
  const bool fits = name.size() <= rpc::kMaxIdentity && std::ranges::all_of(name, [](unsigned char c) {
                      return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
                    });
  return fits ? name : "";
}

std::string header_of(const SetupPlan& plan, const std::string& program, const std::string& key,
                      const std::string& options, const std::string& starter) {
  return fmt::format(
      "folder {}\nservice {}\nport {}\nkey_name {}\nprogram {}\nkey {}\noptions {}\nstarter {}\n",
      plan.folder, service_name(plan.service), plan.port, plan.key_name, program, header_entry(key),
      header_entry(options), header_entry(starter));
}

/// Sends all files and has the server started.
void install(BoardShell& shell, const SetupPlan& plan, const rpc::PskKey& key, Steps& steps) {
  const std::string key_text = rpc::key_file_text(key), options = options_text(plan.service, plan.listen);
  const bool unit = plan.service != Service::kBackground;
  const std::string starter = unit ? unit_text(plan.service, plan.folder) : std::string(kRunScript);
  begin_script(shell, setup_script(), "setup", plan.by_sudo,
               header_of(plan, header_entry(read_program(plan.program)), key_text, options, starter));
  const std::string version = send_program(shell, plan.program, steps);
  send_file(shell, plan.key_name, key_text);
  send_file(shell, "options", options);
  send_file(shell, unit ? "gantry-device.service" : "run", starter);
  steps.done(fmt::format("copied {} ({}) and a new key to {}", version,
                         bytes_text(static_cast<double>(plan.program.bytes)), plan.folder));
  steps.doing("starting the server");
  shell.expect("started", kStarting);
  steps.done(fmt::format("started it ({}), listening on {}",
                         plan.service == Service::kBackground ? "in the background"
                         : plan.service == Service::kSystemd  ? "service gantry-device"
                                                              : "service gantry-device of the user's",
                         plan.listen));
}

/// The key in its file, before the board keeps it: whatever is cut off afterwards, somebody has it. A key
/// that an earlier try has left, of which no board knows, is replaced, and so is that of this board's last
/// setup.
void keep_key(const std::string& name, const rpc::PskKey& key) {
  const std::filesystem::path file = setup_key_path(name);
  std::error_code code;
  std::filesystem::create_directories(file.parent_path(), code);
  if (code) user_error("{}: cannot be created: {}", file.parent_path().string(), code.message());
  const BoardsFile boards = BoardsFile::read(boards_path());
  for (const auto& [other, theirs] : boards.boards()) {
    if (other != name && theirs.key == file)
      user_error("{}: is board '{}''s key; choose a name with --name", file.string(), other);
  }
  write_file(file, rpc::key_file_text(key), OutputFile::Privacy::kSecret);
}

/// The entry, which comes last: a board of the list is set up.
void remember(const std::string& name, const SetupPlan& plan, const SshAccess& access) {
  BoardEntry entry{plan.address, setup_key_path(name), access};
  entry.ssh.folder = plan.folder;
  BoardsFile::update(boards_path(), [&](BoardsFile& boards) { boards.add(name, std::move(entry)); });
}

/// As the board is not confirmed, nothing of it stays; an entry is of an earlier setup, with the same key
/// file.
void forget(const std::string& name) {
  BoardsFile::update(boards_path(), [&](BoardsFile& boards) {
    if (boards.boards().count(name) > 0) boards.remove(name);
  });
  std::error_code code;
  std::filesystem::remove(setup_key_path(name), code);
}

bool is_set_up(const BoardFacts& facts, const SetupPlan& plan) {
  return (plan.as_root ? facts.for_all : facts.for_user).state == BoardFacts::Place::State::kSetUp;
}

/// Tells the board that all is well.
void confirm(BoardShell& shell, const std::string& label, const std::string& name, const SetupPlan& plan,
             const SshAccess& access, const rpc::PskKey& key) {
  constexpr std::chrono::seconds kConfirming{60};
  keep_key(name, key);
  try {
    shell.send("confirm\n");
    shell.expect("done", kConfirming);
  } catch (const Error&) {
    // Who heard what of the last two messages is open. The server may answer until the board has undone it:
    // only the manifest's name tells. Where it cannot be read, the key stays, for `finish_earlier`.
    shell.undo();
    BoardShell again(label, access, probe_script(), "0");
    if (is_set_up(read_facts(again, label), plan)) return;
    forget(name);
    board_error("{}: the connection broke at the last step; set it up again", label);
  }
}

/// Puts a board into the list that was set up from here and is not in it, because gantry was cut off or told
/// to forget it: the board takes the key that is still there.
bool finish_earlier(const std::string& label, const std::string& name, const BoardFacts& facts,
                    const SetupPlan& plan, const SshAccess& access) {
  const std::filesystem::path file = setup_key_path(name);
  std::error_code code;
  if (!is_set_up(facts, plan) || BoardsFile::read(boards_path()).boards().count(name) > 0 ||
      !std::filesystem::exists(file, code))
    return false;
  try {
    connect_with_key(label, plan.address, rpc::read_key_file(file))->info();
  } catch (const std::exception&) {
    return false;  // of another setup
  }
  remember(name, plan, access);
  return true;
}

void report_notes(const BoardFacts& facts, const SetupPlan& plan, const Invocation& invocation) {
  if (plan.service != Service::kBackground) return;
  invocation.note(
      fmt::format("after a reset of the board, {}/run starts the server again, e.g. from a line \"@reboot "
                  "{}/run\" of `crontab -e`",
                  plan.folder, plan.folder));
  if (!plan.as_root && facts.systemd)
    invocation.note(fmt::format(
        "`loginctl enable-linger {}` there, by root, lets systemd do so: run it, then uninstall and "
        "set up again",
        facts.user));
}

int setup(const Options& options, const Invocation& invocation) {
  check_addresses(options);
  const SshAccess access = ssh_access(options.destination, options.ssh);
  const std::string name = board_name(options, access);
  const std::string label =
      name == access.destination ? name : fmt::format("{} ({})", name, access.destination);
  if (!options.program.empty()) read_device_program(options.program);
  Steps steps(invocation);
  const std::string host = options.address.empty() ? ssh_host(access) : options.address;
  steps.doing("connecting to " + access.destination);
  BoardShell shell(label, access, probe_script(), std::to_string(options.port));
  const BoardFacts facts = read_facts(shell, label);
  const SetupRequest request{label, name, options.port, options.listen, host, options.no_root};
  const SetupPlan place = plan_place(facts, request);
  refuse_another_board(name, {access.destination, access.options, place.folder});
  if (!options.dry_run && finish_earlier(label, name, facts, place, access)) {
    steps.done(fmt::format("board '{}' was set up already, with the key {}; it is in {} now", name,
                           setup_key_path(name).string(), boards_path().string()));
    return 0;
  }
  const DeviceProgram program = find_device_program(label, facts.machine, options.program, own_folder());
  const SetupPlan plan = plan_setup(facts, request, program);
  steps.done(fmt::format("{}: {}", label, facts_text(facts)));
  if (options.dry_run) {
    print_out(plan_text(plan) + "nothing was done: --dry-run\n");
    return 0;
  }
  const rpc::PskKey key = rpc::generate_key(key_identity());
  undo_where_it_fails(shell, label, [&] {
    install(shell, plan, key, steps);
    check_board(shell, label, plan.address, key, steps, invocation);
    confirm(shell, label, name, plan, access, key);
  });
  remember(name, plan, access);
  steps.done(fmt::format("board '{}' is in {}; all of it took {:.1f} s", name, boards_path().string(),
                         steps.all_seconds()));
  report_notes(facts, plan, invocation);
  return 0;
}

}  // namespace

std::filesystem::path setup_key_path(const std::string& name) {
  return config_folder() / "keys" / (name + ".key");
}

void add_boards_setup_command(CLI::App& boards, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      boards.add_subcommand("setup", "Set a board up over ssh, from nothing to a first timing");
  command->add_option("USER@HOST", options->destination, "The board, as ssh calls it")->required();
  command->add_option("--name", options->name, "What to call it; default: HOST")->type_name("NAME");
  add_ssh_options(*command, options->ssh, "ssh's");
  command
      ->add_option("--device-program", options->program,
                   "The gantry-device for the board; default: the one for its machine that came with gantry")
      ->type_name("FILE");
  command->add_option("--port", options->port, "Port that gantry-device listens on; default 7453")
      ->type_name("PORT")
      ->check(between(1, 65535));
  command->add_option("--listen", options->listen, "The board's address to listen on; default 0.0.0.0, all")
      ->type_name("ADDR");
  command
      ->add_option("--address", options->address,
                   "How this machine reaches the board; default: ssh's host name")
      ->type_name("HOST");
  command->add_flag("--no-root", options->no_root,
                    "Install for the user of ssh alone, even where root could");
  command->add_flag("--dry-run", options->dry_run, "Only say what the board is and what would be done");
  command->footer(kExamples);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return setup(*options, invocation); };
  });
}

}  // namespace gantry::cli
