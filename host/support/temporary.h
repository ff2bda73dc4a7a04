// Files and folders that exist for a while: gone with the object, and when a signal ends the process.
//
// A killed process (SIGKILL) leaves them. Each is locked (flock) by the process that made it, so that another
// can tell what is left from what is in use: `remove_stale`.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace gantry {

/// A new file beside `target`, "TARGET.partial.PID-RANDOM", to be given that name when it is whole.
class TemporaryFile {
 public:
  /// `mode`: permission bits, less the umask. Never throws: see ok().
  TemporaryFile(const std::filesystem::path& target, mode_t mode);
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  /// Closes and removes it, unless it was renamed.
  ~TemporaryFile() { discard(); }

  bool ok() const { return descriptor_ >= 0; }
  /// Why it could not be made, an errno.
  int error() const { return error_; }
  /// Open for writing; closed with the object, or by rename_to.
  int descriptor() const { return descriptor_; }
  /// Writes all the bytes; 0, or an errno.
  int write(const void* bytes, size_t size);
  /// Closes it and gives it its name, replacing what was there; 0, or an errno, and then it is gone.
  int rename_to(const std::filesystem::path& target);
  void discard();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int error_ = 0;
};

/// A new folder, readable by this user alone.
class TemporaryFolder {
 public:
  /// In the system's folder for temporary files, named "gantry-PURPOSE-PID-RANDOM". A user error that names
  /// TMPDIR where none can be made.
  explicit TemporaryFolder(const std::string& purpose);
  /// Beside `target`, named as a TemporaryFile. A user error that names `target` where none can be made.
  struct Beside {
    std::filesystem::path target;
  };
  explicit TemporaryFolder(const Beside& place);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  /// 0, or an errno.
  int make(const std::filesystem::path& parent, const std::string& prefix);

  std::filesystem::path path_;
  int lock_ = -1;
};

/// Removes what killed processes of this user have left of such files and folders: those in `folder` whose
/// names begin with `prefix`, that nobody has locked, and that are a minute old.
void remove_stale(const std::filesystem::path& folder, const std::string& prefix);

/// What the names of a target's temporary files begin with.
std::string partial_prefix(const std::filesystem::path& target);

}  // namespace gantry
