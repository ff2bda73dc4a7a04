// For files that several programs read, change and replace.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace gantry {

/// Held while this lives: the lock of a folder, which stays while files in it are replaced. Waits for whoever
/// holds it. A folder that cannot be opened or whose file system knows no locks is written to without.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : folder_(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (folder_ >= 0 && ::flock(folder_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (folder_ >= 0) ::close(folder_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_;
};

}  // namespace gantry
