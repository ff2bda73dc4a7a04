// Input files, and what is said of those that cannot be opened.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry {

/// "; did you mean 'x.onnx'?" where the path's folder has a file of such a name; else "; check the path",
/// with the folder that a relative one starts from.
inline std::string advice_on_missing(const std::filesystem::path& path) {
  std::error_code code;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, code)) {
    return fmt::format(", nor a folder '{}'; check the path", folder.string());
  }
  constexpr size_t kMost = 10000;  // of a huge folder the first will do
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, code), end;
       !code && entry != end && names.size() < kMost; entry.increment(code)) {
    names.push_back(entry->path().filename().string());
  }
  const std::string meant = did_you_mean(path.filename().string(), names);
  if (!meant.empty()) return meant;
  if (path.is_absolute()) return "; check the path";
  return "; check the path, which starts in " + std::filesystem::current_path(code).string();
}

/// Throws the user error that `path` cannot be read, for the reason that `error`, an errno, gives.
[[noreturn]] inline void cannot_read(const std::filesystem::path& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    user_error("{}: there is no such file{}", path.string(), advice_on_missing(path));
  }
  const char* advice = error == EACCES ? "; give yourself the permission, or copy it" : "";
  user_error("{}: cannot be read: {}{}", path.string(), std::strerror(error), advice);
}

/// A file to be read once, from its beginning: also a pipe. User error where it cannot be, or is a folder,
/// which streams open and fail to read.
inline std::ifstream open_document(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) user_error("{}: is a folder, not a file", path.string());
  std::ifstream stream(path, std::ios::binary);
  if (!stream) cannot_read(path, errno);
  return stream;
}

/// All bytes of a file; none where it is not there or cannot be read.
inline std::string contents_if_readable(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  constexpr size_t kPiece = size_t{1} << 16;
  while (file) {  // read() keeps errors of the disk to the stream, whose iterators throw them
    const size_t at = bytes.size();
    bytes.resize(at + kPiece);
    file.read(bytes.data() + at, kPiece);
    bytes.resize(at + static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) bytes.clear();
  return bytes;
}

}  // namespace gantry
