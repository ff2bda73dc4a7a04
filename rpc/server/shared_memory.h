/// The data of requests and answers, in memory that a session and its executor share.
#ifndef GANTRY_RPC_SERVER_SHARED_MEMORY_H
#define GANTRY_RPC_SERVER_SHARED_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

/// Memory that two processes can share, mapped here while data passes through.
class SharedMemory {
 public:
  /// Fresh memory of `size` bytes, of which none is used before it is written. Throws Error(kBoard) if the
  /// board has none.
  explicit SharedMemory(std::uint64_t size);
  /// What an executor made, to be read. Throws Error(kBoard) if it could still shrink under us, or has fewer
  /// than `size` bytes.
  SharedMemory(UniqueFd fd, std::uint64_t size);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Maps these pages at once, for `advice` MADV_POPULATE_READ or _WRITE: one fault for each would cost as
  /// much as the copy itself. Only what has arrived or is about to: a size that a client merely announces
  /// costs no memory.
  void populate(std::uint64_t offset, std::uint64_t length, int advice) const;
  std::byte* data() const { return static_cast<std::byte*>(address_); }
  std::span<const std::byte> bytes() const { return {data(), size_}; }
  UniqueFd take() { return std::move(fd_); }

 private:
  void map(int protection);

  UniqueFd fd_;
  std::uint64_t size_ = 0;
  void* address_ = nullptr;
};

}  // namespace gantry::rpc
#endif
