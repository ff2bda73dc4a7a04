// The user's own ssh: its configuration, agent, jump hosts and known hosts apply.
#pragma once

#include <string>
#include <vector>

#include "host/cli/boards_file.h"

namespace CLI {
class App;
}

namespace gantry::cli {

/// What the user says of ssh beside the destination.
struct SshOptions {
  int port = 0;  ///< 0: ssh's own
  std::vector<std::string> options;
};
/// --ssh-port and --ssh-option; `otherwise` is the port that holds without.
void add_ssh_options(CLI::App& command, SshOptions& options, const std::string& otherwise);

/// User errors: a destination that ssh would take for an option, or that names no host; an option that is not
/// KEY=VALUE.
SshAccess ssh_access(const std::string& destination, const SshOptions& given);

/// How a board of the list is reached in a call that says more of ssh. User errors: as of ssh_access.
SshAccess ssh_access(const SshAccess& kept, const SshOptions& given);

/// The command as a user would type it: "ssh -o Port=2222 me@pi".
std::string ssh_command_text(const SshAccess& access);

/// The words that run a command of the board's shell. ssh asks for passwords and about unknown hosts where
/// this program is on a terminal, else it fails.
std::vector<std::string> ssh_words(const SshAccess& access, const std::string& command);
bool may_ask_at_terminal();

/// The host's name or address as ssh's configuration has it. Board error with ssh's words.
std::string ssh_host(const SshAccess& access);

/// "me@pi" -> "pi"
std::string host_part(const std::string& destination);

/// What to do about a connection that ended with these words of ssh's.
std::string ssh_advice(const SshAccess& access, const std::string& words);
/// Those of its words that matter, in one line.
std::string ssh_complaint(const std::string& words);

}  // namespace gantry::cli
