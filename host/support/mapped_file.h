// Files of the user's as bytes in memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace gantry {

/// A file mapped into memory, read-only; unmapped with the object.
class MappedFile {
 public:
  /// A user error names the path.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

/// The path of a file that another one in `folder` names for its data; nothing where it lies outside that
/// folder: absolute, by "..", or through a symbolic link.
std::optional<std::filesystem::path> path_inside(const std::filesystem::path& folder,
                                                 const std::string& location);

}  // namespace gantry
