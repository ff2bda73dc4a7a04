#include "host/cli/boards_file.h"

#include <toml++/toml.h>

#include <charconv>
#include <cstdlib>
#include <sstream>

#include "host/support/error.h"
#include "host/support/folder_lock.h"
#include "host/support/output_file.h"
#include "host/support/suggest.h"
#include "host/support/words.h"
#include "rpc/visible_text.h"

namespace gantry::cli {
namespace {

std::vector<std::string> names_of(const std::map<std::string, BoardEntry>& boards) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : boards) names.push_back(name);
  return names;
}

std::string string_field(const toml::table& board, std::string_view key, const std::string& where) {
  const toml::node* node = board.get(key);
  if (node == nullptr) return "";
  const auto value = node->value<std::string>();
  if (!value || !node->is_string())
    user_error("{}:{}: '{}' must be a string", where, node->source().begin.line, key);
  return *value;
}

std::vector<std::string> list_field(const toml::table& board, std::string_view key,
                                    const std::string& where) {
  const toml::node* node = board.get(key);
  std::vector<std::string> list;
  if (node == nullptr) return list;
  const toml::array* array = node->as_array();
  for (size_t i = 0; array != nullptr && i < array->size(); ++i) {
    if (const auto* text = array->get(i)->as_string()) list.push_back(text->get());
  }
  if (array == nullptr || list.size() != array->size())
    user_error("{}:{}: '{}' must be a list of strings", where, node->source().begin.line, key);
  return list;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const rpc::CodePoint point = rpc::first_code_point(text);
    if (!point.valid) return false;
    text.remove_prefix(point.bytes);
  }
  return true;
}

/// User error for a text that the file, which is UTF-8 as all of TOML, would keep as another one.
void check_text(const std::string& board, const char* what, const std::string& text) {
  if (!is_utf8(text))
    user_error("board '{}': {} '{}' is not UTF-8, which the list of boards has to be; rename it", board, what,
               rpc::visible_text(text, rpc::Lines::kOne));
}

}  // namespace

std::filesystem::path config_folder() {
  const char* xdg = std::getenv("XDG_CONFIG_HOME");
  if (xdg != nullptr && xdg[0] == '/') return std::filesystem::path(xdg) / "gantry";
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] == '\0')
    user_error("neither XDG_CONFIG_HOME nor HOME is set; set one of them");
  return std::filesystem::path(home) / ".config" / "gantry";
}

std::filesystem::path boards_path() {
  return config_folder() / "boards.toml";
}

bool is_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string host = text.substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (!bracketed && host.find_first_of(":[] \t") != std::string::npos) return false;
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  return error == std::errc() && stop == end && port >= 1 && port <= 65535;
}

BoardsFile BoardsFile::read(const std::filesystem::path& path) {
  BoardsFile file;
  file.path_ = path;
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return file;
  const std::string where = path.string();
  toml::table table;
  try {
    table = toml::parse_file(where);
  } catch (const toml::parse_error& error) {
    user_error("{}:{}: not valid TOML: {}", where, error.source().begin.line, error.description());
  }
  for (const auto& [key, node] : table) {
    const auto line = node.source().begin.line;
    const toml::table* board = node.as_table();
    const std::string name(key.str());
    if (board == nullptr)
      user_error("{}:{}: '{}' is not a board; write [{}] and its address", where, line, name, name);
    BoardEntry entry{string_field(*board, "address", where),
                     string_field(*board, "key", where),
                     {string_field(*board, "ssh", where), list_field(*board, "ssh_options", where),
                      string_field(*board, "folder", where)}};
    if (entry.address.empty()) user_error("{}:{}: board '{}' has no address", where, line, name);
    try {
      file.add(name, std::move(entry));
    } catch (const Error& error) {
      user_error("{}:{}: {}", where, line, error.what());
    }
  }
  return file;
}

void BoardsFile::add(const std::string& name, BoardEntry entry) {
  if (!is_board_word(name)) {
    user_error("board name '{}': use letters, digits, '.', '-' and '_', at most 64", name);
  }
  if (!is_address(entry.address) || !is_utf8(entry.address)) {
    user_error("board '{}': address '{}' is not HOST:PORT, e.g. 192.168.1.20:7453", name, entry.address);
  }
  check_text(name, "key", entry.key.string());
  check_text(name, "ssh destination", entry.ssh.destination);
  check_text(name, "folder", entry.ssh.folder);
  for (const std::string& option : entry.ssh.options) check_text(name, "ssh option", option);
  boards_[name] = std::move(entry);
}

const BoardEntry& BoardsFile::find(const std::string& name) const {
  const auto found = boards_.find(name);
  if (found == boards_.end()) {
    user_error("there is no board '{}' (`gantry boards list` shows all){}", name,
               did_you_mean(name, names_of(boards_)));
  }
  return found->second;
}

void BoardsFile::remove(const std::string& name) {
  find(name);
  boards_.erase(name);
}

void BoardsFile::update(const std::filesystem::path& path, const std::function<void(BoardsFile&)>& change) {
  std::error_code code;
  std::filesystem::create_directories(path.parent_path(), code);
  if (code) user_error("{}: cannot be created: {}", path.parent_path().string(), code.message());
  const FolderLock lock(path.parent_path());
  BoardsFile boards = read(path);
  change(boards);
  boards.write();
}

void BoardsFile::write() const {
  toml::table table;
  for (const auto& [name, entry] : boards_) {
    toml::table board{{"address", entry.address}};
    if (!entry.key.empty()) board.insert("key", entry.key.string());
    const SshAccess& ssh = entry.ssh;
    if (!ssh.destination.empty()) board.insert("ssh", ssh.destination);
    toml::array ssh_options;
    for (const std::string& option : ssh.options) ssh_options.push_back(option);
    if (!ssh_options.empty()) board.insert("ssh_options", std::move(ssh_options));
    if (!ssh.folder.empty()) board.insert("folder", ssh.folder);
    table.insert(name, std::move(board));
  }
  std::ostringstream text;
  text << "# Boards known to gantry; see `gantry boards --help`.\n" << table << "\n";
  write_file(path_, text.str(), OutputFile::Privacy::kPrivate);
}

BoardChoice resolve_board(const std::string& name_or_address, const std::filesystem::path& key,
                          const BoardsFile& boards) {
  BoardChoice choice{name_or_address, {}};
  if (boards.boards().count(name_or_address) > 0) {
    choice.entry = boards.find(name_or_address);
  } else if (is_address(name_or_address)) {
    choice.entry.address = name_or_address;
  } else {
    user_error("'{}' is neither a board's name (`gantry boards list` shows them) nor HOST:PORT{}",
               name_or_address, did_you_mean(name_or_address, names_of(boards.boards())));
  }
  if (!key.empty()) choice.entry.key = key;
  return choice;
}

}  // namespace gantry::cli
