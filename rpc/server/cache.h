/// Segments that clients have sent, by the SHA-256 of their bytes, on the board's disk.
#ifndef GANTRY_RPC_SERVER_CACHE_H
#define GANTRY_RPC_SERVER_CACHE_H

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rpc/protocol/message.h"
#include "rpc/server/background_sync.h"
#include "rpc/server/cache_directory.h"
#include "rpc/server/piece_writer.h"
#include "rpc/server/segment_locks.h"
#include "rpc/server/unique_fd.h"
#include "rpc/server/verified_segments.h"

struct evp_md_ctx_st;

namespace gantry::rpc {

/// Layout: DIR/segments/<hex digest> is complete, DIR/partial/<hex digest>.<size> is on its way,
/// DIR/used/<hex digest> bears the time of the last use (not the segment itself, whose own times tell whether
/// it is as it was when it was hashed), DIR/lock carries the locks by which sessions keep segments from being
/// evicted. Several processes may use one directory at once; an object belongs to one of them.
class SegmentCache {
 public:
  /// Makes the directory (mode 0700). `verified`: what the server's processes know together; none: this
  /// object knows for itself. Both must outlive it. Throws Error(kRequest) if the directory cannot be used.
  SegmentCache(std::filesystem::path directory, std::uint64_t capacity_bytes,
               VerifiedSegments* verified = nullptr, Disk* disk = nullptr);

  /// A complete segment, open for reading, that has the digest: hashed now, or earlier and not changed since.
  /// No value if there is none; one that is damaged is deleted. It may be evicted then, but what is open or
  /// mapped stays.
  UniqueFd open(const DigestBytes& digest, std::uint64_t size) const;
  /// As it lies there, not verified.
  UniqueFd find(const DigestBytes& digest, std::uint64_t size) const;
  /// The segments that open() has found damaged since it was asked last, in words.
  std::vector<std::string> take_damage() { return std::exchange(damage_, {}); }
  /// Bytes of an interrupted upload that need not be sent again.
  std::uint64_t partial_bytes(const DigestBytes& digest, std::uint64_t size) const;
  /// Keeps a segment, that is here or to come, from being evicted until release() or the end of the process.
  void hold(const DigestBytes& digest) const { locks_.hold(digest); }
  void release(const DigestBytes& digest) const { locks_.release(digest); }
  std::uint64_t capacity() const { return capacity_; }
  const std::filesystem::path& directory() const { return directory_; }

  /// One segment on its way in, for which there is room from the start: segments and all that is announced
  /// together never exceed the capacity. If it is destroyed before finish(), what arrived stays for a
  /// resumption, and no room is kept for the rest.
  class Upload {
   public:
    /// Evicts least recently used segments where the cache's bound or the disk asks for it. Throws
    /// Error(kBoard) if the segment is larger than the cache or cannot be stored, Error(kRetry) if what is in
    /// use leaves no room, the disk is full, or the first `offset` bytes are not here (any more); then
    /// nothing is left that was not there before.
    Upload(SegmentCache& cache, const DigestBytes& digest, std::uint64_t size, std::uint64_t offset);
    ~Upload();
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;
    /// Where the next `size` bytes go.
    std::span<std::byte> next(std::size_t size) { return writer_->next(size); }
    /// Stores what was put where next() said. Throws Error(kRetry) if the disk is full, Error(kBoard) if it
    /// fails otherwise, maybe only for a later piece, and from finish() at the latest.
    void put();
    /// Verifies the digest and publishes the file, which is brought to the disk from then on, at the latest
    /// before the cache's object is gone. Throws Error(kRequest) if the bytes are not the announced ones,
    /// Error(kRetry) if the first of them were here already, which may be to blame, and as put(); they are
    /// deleted.
    UniqueFd finish();

   private:
    void reserve(std::uint64_t offset);
    void open_file(std::uint64_t offset);
    void publish();
    void remove();
    void hash_existing(std::uint64_t bytes);
    [[noreturn]] void give_up(int error);
    SegmentCache& cache_;
    DigestBytes digest_;
    std::uint64_t size_;
    bool resumed_;      ///< the first bytes are an earlier upload's
    std::string name_;  ///< in the directory of partial ones
    UniqueFd file_;
    std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> hash_;
    std::unique_ptr<PieceWriter> writer_;
    bool shared_ = false;  ///< another session uploads the same segment: this one has a name of its own
  };

 private:
  static std::string partial_name(const DigestBytes& digest, std::uint64_t size);
  UniqueFd open_file(const DigestBytes& digest, struct stat& status) const;
  bool verify(int file, const DigestBytes& digest, const struct stat& status) const;
  void discard(const DigestBytes& digest, const struct stat& status) const;
  void touch(const DigestBytes& digest) const;
  void make_room(std::uint64_t incoming, const std::string& own_name) const;
  bool evict(const DirectoryEntry& entry) const;
  std::filesystem::path directory_;
  std::uint64_t capacity_;
  UniqueFd top_;
  UniqueFd segments_;
  UniqueFd partial_;
  UniqueFd used_;
  SegmentLocks locks_;
  std::unique_ptr<VerifiedSegments> own_verified_;
  VerifiedSegments* verified_;
  mutable std::vector<std::string> damage_;
  Disk own_disk_;
  BackgroundSync sync_;
};

/// $GANTRY_CACHE_DIR, $XDG_CACHE_HOME/gantry-device, ~/.cache/gantry-device, or a directory of the user in
/// /var/tmp.
std::filesystem::path default_cache_directory();

}  // namespace gantry::rpc
#endif
