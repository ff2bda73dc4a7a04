/// Which files of the cache have been seen to have the digest that they are named by.
#ifndef GANTRY_RPC_SERVER_VERIFIED_SEGMENTS_H
#define GANTRY_RPC_SERVER_VERIFIED_SEGMENTS_H

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "rpc/protocol/message.h"

namespace gantry::rpc {

/// Hashing every segment in every session would cost seconds; so a server remembers, for as long as it runs,
/// which it has hashed. Why that can be trusted:
/// - A record is of an inode in one state: device, number, size, times of modification and of change. The
///   system sets the latter whenever the file is written, renamed or given other rights, and no call sets it
///   back. So a file that is not as it was hashed has no record, and is hashed again.
/// - Records lie in memory of the server's processes, which executors are not given: no module can add one.
/// - After a power cut or a restart there are none.
/// What it does not see: a write within the tick of the clock (at most 10 ms) in which the file was
/// published, and on tmpfs one through a mapping that was made while it was uploaded. What keeps modules from
/// either is that an executor has no way to the cache's files but to read them.
///
/// Shared by processes that are forked after it was made; a full table forgets.
class VerifiedSegments {
 public:
  /// Throws Error(kBoard) if the system refuses the memory.
  VerifiedSegments();
  ~VerifiedSegments();
  VerifiedSegments(const VerifiedSegments&) = delete;
  VerifiedSegments& operator=(const VerifiedSegments&) = delete;

  bool contains(const DigestBytes& digest, const struct stat& state) const;
  /// The file had the digest in this state.
  void add(const DigestBytes& digest, const struct stat& state);
  /// For a session, before it starts an executor.
  void keep_from_children() const;

 private:
  static constexpr std::size_t kRecords = std::size_t{1} << 15;
  static constexpr std::size_t kPlaces = 8;  // where a record may stand
  /// A hash of digest and state. Half of one and half of another, as two processes may write them at once,
  /// is the hash of nothing: no lock is needed, which a killed process would leave.
  using Mark = std::array<std::uint64_t, 4>;
  struct Record {
    std::array<std::atomic<std::uint64_t>, 4> words;
  };
  static Mark mark_of(const DigestBytes& digest, const struct stat& state);
  Record* places_of(const Mark& mark) const { return records_ + mark[0] % (kRecords / kPlaces) * kPlaces; }
  Record* records_;
};

}  // namespace gantry::rpc
#endif
