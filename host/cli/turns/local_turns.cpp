#include "host/cli/turns/local_turns.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

#include "host/support/error.h"
#include "host/support/temporary.h"

namespace gantry::cli {
namespace {

constexpr char kTicketEnd[] = ".waits";
/// A place in the queue that has no name there yet.
constexpr char kTicketStart[] = "new-";

/// The same for all programs of this machine.
int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
double now_s() {
  return static_cast<double>(now_ns()) * 1e-9;
}

bool try_lock(int file, int how) {
  while (::flock(file, how | LOCK_NB) != 0)
    if (errno != EINTR) return false;
  return true;
}

/// Others of this user may read it; nobody else can even look into the folder.
int open_file(const std::filesystem::path& path, int flags) {
  return ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  board_error("cannot take turns with other measurements on this machine: {}: {}; it measures beside them",
              path.string(), std::strerror(error));
}

/// '0' for the highest, so that names sort as turns are taken.
char rank_of(rpc::LeasePriority priority) {
  return static_cast<char>('2' - static_cast<int>(priority));
}

}  // namespace

std::filesystem::path turns_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return std::filesystem::path(runtime) / "gantry-turns";
  return fmt::format("/tmp/gantry-turns-{}", ::geteuid());
}

LocalTurns::LocalTurns(std::filesystem::path folder, std::string purpose, rpc::LeasePriority priority,
                       double turn_s)
    : folder_(std::move(folder)), purpose_(std::move(purpose)), priority_(priority), turn_s_(turn_s) {
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) fail(folder_, errno);
  struct stat status {};
  if (::lstat(folder_.c_str(), &status) != 0) fail(folder_, errno);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid()) fail(folder_, EPERM);
  remove_stale(folder_, kTicketStart);
  lock_ = open_file(folder_ / "lock", O_RDWR | O_CREAT);
  if (lock_ < 0) fail(folder_ / "lock", errno);
}

LocalTurns::~LocalTurns() {
  release();
  if (lock_ >= 0) ::close(lock_);
}

void LocalTurns::queue() {
  if (!ticket_name_.empty()) return;
  // It gets the name by which others see it once it is locked: an unlocked one is a dead program's.
  const std::filesystem::path made =
      folder_ / fmt::format("{}{}-{:08x}", kTicketStart, ::getpid(), std::random_device()());
  ticket_ = open_file(made, O_RDWR | O_CREAT | O_EXCL);
  if (ticket_ < 0) fail(made, errno);
  (void)try_lock(ticket_, LOCK_EX);
  const std::string name =
      fmt::format("{}-{:020}-{}{}", rank_of(priority_), now_ns(), ::getpid(), kTicketEnd);
  if (::rename(made.c_str(), (folder_ / name).c_str()) != 0) {
    const int error = errno;
    ::unlink(made.c_str());
    ::close(ticket_);
    ticket_ = -1;
    fail(folder_ / name, error);
  }
  ticket_name_ = name;
}

void LocalTurns::leave_queue() {
  if (ticket_name_.empty()) return;
  ::unlink((folder_ / ticket_name_).c_str());
  ::close(ticket_);
  ticket_ = -1;
  ticket_name_.clear();
}

std::vector<std::string> LocalTurns::waiting() const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(kTicketEnd)) continue;
    if (name != ticket_name_) {
      const int file = open_file(entry.path(), O_RDONLY);
      if (file < 0) continue;
      const bool dead = try_lock(file, LOCK_SH);
      if (dead) ::unlink(entry.path().c_str());
      ::close(file);
      if (dead) continue;
    }
    names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

size_t LocalTurns::ahead() const {
  const std::vector<std::string> names = waiting();
  return static_cast<size_t>(std::ranges::find(names, ticket_name_) - names.begin());
}

bool LocalTurns::try_take() {
  if (holds_) return true;
  queue();
  if (ahead() > 0 || !try_lock(lock_, LOCK_EX)) return false;
  holds_ = true;
  held_since_s_ = now_s();
  const std::string text = fmt::format("{} {} {}", ::getpid(), now_ns(), purpose_);
  // Only for others to read; what it says is of no consequence.
  if (::ftruncate(lock_, 0) != 0 || ::pwrite(lock_, text.data(), text.size(), 0) < 0) errno = 0;
  leave_queue();
  return true;
}

bool LocalTurns::give_way() {
  if (!holds_) return true;
  const std::vector<std::string> names = waiting();
  if (names.empty()) return false;
  const bool over = now_s() - held_since_s_ >= turn_s_ && names.front()[0] <= rank_of(priority_);
  if (!over && names.front()[0] >= rank_of(priority_)) return false;
  release();
  queue();
  return true;
}

void LocalTurns::release() {
  leave_queue();
  if (!holds_) return;
  if (::ftruncate(lock_, 0) != 0) errno = 0;
  ::flock(lock_, LOCK_UN);
  holds_ = false;
}

std::optional<LocalTurns::Holder> LocalTurns::holder() const {
  const int file = open_file(folder_ / "lock", O_RDONLY);
  if (file < 0) return std::nullopt;
  char text[512];
  const bool held = !holds_ && !try_lock(file, LOCK_SH);
  const ssize_t size = held ? ::pread(file, text, sizeof text, 0) : 0;
  ::close(file);
  if (!held) return std::nullopt;
  Holder holder;
  const char* const end = text + std::max<ssize_t>(size, 0);
  const auto process = std::from_chars(text, end, holder.process);
  int64_t since = 0;
  if (process.ptr != end) {
    const auto time = std::from_chars(process.ptr + 1, end, since);
    if (time.ec == std::errc()) holder.since_s = std::max(0.0, now_s() - static_cast<double>(since) * 1e-9);
    if (time.ptr != end) holder.purpose.assign(time.ptr + 1, end);
  }
  return holder;
}

}  // namespace gantry::cli
