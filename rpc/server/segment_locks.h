/// Which segments of a cache are in use, between all processes that use it.
#ifndef GANTRY_RPC_SERVER_SEGMENT_LOCKS_H
#define GANTRY_RPC_SERVER_SEGMENT_LOCKS_H

#include "rpc/protocol/message.h"
#include "rpc/server/unique_fd.h"

namespace gantry::rpc {

/// Locks on bytes of the file DIR/lock: one byte for each segment, wherever its digest says, and one for the
/// room in the cache. They need two descriptors, however many segments are held, and end with the process.
/// Where the file system knows no such locks, nothing is locked: segments may be evicted before their use.
class SegmentLocks {
 public:
  /// Throws Error(kRequest) if the file cannot be made.
  explicit SegmentLocks(int directory);

  /// Keeps every process from evicting the segment.
  void hold(const DigestBytes& digest) const;
  void release(const DigestBytes& digest) const;

  /// Until its end no other process holds, evicts or makes room for anything that this one asks for.
  class Exclusive {
   public:
    Exclusive(int file, std::int64_t byte, bool wait);
    ~Exclusive();
    Exclusive(const Exclusive&) = delete;
    Exclusive& operator=(const Exclusive&) = delete;
    explicit operator bool() const { return locked_; }

   private:
    int file_;
    std::int64_t byte_;
    bool locked_;
  };
  /// The segment, if nobody (this process included) holds it.
  Exclusive try_alone(const DigestBytes& digest) const;
  /// The right to count what is in the cache, to change its files' names, and to announce more.
  Exclusive room() const;

 private:
  UniqueFd held_;
  UniqueFd other_;  // another opening of the file: locks of one are no obstacle to itself
};

}  // namespace gantry::rpc
#endif
