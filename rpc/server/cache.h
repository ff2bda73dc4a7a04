/// Segments that clients have sent, by the SHA-256 of their bytes, on the board's disk.
#ifndef GANTRY_RPC_SERVER_CACHE_H
#define GANTRY_RPC_SERVER_CACHE_H

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "rpc/protocol/message.h"
#include "rpc/server/piece_writer.h"
#include "rpc/server/unique_fd.h"

struct evp_md_ctx_st;

namespace gantry::rpc {

/// Layout: DIR/segments/<hex digest> is complete and verified, DIR/partial/<hex digest> is on its way. A file
/// that is held open here carries a shared flock(), which keeps every process of the server from evicting it.
/// Several processes may use one directory at once; an object belongs to one of them.
class SegmentCache {
 public:
  /// Makes the directory (mode 0700). Throws Error(kRequest) if it cannot be used.
  SegmentCache(std::filesystem::path directory, std::uint64_t capacity_bytes);

  /// A complete segment, open for reading and safe from eviction while open; no value if it is not held.
  UniqueFd open(const DigestBytes& digest, std::uint64_t size) const;
  /// Bytes of an interrupted upload that need not be sent again.
  std::uint64_t partial_bytes(const DigestBytes& digest, std::uint64_t size) const;

  /// One segment on its way in. If it is destroyed before finish(), what arrived stays for a resumption.
  class Upload {
   public:
    Upload(SegmentCache& cache, const DigestBytes& digest, std::uint64_t size, std::uint64_t offset);
    ~Upload();
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;
    /// Where the next `size` bytes go.
    std::span<std::byte> next(std::size_t size) { return writer_->next(size); }
    /// Stores what was put where next() said. Throws Error(kBoard) if the disk is full, maybe only for a
    /// later piece, and from finish() at the latest.
    void put();
    /// Verifies the digest and publishes the file. Throws Error(kRequest) if the bytes are not the announced
    /// ones.
    UniqueFd finish();

   private:
    void hash_existing(std::uint64_t bytes);
    [[noreturn]] void give_up(int error);
    SegmentCache& cache_;
    DigestBytes digest_;
    std::uint64_t size_;
    std::string name_;  ///< in the directory of partial ones
    UniqueFd file_;
    evp_md_ctx_st* hash_ = nullptr;
    std::unique_ptr<PieceWriter> writer_;
    bool shared_ = false;  ///< another session uploads the same segment: this one has a name of its own
  };

  /// Deletes least recently used segments until `incoming` more bytes fit. Throws Error(kBoard) if they
  /// cannot.
  void make_room(std::uint64_t incoming);
  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
  std::uint64_t capacity_;
  UniqueFd segments_;
  UniqueFd partial_;
};

/// $GANTRY_CACHE_DIR, $XDG_CACHE_HOME/gantry-device, ~/.cache/gantry-device, or a directory of the user in
/// /var/tmp.
std::filesystem::path default_cache_directory();

}  // namespace gantry::rpc
#endif
