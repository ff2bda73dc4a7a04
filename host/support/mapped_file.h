// Files of the user's as bytes in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace gantry {

/// A regular file open for reading; closed with the object.
class InputFile {
 public:
  /// A user error names the path: there is none, it may not be read, or is no regular file.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  int descriptor() const { return descriptor_; }
  size_t size() const { return size_; }
  /// The first `count` bytes, or fewer where there are not so many; the position stays.
  std::string begin(size_t count) const;
  /// Fills `bytes` with what the file has from `offset` on; how many those are: fewer at its end, which may
  /// be another than when it was opened, or where it cannot be read. The position stays.
  size_t read(std::span<char> bytes, uint64_t offset) const;

 private:
  int descriptor_ = -1;
  size_t size_ = 0;
};

/// A file mapped into memory, read-only; unmapped with the object. Others should not make it shorter
/// meanwhile: see host/support/shortened_file.h.
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

/// Where the data of a file lie.
struct DataFolder {
  DataFolder(std::filesystem::path folder) : path(std::move(folder)) {}  // NOLINT: any folder is one
  std::filesystem::path path;
  std::filesystem::path links;  ///< where symbolic links in it may lead besides; empty: nowhere
};
/// The folder of a file. Where that is a symbolic link, links beside it may lead to what is beside the file
/// itself: caches of downloads keep files apart from their names.
DataFolder folder_of(const std::filesystem::path& file);

/// The path of a file that another one names for its data; nothing where it lies outside that one's folder:
/// absolute, by "..", or through a symbolic link.
std::optional<std::filesystem::path> path_inside(const DataFolder& folder, const std::string& location);

}  // namespace gantry
