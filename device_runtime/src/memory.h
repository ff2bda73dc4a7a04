// Memory that the runtime owns: mapped files and large aligned buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "device_runtime/src/status.h"

namespace gantry::runtime {

/// Read-only bytes with their owner; copies share it.
struct SharedBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  bool is_mapped = false;  ///< from a file: pages that this process lets go come back with what is in it
};

/// Maps a whole file read-only. The file must not shrink while it is mapped. Errors: IO_ERROR with the path.
Result<SharedBytes> map_file(const std::string& path);
/// As map_file; `fd` stays the caller's and may be closed afterwards. `name` is for messages.
Result<SharedBytes> map_fd(int fd, const std::string& name);

/// Zeroed memory at a multiple of 64, straight from the kernel when large. Movable.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept { swap(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    AlignedBuffer taken(static_cast<AlignedBuffer&&>(other));
    swap(taken);
    return *this;
  }
  ~AlignedBuffer();

  /// Provides at least `bytes`; keeps what it has where that is enough, and else loses the contents.
  /// `what` names the buffer in the message of an OUT_OF_MEMORY error.
  Status reserve(uint64_t bytes, const char* what);
  /// Gives whole pages behind the first `bytes` back to the system; those bytes stay where and what they are.
  void shrink(uint64_t bytes);
  std::byte* data() const { return data_; }
  uint64_t capacity() const { return capacity_; }

 private:
  void swap(AlignedBuffer& other) {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
  }
  std::byte* data_ = nullptr;
  uint64_t capacity_ = 0;
};

/// Large buffers get huge pages when they ask for them.
bool has_huge_pages();
/// Memory that this process may hope for: the machine's, or less under the limit of its control group or
/// of one around it. `root` is where /sys and /proc are: "" on a real machine.
uint64_t usable_memory_bytes(const std::string& root = "");
/// The most that has been resident of this process since it began with its program, 0 if unknown.
uint64_t peak_resident_memory_bytes();
/// Memory that this process could take now without pushing others out, by the machine and the limits of its
/// control group and of those around it; absent where Linux does not say. `root` as above.
std::optional<uint64_t> available_memory_bytes(const std::string& root = "");

}  // namespace gantry::runtime
