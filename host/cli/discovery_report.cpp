#include "host/cli/discovery_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "host/cli/json_values.h"
#include "host/cli/terminal.h"
#include "host/cli/text.h"

namespace gantry::cli {
namespace {

/// A board's versions and architectures are short; what is longer only pushes the table's columns apart.
constexpr size_t kWidest = 24;

using Json = nlohmann::ordered_json;

std::string key_text(const FoundBoard& board) {
  return !board.needs_key ? "-" : *board.needs_key ? "needed" : "none";
}

std::string cell(const std::string& text) {
  return text.empty() ? "-" : shorten(visible_line(text), kWidest);
}

}  // namespace

std::vector<std::string> names_of(const FoundBoard& board, const BoardsFile& boards) {
  std::vector<std::string> known = board.addresses;
  for (const std::string& host : {board.host, board.host.substr(0, board.host.find('.'))})
    known.push_back(fmt::format("{}:{}", host, board.port));
  std::vector<std::string> names;
  for (const auto& [name, entry] : boards.boards()) {
    if (std::find(known.begin(), known.end(), entry.address) != known.end()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> commands_that_add(const std::vector<FoundBoard>& found, const BoardsFile& boards) {
  std::vector<std::string> taken, commands;
  for (const auto& [name, entry] : boards.boards()) taken.push_back(name);
  for (const FoundBoard& board : found) {
    std::string& command = commands.emplace_back();
    if (board.addresses.empty() || !names_of(board, boards).empty()) continue;
    taken.push_back(usable_name(board.name, taken));
    command = fmt::format("gantry boards add {} {}{}", taken.back(), board.addresses.front(),
                          board.needs_key.value_or(true) ? " --key FILE" : "");
  }
  return commands;
}

std::string discovery_text(const std::vector<FoundBoard>& found, const BoardsFile& boards, size_t max_width) {
  if (found.empty()) {
    return "no board announces itself on this network; `gantry-device serve --announce` on a board does\n";
  }
  constexpr auto kLeft = Table::Align::kLeft;
  Table table({{"board", kLeft},
               {"address", kLeft},
               {"arch", kLeft},
               {"version", kLeft},
               {"key", kLeft},
               {"added as", kLeft}});
  std::string commands;
  const std::vector<std::string> additions = commands_that_add(found, boards);
  for (size_t i = 0; i < found.size(); ++i) {
    const FoundBoard& board = found[i];
    const std::vector<std::string> names = names_of(board, boards);
    table.row({board.name, board.addresses.empty() ? "it does not answer" : board.addresses.front(),
               cell(board.architecture), cell(board.version), key_text(board),
               names.empty() ? "-" : fmt::format("{}", fmt::join(names, ", "))});
    if (!additions[i].empty()) commands += "  " + additions[i] + "\n";
  }
  const std::string heading = commands.empty() ? "" : "\nto add what is new:\n";
  return table.str(0, max_width) + heading + commands;
}

Json discovery_json(const std::vector<FoundBoard>& found, const BoardsFile& boards) {
  Json list = Json::array();
  const std::vector<std::string> additions = commands_that_add(found, boards);
  for (size_t i = 0; i < found.size(); ++i) {
    const FoundBoard& board = found[i];
    Json& json = list.emplace_back();
    json["name"] = board.name;
    json["host"] = said(board.host);
    json["port"] = said(board.port);
    json["addresses"] = board.addresses;
    json["architecture"] = said(board.architecture);
    json["version"] = said(board.version);
    json["protocol"] = shown(board.protocol);
    json["needs_key"] = shown(board.needs_key);
    json["added_as"] = names_of(board, boards);
    json["command"] = said(additions[i]);
  }
  return list;
}

}  // namespace gantry::cli
