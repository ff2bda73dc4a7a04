#include "host/cli/avahi_browse.h"

#include <algorithm>

#include "host/cli/terminal.h"
#include "host/support/child_pipes.h"
#include "host/support/error.h"
#include "host/support/program.h"

namespace gantry::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kProgram = "avahi-browse";
/// A network of thousands of boards prints less.
constexpr size_t kMostBytes = size_t{4} << 20;
/// For a program that has closed its streams to end.
constexpr milliseconds kFarewell{200};

[[noreturn]] void refuse(const std::string& message) {
  const std::string_view first = std::string_view(message).substr(0, message.find('\n'));
  user_error(
      "this machine's Avahi daemon, which hears what boards announce, cannot be asked: {}: {}; start it with "
      "`systemctl start avahi-daemon` (Debian's package avahi-daemon)",
      kProgram, first.empty() ? "it ended without a word" : visible_line(first));
}

}  // namespace

Browsed browse(const std::string& type, milliseconds patience) {
  if (!find_program(kProgram)) {
    user_error(
        "there is no program {} in $PATH, which finds boards; `apt install avahi-utils avahi-daemon` puts it "
        "there",
        kProgram);
  }
  const auto deadline = Clock::now() + patience;
  // With messages as we know them.
  ChildPipes program({"env", "LC_ALL=C", kProgram, "--resolve", "--parsable", "--terminate", type},
                     cleanup::Child::Group::kOwn, "finding boards");
  program.close_input();
  Browsed result;
  auto next = ChildPipes::Next::kLine;
  for (std::string line; next == ChildPipes::Next::kLine && result.lines.size() <= kMostBytes;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    next = program.next_line(line, std::max(left, milliseconds(0)));
    if (next == ChildPipes::Next::kLine) result.lines += line + "\n";
  }
  result.complete = next == ChildPipes::Next::kEnd;
  if (result.complete && program.finish(kFarewell) != 0) refuse(program.words());
  if (!result.complete && result.lines.empty()) {
    board_error(
        "no answer from Avahi within {:.1f} s: {}; give it longer with --timeout, or see "
        "`systemctl status avahi-daemon`",
        std::chrono::duration<double>(patience).count(),
        program.words().empty() ? "is its daemon running?" : visible_line(program.words()));
  }
  return result;
}

}  // namespace gantry::cli
