#include "host/cli/boards/ssh_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "host/cli/between.h"
#include "host/cli/terminal.h"
#include "host/support/child_pipes.h"
#include "host/support/error.h"

namespace gantry::cli {

std::string host_part(const std::string& destination) {
  return destination.substr(destination.rfind('@') + 1);  // npos + 1: all of it
}

void add_ssh_options(CLI::App& command, SshOptions& options, const std::string& otherwise) {
  command.add_option("--ssh-port", options.port, "Port of its ssh server; default: " + otherwise)
      ->type_name("PORT")
      ->check(between(1, 65535));
  command
      .add_option("--ssh-option", options.options, "An option for ssh, as behind its -o; as often as needed")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

SshAccess ssh_access(const std::string& destination, const SshOptions& given) {
  const bool printable =
      std::ranges::all_of(destination, [](unsigned char c) { return std::isgraph(c) != 0; });
  if (destination.starts_with('-') || host_part(destination).empty() || destination.starts_with('@') ||
      !printable)
    user_error("'{}' names no board for ssh; write USER@HOST, or a host of ~/.ssh/config",
               visible_line(destination));
  SshAccess access{destination, {}, {}};
  if (given.port != 0) access.options.push_back("Port=" + std::to_string(given.port));
  for (const std::string& option : given.options) {
    const size_t equals = option.find('=');
    if (equals == 0 || equals == std::string::npos || option.find('\n') != std::string::npos)
      user_error("--ssh-option '{}': write KEY=VALUE, as behind ssh's -o", visible_line(option));
    access.options.push_back(option);
  }
  return access;
}

SshAccess ssh_access(const SshAccess& kept, const SshOptions& given) {
  SshAccess access = ssh_access(kept.destination, given);
  access.folder = kept.folder;
  // What is given wins: of an option that is given twice, ssh takes the first.
  access.options.insert(access.options.end(), kept.options.begin(), kept.options.end());
  return access;
}

std::string ssh_command_text(const SshAccess& access) {
  std::string command = "ssh ";
  for (const std::string& option : access.options) command += "-o " + option + " ";
  return command + access.destination;
}

bool may_ask_at_terminal() {
  return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0;
}

std::vector<std::string> ssh_words(const SshAccess& access, const std::string& command) {
  std::vector<std::string> words = {"ssh", "-T"};
  const auto add = [&](const std::string& option) { words.insert(words.end(), {"-o", option}); };
  for (const std::string& option : access.options) add(option);
  if (!may_ask_at_terminal()) add("BatchMode=yes");
  // A board that vanishes is noticed within a minute. What else of the configuration is for other uses of it.
  for (const char* option :
       {"ConnectTimeout=20", "ServerAliveInterval=15", "ServerAliveCountMax=4", "ClearAllForwardings=yes",
        "ForwardX11=no", "ForwardAgent=no", "RemoteCommand=none", "RequestTTY=no"})
    add(option);
  words.insert(words.end(), {"--", access.destination, command});
  return words;
}

std::string ssh_host(const SshAccess& access) {
  std::vector<std::string> words = {"ssh", "-G"};
  for (const std::string& option : access.options) words.insert(words.end(), {"-o", option});
  words.insert(words.end(), {"--", access.destination});
  constexpr std::chrono::seconds kPatience{20};
  ChildPipes ssh(words, cleanup::Child::Group::kOwn, "setting up a board");
  std::string line, host;
  const std::string name = "hostname ";
  while (ssh.next_line(line, kPatience) == ChildPipes::Next::kLine) {
    if (line.starts_with(name)) host = line.substr(name.size());
  }
  if (ssh.finish(kPatience) != 0 || host.empty())
    board_error("{}: ssh: {}", access.destination, ssh_complaint(ssh.words()));
  return host;
}

std::string ssh_complaint(const std::string& words) {
  constexpr size_t kMostLines = 4;
  std::vector<std::string> lines;
  for (size_t start = 0; start < words.size();) {
    const size_t end = std::min(words.find('\n', start), words.size());
    std::string line = words.substr(start, end - start);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.pop_back();
    // Frames, and what goes on with another line.
    // Who shows it names the program already.
    if (line.starts_with("ssh: ")) line.erase(0, 5);
    const bool decoration = line.empty() || line.front() == '@' || line.front() == ' ';
    if (!decoration && !line.starts_with("Warning: Permanently added")) lines.push_back(visible_line(line));
    start = end + 1;
  }
  if (lines.empty()) return "the connection ended without a word";
  if (lines.size() > kMostLines) lines.erase(lines.begin(), lines.end() - kMostLines);
  return fmt::format("{}", fmt::join(lines, " / "));
}

std::string ssh_advice(const SshAccess& access, const std::string& words) {
  const auto says = [&](const char* text) { return words.find(text) != std::string::npos; };
  if (says("HOST IDENTIFICATION HAS CHANGED"))
    return "its host key is not the one that is known: another machine answers, or it was installed anew; "
           "then "
           "`ssh-keygen -R HOST` forgets the old key";
  if (says("Host key verification failed"))
    return fmt::format("its host key is not known yet: `{}` shows it and asks", ssh_command_text(access));
  if (says("Permission denied"))
    return fmt::format(
        "give it your public key (`ssh-copy-id {}`), or start gantry on a terminal, where ssh can ask",
        access.destination);
  return fmt::format("try `{}`", ssh_command_text(access));
}

}  // namespace gantry::cli
