#include <CLI/CLI.hpp>
#include <thread>

#include "host/cli/avahi_browse.h"
#include "host/cli/boards_file.h"
#include "host/cli/commands.h"
#include "host/cli/discovery_report.h"
#include "host/cli/json_values.h"
#include "host/cli/quantities.h"
#include "host/cli/terminal.h"
#include "rpc/protocol/frame.h"
#include "rpc/protocol/service.h"

namespace gantry::cli {
namespace {

struct Options {
  double timeout_s = 5;
  bool json = false;
};

void warn_of_what_is_odd(const Browsed& browsed, const Discovery& discovery, const Invocation& invocation) {
  if (!browsed.complete)
    invocation.warn("Avahi had not heard from all boards when the time was up; --timeout gives it longer");
  if (discovery.unreadable > 0)
    invocation.warn(fmt::format("{} announcements are not as gantry-device makes them, and are left out",
                                discovery.unreadable));
  for (const FoundBoard& board : discovery.boards) {
    if (board.protocol.value_or(rpc::kProtocolVersion) == rpc::kProtocolVersion) continue;
    invocation.warn(
        fmt::format("board '{}' speaks version {} of the protocol, this gantry version {}: put the "
                    "gantry-device there that came with this gantry",
                    visible_line(board.name), *board.protocol, rpc::kProtocolVersion));
  }
}

/// Asks again, while there is time, where a board was not heard at an address at which it answers: Avahi says
/// what it knows at once, which may be a board's IPv6 address before its IPv4 one.
std::pair<Browsed, Discovery> browse_until_settled(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kBetween{200};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (auto left = patience;;) {
    Browsed browsed = browse(rpc::kServiceType, left);
    Discovery discovery = parse_browsed(browsed.lines);
    left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    // Less than a second would not let it answer: what was heard is better than an error.
    if (discovery.settled || left < std::chrono::seconds(1))
      return {std::move(browsed), std::move(discovery)};
    std::this_thread::sleep_for(kBetween);
    left -= kBetween;
  }
}

int discover(const Options& options, const Invocation& invocation) {
  const BoardsFile boards = BoardsFile::read(boards_path());
  const auto patience = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1000));
  const auto [browsed, discovery] = browse_until_settled(patience);
  warn_of_what_is_odd(browsed, discovery, invocation);
  if (options.json) {
    print_out(document_text(discovery_json(discovery.boards, boards)));
  } else {
    print_out(discovery_text(discovery.boards, boards, terminal_width()));
  }
  return 0;
}

}  // namespace

void add_discover_command(CLI::App& boards, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      boards.add_subcommand("discover", "Find the boards that announce themselves on this network");
  add_duration(*command, "--timeout", options->timeout_s,
               "The longest that finding them may take; default 5s");
  command->add_flag("--json", options->json, "Report as JSON on stdout");
  command->footer(R"(Examples:
  gantry boards discover
  gantry boards discover --timeout 10 --json
A board is found where its server runs with --announce, this machine is on the same network, and Avahi runs on
both (Debian's packages avahi-daemon and avahi-utils). What is announced is only a hint: anybody on the network
can announce anything, the key alone tells whom one talks to.)");
  command->callback([options, &boards, &invocation] {
    options->json |= boards.count("--json") > 0;
    invocation.action = [options, &invocation] { return discover(*options, invocation); };
  });
}

}  // namespace gantry::cli
