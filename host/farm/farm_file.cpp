#include "host/farm/farm_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sstream>
#include <vector>

#include "host/support/error.h"
#include "host/support/folder_lock.h"
#include "host/support/output_file.h"
#include "host/support/suggest.h"
#include "host/support/words.h"

namespace gantry::farm {
namespace {

constexpr char kFile[] = "farm.toml";
/// What is shared by those who may lease, whatever their umask.
constexpr mode_t kOfTheGroup = 0660;

std::string field(const toml::table& board, std::string_view key, const std::string& where) {
  const toml::node* node = board.get(key);
  if (node == nullptr) return "";
  if (!node->is_string()) user_error("{}:{}: '{}' must be a string", where, node->source().begin.line, key);
  return node->as_string()->get();
}

/// Lets those who may lease do so much, whatever the umask of who registers. Only an owner can: where another
/// has made it, that is the other's to do.
void allow(const std::filesystem::path& path, std::filesystem::perms what) {
  std::error_code ignored;
  std::filesystem::permissions(path, what, std::filesystem::perm_options::add, ignored);
}

}  // namespace

std::filesystem::path farm_folder() {
  const char* given = std::getenv("GANTRY_FARM");
  return given != nullptr && *given != '\0' ? given : "/etc/gantry/farm";
}

FarmFile FarmFile::read(const std::filesystem::path& folder) {
  FarmFile farm;
  farm.path_ = folder / kFile;
  std::error_code error;
  if (!std::filesystem::exists(farm.path_, error)) return farm;
  const std::string where = farm.path_.string();
  toml::table table;
  try {
    table = toml::parse_file(where);
  } catch (const toml::parse_error& problem) {
    user_error("{}:{}: {}", where, problem.source().begin.line, problem.description());
  }
  for (const auto& [name, node] : table) {
    const toml::table* entry = node.as_table();
    if (entry == nullptr) user_error("{}:{}: expected [NAME] of a board", where, node.source().begin.line);
    farm.add(std::string(name.str()), {field(*entry, "type", where), field(*entry, "address", where),
                                       field(*entry, "keys", where), field(*entry, "drained", where)});
  }
  return farm;
}

void FarmFile::update(const std::filesystem::path& place, const std::function<void(FarmFile&)>& change) {
  using std::filesystem::perms;
  std::error_code error;
  const std::filesystem::path folder = place.has_filename() ? place : place.parent_path();
  // What it lies in, /etc/gantry, is not the group's: all may pass it, as where gantry-device's package makes
  // it.
  const std::filesystem::path above = folder.parent_path();
  if (!above.empty() && std::filesystem::create_directories(above, error))
    allow(above, perms::group_exec | perms::others_exec);
  const bool is_new = !error && std::filesystem::create_directory(folder, error);
  if (!error) std::filesystem::create_directory(folder / "locks", error);
  if (error)
    user_error("{}: {}; is this a gateway, and are you to change its farm?", folder.string(),
               error.message());
  if (is_new) allow(folder, perms::group_read | perms::group_exec);
  allow(folder / "locks", perms::group_all);
  const FolderLock lock(folder);
  FarmFile farm = read(folder);
  change(farm);
  toml::table table;
  for (const auto& [name, board] : farm.boards_) {
    toml::table entry{{"type", board.type}, {"address", board.address}, {"keys", board.keys.string()}};
    if (!board.drained.empty()) entry.insert("drained", board.drained);
    table.insert(name, std::move(entry));
  }
  std::ostringstream text;
  text << table << '\n';
  write_file(farm.path_, text.str());
  allow(farm.path_, perms::group_read);
}

void FarmFile::add(const std::string& name, FarmBoard board) {
  for (const std::string& word : {name, board.type})
    if (!is_board_word(word) || word.starts_with('.'))
      user_error("'{}' is no name of a board or its type: letters, digits, '.', '-' and '_', at most 64",
                 word);
  for (const auto& [other, known] : boards_)
    if (other != name && known.keys == board.keys)
      user_error(
          "boards {} and {} have one key folder, {}: each needs its own, as a lease's key opens one board",
          other, name, board.keys.string());
  FarmBoard& entry = boards_[name];
  if (board.drained.empty()) board.drained = std::move(entry.drained);
  entry = std::move(board);
}

FarmBoard& FarmFile::find(const std::string& name) {
  const auto board = boards_.find(name);
  if (board != boards_.end()) return board->second;
  std::vector<std::string> names;
  for (const auto& [known, entry] : boards_) names.push_back(known);
  user_error("{}: there is no board '{}'{}", path_.string(), name, did_you_mean(name, names));
}

std::optional<BoardLock> BoardLock::try_take(const std::filesystem::path& folder, const std::string& board) {
  const int file =
      ::open((folder / "locks" / board).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOfTheGroup);
  if (file < 0) board_error("{}: {}", (folder / "locks" / board).string(), std::strerror(errno));
  (void)::fchmod(file, kOfTheGroup);  // others than its owner may not, and need not
  int result = 0;
  while ((result = ::flock(file, LOCK_EX | LOCK_NB)) != 0 && errno == EINTR) {
  }
  if (result != 0) {
    ::close(file);
    return std::nullopt;
  }
  return BoardLock(file);
}

BoardLock::~BoardLock() {
  if (file_ >= 0) ::close(file_);
}

void add_to_log(const std::filesystem::path& folder, const std::string& text) {
  using namespace std::chrono;
  const auto now = system_clock::now();
  const std::time_t seconds = system_clock::to_time_t(now);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char time[32];
  std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &parts);
  const auto ms = duration_cast<milliseconds>(now.time_since_epoch()).count() % 1000;
  const std::string line = fmt::format("{}.{:03}Z {}\n", time, ms, text);
  const int file =
      ::open((folder / "log").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOfTheGroup);
  if (file < 0) return;
  (void)::fchmod(file, kOfTheGroup);
  if (::write(file, line.data(), line.size()) < 0) errno = 0;
  ::close(file);
}

}  // namespace gantry::farm
