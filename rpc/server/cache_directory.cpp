#include "rpc/server/cache_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "rpc/error.h"

namespace gantry::rpc {
namespace fs = std::filesystem;
namespace {

Error refused(const fs::path& path, const std::string& why) {
  return Error(ErrorKind::kRequest,
               "the cache " + path.string() + " " + why + "; give another one with --cache");
}

UniqueFd checked(UniqueFd directory, const fs::path& path) {
  struct stat status {};
  if (!directory || ::fstat(directory.get(), &status) != 0 ||
      ::faccessat(directory.get(), ".", W_OK | X_OK, 0) != 0)
    throw refused(path, "is not a directory that can be written");
  if (status.st_uid != ::geteuid()) throw refused(path, "belongs to another user");
  if ((status.st_mode & 077) != 0) (void)::fchmod(directory.get(), 0700);
  return directory;
}

[[noreturn]] void fail_to_make(const fs::path& path) {
  throw Error(ErrorKind::kRequest, "cannot make the cache directory " + path.string() + ": " +
                                       std::strerror(errno) + "; give another one with --cache");
}

}  // namespace

UniqueFd open_cache_directory(const fs::path& path) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) fail_to_make(path);
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode) && status.st_uid != ::geteuid() &&
      status.st_uid != 0)
    throw refused(path, "is a link that another user made");
  return checked(UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), path);
}

UniqueFd open_cache_subdirectory(int directory, const std::string& name, const fs::path& parent) {
  const fs::path path = parent / name;
  if (::mkdirat(directory, name.c_str(), 0700) != 0 && errno != EEXIST) fail_to_make(path);
  UniqueFd opened(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return checked(std::move(opened), path);
}

std::vector<DirectoryEntry> list_files(int directory) {
  std::vector<DirectoryEntry> entries;
  // Not a duplicate, which would share its position with every other reader.
  const int own = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(own >= 0 ? ::fdopendir(own) : nullptr, ::closedir);
  while (const dirent* item = listing ? ::readdir(listing.get()) : nullptr) {
    struct stat status {};
    if (::fstatat(directory, item->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
      entries.push_back({directory, item->d_name, status});
  }
  return entries;
}

}  // namespace gantry::rpc
