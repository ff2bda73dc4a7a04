// Output files that appear whole or not at all.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>

#include "host/support/error.h"

namespace gantry {

/// Writes a file beside its final name and renames it at commit(); destroyed before that, nothing is left.
/// Devices and pipes are written to directly, and stay what they are. Errors: user errors that name the path
/// and the system's reason (disk full, no such folder, …).
class OutputFile {
 public:
  /// `mode`: permission bits of the file.
  explicit OutputFile(std::filesystem::path path, int mode = 0644) : path_(std::move(path)), mode_(mode) {
    std::error_code code;
    const std::filesystem::file_status status = std::filesystem::status(path_, code);
    const bool special = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
                         !std::filesystem::is_directory(status);
    if (!special) temporary_ = path_.string() + ".partial." + std::to_string(::getpid());
    file_ = std::fopen(special ? path_.c_str() : temporary_.c_str(), "wb");
    if (file_ == nullptr) fail("cannot be created");
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() { discard(); }

  void write(const void* bytes, size_t size) {
    if (size != 0 && std::fwrite(bytes, 1, size, file_) != size) fail("cannot be written");
  }
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Gives the file its name, `durable` after waiting until it is on the disk: what can be made again need
  /// not be, where readers notice if a power failure has cut it.
  void commit(bool durable = true) {
    if (std::fflush(file_) != 0) fail("cannot be written");
    if (durable && !temporary_.empty() && ::fsync(::fileno(file_)) != 0) fail("cannot be written");
    std::FILE* file = file_;
    file_ = nullptr;
    if (std::fclose(file) != 0) fail("cannot be written");
    if (temporary_.empty()) return;
    std::error_code code;
    std::filesystem::permissions(temporary_, static_cast<std::filesystem::perms>(mode_), code);
    std::filesystem::rename(temporary_, path_, code);
    if (code) {
      errno = code.value();
      fail("cannot be created");
    }
    temporary_.clear();
  }

  /// The open temporary's descriptor, for writers that need one.
  int descriptor() const { return ::fileno(file_); }

 private:
  [[noreturn]] void fail(const char* what) {
    const int error = errno;
    discard();
    const std::filesystem::path folder = path_.parent_path();
    std::error_code code;
    if (error == ENOENT && !folder.empty() && !std::filesystem::exists(folder, code)) {
      user_error("{}: {}: there is no folder '{}'; make it (mkdir -p), or give another path", path_.string(),
                 what, folder.string());
    }
    user_error("{}: {}: {}{}", path_.string(), what, std::strerror(error), advice_on(error));
  }
  static const char* advice_on(int error) {
    switch (error) {
      case ENOSPC:
      case EDQUOT:
        return "; make room, or give a path on another disk";
      case EACCES:
      case EROFS:
        return "; give a path in a folder that you may write to";
      default:
        return "; give another path";
    }
  }
  void discard() {
    if (file_ != nullptr) std::fclose(file_);
    file_ = nullptr;
    if (!temporary_.empty()) std::remove(temporary_.c_str());
    temporary_.clear();
  }

  std::filesystem::path path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
  int mode_;
};

/// Writes `text` as a whole file.
inline void write_file(const std::filesystem::path& path, std::string_view text, int mode = 0644) {
  OutputFile file(path, mode);
  file.write(text);
  file.commit();
}

}  // namespace gantry
