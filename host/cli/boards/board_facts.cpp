#include "host/cli/boards/board_facts.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "host/cli/terminal.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

uint64_t bytes_of_kib(const std::string& text) {
  uint64_t kib = 0;
  std::from_chars(text.data(), text.data() + text.size(), kib);
  return std::min(kib, uint64_t{1} << 50) * 1024;
}

BoardFacts::Place::State state_of(const std::string& text) {
  using State = BoardFacts::Place::State;
  return text.starts_with("set-up") ? State::kSetUp : text == "busy" ? State::kBusy : State::kForeign;
}

void take_place(BoardFacts::Place& place, const std::string& text) {
  place.state = state_of(text);
  const std::string mark = "set-up ";
  if (text.starts_with(mark)) place.version = visible_line(text.substr(mark.size()));
}

BoardFacts::Rights rights_of(const std::string& text) {
  using Rights = BoardFacts::Rights;
  return text == "root" ? Rights::kRoot : text == "sudo" ? Rights::kSudo : Rights::kUser;
}

}  // namespace

std::string user_folder(const BoardFacts& facts) {
  return facts.home + "/.gantry-device";
}

void take_fact(BoardFacts& facts, const BoardShell::Answer& answer) {
  const auto& [kind, text] = answer;
  if (kind == "machine") facts.machine = text;
  if (kind == "system") facts.system = visible_line(text);
  if (kind == "user") facts.user = visible_line(text);
  if (kind == "home") facts.home = text;
  if (kind == "rights") facts.rights = rights_of(text);
  if (kind == "systemd") facts.systemd = true;
  if (kind == "user-manager") facts.user_manager = true;
  if (kind == "taken") facts.port_taken = true;
  if (kind == "no-user") facts.no_user = true;
  if (kind == "missing") facts.missing.push_back(visible_line(text));
  if (kind == "free-system") facts.for_all.free_bytes = bytes_of_kib(text);
  if (kind == "free-user") facts.for_user.free_bytes = bytes_of_kib(text);
  if (kind == "system-folder") take_place(facts.for_all, text);
  if (kind == "user-folder") take_place(facts.for_user, text);
  if (kind == "unit" && facts.foreign_unit.empty()) facts.foreign_unit = visible_line(text);
}

BoardFacts read_facts(BoardShell& shell, const std::string& label) {
  // ssh may ask for a password.
  constexpr std::chrono::seconds kLogin{180};
  BoardFacts facts;
  for (;;) {
    const BoardShell::Answer answer = shell.answer(kLogin);
    if (answer.kind == "end") break;
    take_fact(facts, answer);
  }
  const bool plain = std::ranges::all_of(facts.home, [](unsigned char c) { return std::iscntrl(c) == 0; });
  if (!facts.home.starts_with('/') || !plain)
    board_error("{}: user {} has no home folder there ('{}')", label, facts.user, visible_line(facts.home));
  return facts;
}

bool runs_by_sudo(const BoardFacts& facts, const std::string& label, const std::string& folder) {
  if (folder != kSystemFolder) return false;
  if (facts.rights == BoardFacts::Rights::kUser)
    user_error("{}: root has set it up; let ssh log in as root, or sudo ask for no password", label);
  return facts.rights == BoardFacts::Rights::kSudo;
}

std::string facts_text(const BoardFacts& facts) {
  const char* rights = facts.rights == BoardFacts::Rights::kRoot   ? "root"
                       : facts.rights == BoardFacts::Rights::kSudo ? "root by sudo"
                                                                   : "no root";
  return fmt::format("{}, {}, {}, {}", visible_line(facts.machine), facts.system,
                     facts.systemd ? "systemd" : "no systemd", rights);
}

}  // namespace gantry::cli
