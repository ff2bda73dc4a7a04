// The shell of a board, over one ssh connection, on which scripts run one after another. What they say, and
// how they undo what they did when the connection ends, is in script_common.sh.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "host/cli/boards_file.h"
#include "host/support/child_pipes.h"

namespace gantry::cli {

class BoardShell {
 public:
  /// What a script says: "error no room" is {"error", "no room"}.
  struct Answer {
    std::string kind, text;
  };

  /// Connects and runs a script with an argument. `label` is the board in errors, all of which are board
  /// errors with ssh's own words.
  BoardShell(std::string label, const SshAccess& access, const std::string& script,
             const std::string& argument);

  /// The next answer. Throws where the script says "error" or nothing for so long, and where it or the
  /// connection ends.
  Answer answer(std::chrono::seconds patience);
  /// answer(), which must be of that kind.
  std::string expect(const std::string& kind, std::chrono::seconds patience);

  /// Has the first script go on with another one, as root if `sudo`.
  void go_on_with(const std::string& script, const std::string& verb, bool sudo);
  void send(std::string_view text, const std::function<void(size_t sent)>& progress = {});
  /// Ends the script's input, which undoes what was not confirmed; says how that went: "undone", "restored",
  /// "error …", or "" where the connection is lost.
  std::string undo();

 private:
  [[noreturn]] void fail_at_end();

  std::string label_;
  SshAccess access_;
  ChildPipes ssh_;
};

}  // namespace gantry::cli
