// Large bytes that wait on the disk until they are read again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

namespace gantry {

/// A file without a name, which is gone with its last user, however the process ends. Made when first used.
/// Bytes that nobody holds any more take no room in it.
class SpillFile {
 public:
  /// In that folder, which is written to soon anyway; on a disk, or nothing is won.
  explicit SpillFile(std::filesystem::path folder) : folder_(std::move(folder)) {}
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  /// Bytes that were written to the file, mapped for reading while somebody holds them: they are in memory
  /// from when they are read to release_pages(). Null where they cannot be written (no such folder, a full
  /// disk): they stay where they are then.
  std::shared_ptr<const std::byte> keep(std::span<const std::byte> bytes);
  /// `size` bytes that do not exist together: `fill` is asked for one part after another, of at most `part`
  /// bytes, each with its offset.
  std::shared_ptr<const std::byte> keep(
      size_t size, size_t part, const std::function<void(size_t offset, std::span<std::byte> bytes)>& fill);

 private:
  struct Descriptor;

  bool open();
  bool write(std::span<const std::byte> bytes, uint64_t offset) const;
  std::shared_ptr<const std::byte> map(size_t size);

  std::filesystem::path folder_;
  std::shared_ptr<const Descriptor> descriptor_;
  bool failed_ = false;
  uint64_t end_ = 0;  ///< of what is kept; a multiple of the page size
};

/// Whether the bytes of that owner are in a spill file.
bool is_spilled(const std::shared_ptr<const void>& owner);
/// An owner of bytes of a file that is mapped for reading alone, which it keeps mapped. When nobody holds it any more,
/// they leave memory, as with release_pages(): a large file is not in memory as a whole once all of it was read.
std::shared_ptr<const void> part_of_file(std::shared_ptr<const void> file, std::span<const std::byte> bytes);
/// Whether the bytes of that owner are in a spill file or part_of_file().
bool is_on_disk(const std::shared_ptr<const void>& owner);
/// Takes bytes that are on the disk out of memory, into which reading brings them back; of others nothing happens.
void release_pages(const std::shared_ptr<const void>& owner);

}  // namespace gantry
