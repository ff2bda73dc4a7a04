#include "host/support/output_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <system_error>

#include "host/support/error.h"

namespace gantry {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as Linux
constexpr mode_t kPermissions = 0777, kSecretPermissions = 0600;

[[noreturn]] void cannot_write(const fs::path& path, const OutputTarget& target, int error) {
  const fs::path folder = target.path.parent_path();
  std::error_code code;
  if (error == ENOENT && !folder.empty() && !fs::exists(folder, code)) {
    user_error("{}: cannot be created: there is no folder '{}'; make it (mkdir -p), or give another path",
               path.string(), folder.string());
  }
  const char* what = target.kind == OutputTarget::Kind::kNew ? "created" : "written";
  const char* advice = "; give another path";
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      advice = "; make room, or give a path on another disk";
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      advice = target.kind == OutputTarget::Kind::kFile && error == EACCES
                   ? "; allow it (chmod u+w, for the file and its folder), or give another path"
                   : "; give a path in a folder that you may write to";
      break;
    case EPIPE:
      advice = ": what was reading it is gone";
      break;
    default:
      break;
  }
  user_error("{}: cannot be {}: {}{}", path.string(), what, std::strerror(error), advice);
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

/// Links in /proc do not hold the path of what they lead to.
bool is_in_proc(const fs::path& path) {
  struct statfs status {};
  return ::statfs(folder_of(path).c_str(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

/// The descriptor that /proc/self/fd/N, by whatever name, stands for; -1 for other paths.
int own_descriptor(const fs::path& path) {
  std::error_code code;
  const fs::path folder = fs::canonical(folder_of(path), code);
  const std::string own = "/proc/" + std::to_string(::getpid()) + "/";
  if (code || folder.filename() != "fd" || !folder.string().starts_with(own)) return -1;
  const std::string name = path.filename().string();
  int number = -1;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && stop == name.data() + name.size() ? number : -1;
}

OutputTarget::Kind kind_of(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return OutputTarget::Kind::kFolder;
  return S_ISREG(status.st_mode) ? OutputTarget::Kind::kFile : OutputTarget::Kind::kDevice;
}

/// What a link of /proc leads to is written to as it is open, not replaced.
OutputTarget open_file_target(const fs::path& path) {
  OutputTarget target{OutputTarget::Kind::kDevice, path};
  if (::stat(path.c_str(), &target.status) != 0) cannot_write(path, target, errno);
  if (S_ISDIR(target.status.st_mode)) target.kind = OutputTarget::Kind::kFolder;
  target.descriptor = own_descriptor(path);
  if (target.descriptor >= 0) target.kind = OutputTarget::Kind::kDescriptor;
  return target;
}

}  // namespace

OutputTarget find_output_target(const fs::path& given) {
  OutputTarget target{OutputTarget::Kind::kNew, given};
  for (int links = 0; links <= kMostLinks; ++links) {
    if (::lstat(target.path.c_str(), &target.status) != 0) {
      if (errno != ENOENT) cannot_write(given, target, errno);
      target.status = {};
      return target;
    }
    if (!S_ISLNK(target.status.st_mode)) {
      target.kind = kind_of(target.status);
      return target;
    }
    if (is_in_proc(target.path)) return open_file_target(target.path);
    std::error_code code;
    const fs::path link = fs::read_symlink(target.path, code);
    if (code) cannot_write(given, target, code.value());
    target.path = link.is_absolute() ? link : folder_of(target.path) / link;
  }
  cannot_write(given, target, ELOOP);
}

void check_can_write(const fs::path& path) {
  if (path.empty()) user_error("the name of a file to write is empty; give one");
  const OutputTarget target = find_output_target(path);
  using Kind = OutputTarget::Kind;
  if (target.kind == Kind::kFolder || !target.path.has_filename())
    user_error("{}: is a folder; give the name of a file in it", path.string());
  if (target.kind == Kind::kDescriptor) {
    const int flags = ::fcntl(target.descriptor, F_GETFL);
    if ((flags & O_ACCMODE) == O_RDONLY) cannot_write(path, target, EBADF);
    return;
  }
  if (target.kind != Kind::kNew && ::faccessat(AT_FDCWD, target.path.c_str(), W_OK, AT_EACCESS) != 0)
    cannot_write(path, target, errno);
  if (target.kind == Kind::kDevice) return;
  const TemporaryFile probe(target.path, 0600);
  if (!probe.ok()) cannot_write(path, target, probe.error());
}

OutputFile::OutputFile(fs::path path, Privacy privacy)
    : path_(std::move(path)), target_(find_output_target(path_)) {
  using Kind = OutputTarget::Kind;
  if (target_.kind == Kind::kFolder) fail(EISDIR);
  if (target_.kind == Kind::kNew || target_.kind == Kind::kFile) {
    open_temporary(privacy);
  } else {
    open_directly();
  }
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) std::fclose(file_);
}

/// With the permissions that it will have from the first byte on.
void OutputFile::open_temporary(Privacy privacy) {
  remove_stale(folder_of(target_.path), partial_prefix(target_.path));
  const bool exists = target_.kind == OutputTarget::Kind::kFile;
  const bool is_open = privacy == Privacy::kUsual && !exists;
  temporary_.emplace(target_.path, is_open ? 0666 : 0600);
  if (!temporary_->ok()) fail(temporary_->error());
  const int file = temporary_->descriptor();
  if (exists) {
    // Only root can keep another user's name on it, and only some file systems know modes.
    if (target_.status.st_uid != ::geteuid()) (void)!::fchown(file, target_.status.st_uid, -1);
    (void)!::fchown(file, -1, target_.status.st_gid);
    const mode_t kept = target_.status.st_mode & kPermissions;
    (void)!::fchmod(file, privacy == Privacy::kSecret ? kSecretPermissions : kept);
  }
  file_ = ::fdopen(::fcntl(file, F_DUPFD_CLOEXEC, 0), "wb");
  if (file_ == nullptr) fail(errno);
}

void OutputFile::open_directly() {
  int file = -1;
  if (target_.kind == OutputTarget::Kind::kDescriptor) {
    std::fflush(stdout);  // it may be the same
    file = ::fcntl(target_.descriptor, F_DUPFD_CLOEXEC, 0);
  } else {
    file = ::open(target_.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  }
  if (file < 0) fail(errno);
  file_ = ::fdopen(file, "wb");
  if (file_ == nullptr) {
    const int error = errno;
    ::close(file);
    fail(error);
  }
}

void OutputFile::write(const void* bytes, size_t size) {
  if (size != 0 && std::fwrite(bytes, 1, size, file_) != size) fail(errno);
  written_ += size;
}

void OutputFile::flush(bool durable) {
  if (std::fflush(file_) != 0) fail(errno);
  if (durable && temporary_ && ::fsync(::fileno(file_)) != 0) fail(errno);
}

void OutputFile::commit(bool durable) {
  flush(durable);
  std::FILE* file = file_;
  file_ = nullptr;
  if (std::fclose(file) != 0) fail(errno);
  if (!temporary_) return;
  const int error = temporary_->rename_to(target_.path);
  temporary_.reset();
  if (error != 0) fail(error);
}

void OutputFile::fail(int error) {
  if (file_ != nullptr) std::fclose(file_);
  file_ = nullptr;
  temporary_.reset();
  cannot_write(path_, target_, error);
}

void write_file(const fs::path& path, std::string_view text, OutputFile::Privacy privacy) {
  OutputFile file(path, privacy);
  file.write(text);
  file.commit();
}

}  // namespace gantry
