#include "host/support/temporary.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "host/support/cleanup.h"
#include "host/support/error.h"

namespace gantry {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 100;
// Names have at most 255 bytes, of which the mark, the process and the random part take up to 40.
constexpr size_t kLongestName = 200;
// A file is locked a moment after it is made.
constexpr time_t kStaleSeconds = 60;
constexpr size_t kMostEntries = 10000;  // of a huge folder the first will do

/// "PID-RANDOM": two processes never have the same one, nor do two calls.
std::string unique_suffix() {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
    random = static_cast<uint64_t>(std::clock()) * 0x9e3779b97f4a7c15u;
  return fmt::format("{}-{:08x}", ::getpid(), static_cast<uint32_t>(random));
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

std::string partial_prefix(const fs::path& target) {
  return target.filename().string().substr(0, kLongestName) + ".partial.";
}

TemporaryFile::TemporaryFile(const fs::path& target, mode_t mode) {
  const fs::path folder = folder_of(target);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    path_ = folder / (partial_prefix(target) + unique_suffix());
    cleanup::Section section;
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    error_ = errno;
    if (descriptor_ >= 0) section.add(path_);
    if (descriptor_ >= 0 || error_ != EEXIST) break;
  }
  if (descriptor_ >= 0) ::flock(descriptor_, LOCK_EX | LOCK_NB);
}

int TemporaryFile::write(const void* bytes, size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t count = ::write(descriptor_, at, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    at += count;
    size -= static_cast<size_t>(count);
  }
  return 0;
}

int TemporaryFile::rename_to(const fs::path& target) {
  int error = ::close(descriptor_) == 0 ? 0 : errno;
  descriptor_ = -1;
  cleanup::Section section;
  if (error == 0 && ::rename(path_.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(path_.c_str());
  section.remove(path_);
  path_.clear();
  return error;
}

void TemporaryFile::discard() {
  if (descriptor_ < 0) return;
  cleanup::Section section;
  ::close(descriptor_);
  descriptor_ = -1;
  ::unlink(path_.c_str());
  section.remove(path_);
}

TemporaryFolder::TemporaryFolder(const std::string& purpose) {
  std::error_code code;
  fs::path parent = fs::temp_directory_path(code);
  if (code) parent = "/tmp";
  if (const int error = make(parent, "gantry-" + purpose + "-"); error != 0) {
    user_error(
        "{}: no folder for temporary files can be made there: {}; set TMPDIR to one that can be written",
        parent.string(), std::strerror(error));
  }
}

TemporaryFolder::TemporaryFolder(const Beside& place) {
  if (const int error = make(folder_of(place.target), partial_prefix(place.target)); error != 0)
    user_error("{}: nothing can be made beside it: {}", place.target.string(), std::strerror(error));
}

int TemporaryFolder::make(const fs::path& parent, const std::string& prefix) {
  remove_stale(parent, prefix);
  int error = EEXIST;
  for (int attempt = 0; attempt < kAttempts && error == EEXIST; ++attempt) {
    path_ = fs::absolute(parent) / (prefix + unique_suffix());
    cleanup::Section section;
    error = ::mkdir(path_.c_str(), 0700) == 0 ? 0 : errno;
    if (error == 0) section.add(path_);
  }
  if (error != 0) return error;
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);
  return 0;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
  cleanup::Section().remove(path_);
}

void remove_stale(const fs::path& folder, const std::string& prefix) {
  std::error_code code;
  size_t seen = 0;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end && seen < kMostEntries;
       entry.increment(code), ++seen) {
    if (!entry->path().filename().string().starts_with(prefix)) continue;
    struct stat status {};
    if (::lstat(entry->path().c_str(), &status) != 0 || status.st_uid != ::geteuid()) continue;
    const bool is_ours = S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
    if (!is_ours || std::time(nullptr) - status.st_mtime < kStaleSeconds) continue;
    const int file = ::open(entry->path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) continue;
    std::error_code ignored;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry->path(), ignored);
    ::close(file);
  }
}

}  // namespace gantry
