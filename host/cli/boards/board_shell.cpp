#include "host/cli/boards/board_shell.h"

#include "host/cli/boards/ssh_command.h"
#include "host/cli/terminal.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

using std::chrono::seconds;

constexpr const char* kMark = "@gantry ";
constexpr int kSshFailed = 255;
constexpr seconds kEnding{10};

/// For any login shell: nothing in it but words and one text in single quotes.
std::string start_command(const std::string& script, const std::string& argument) {
  return fmt::format("exec sh -c 'eval \"$(dd bs=1 count={} 2>/dev/null)\"' gantry-on-board {}",
                     script.size(), argument);
}

cleanup::Child::Group group() {
  return may_ask_at_terminal() ? cleanup::Child::Group::kShared : cleanup::Child::Group::kOwn;
}

}  // namespace

BoardShell::BoardShell(std::string label, const SshAccess& access, const std::string& script,
                       const std::string& argument)
    : label_(std::move(label)),
      access_(access),
      ssh_(ssh_words(access, start_command(script, argument)), group(), "setting up a board") {
  send(script);
}

void BoardShell::send(std::string_view text, const std::function<void(size_t)>& progress) {
  // Where it reads no more, the next answer says why.
  ssh_.send(text, progress);
}

void BoardShell::go_on_with(const std::string& script, const std::string& verb, bool sudo) {
  send(fmt::format("next {} {} {}\n", sudo ? "sudo" : "plain", script.size(), verb));
  send(script);
}

void BoardShell::fail_at_end() {
  const int code = ssh_.finish(kEnding);
  const std::string complaint = ssh_complaint(ssh_.words());
  if (code == kSshFailed)
    board_error("{}: ssh: {}; {}", label_, complaint, ssh_advice(access_, ssh_.words()));
  board_error("{}: its shell ended (exit code {}): {}; it has to be a POSIX shell's system with dd", label_,
              code, complaint);
}

BoardShell::Answer BoardShell::answer(seconds patience) {
  std::string line;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    switch (ssh_.next_line(line, std::max(left, std::chrono::milliseconds(0)))) {
      case ChildPipes::Next::kEnd:
        fail_at_end();
      case ChildPipes::Next::kTimeout:
        board_error("{}: has said nothing over ssh for {} s; try again", label_, patience.count());
      case ChildPipes::Next::kLine:
        break;
    }
    // Others are a greeting of the board's.
    const size_t at = line.find(kMark);
    if (at == std::string::npos) continue;
    const std::string said = line.substr(at + std::string_view(kMark).size());
    const size_t space = std::min(said.find(' '), said.size());
    Answer answer{said.substr(0, space), space < said.size() ? said.substr(space + 1) : ""};
    if (answer.kind != "error") return answer;
    ssh_.settle();
    const std::string words = ssh_.words().empty() ? "" : " (" + ssh_complaint(ssh_.words()) + ")";
    board_error("{}: {}{}", label_, visible_line(answer.text), words);
  }
}

std::string BoardShell::expect(const std::string& kind, seconds patience) {
  const Answer said = answer(patience);
  if (said.kind != kind)
    board_error("{}: its script said '{}' in the place of '{}'; try again", label_, visible_line(said.kind),
                kind);
  return said.text;
}

std::string BoardShell::undo() {
  constexpr seconds kUndoing{120};
  ssh_.close_input();
  std::string line, outcome;
  while (ssh_.next_line(line, kUndoing) == ChildPipes::Next::kLine) {
    const size_t at = line.find(kMark);
    if (at != std::string::npos) outcome = line.substr(at + std::string_view(kMark).size());
  }
  ssh_.finish(kEnding);
  return outcome;
}

}  // namespace gantry::cli
