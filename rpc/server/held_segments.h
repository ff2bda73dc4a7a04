/// The segments that a session keeps from being evicted.
#ifndef GANTRY_RPC_SERVER_HELD_SEGMENTS_H
#define GANTRY_RPC_SERVER_HELD_SEGMENTS_H

#include <list>
#include <map>
#include <vector>

#include "rpc/server/cache.h"

namespace gantry::rpc {

/// What a client is told to be on the board stays there until the LoadModule that names it, and as long as
/// that module is loaded. Of segments that wait for a LoadModule, the oldest are let go where there are more
/// than kMaxSegments of them, or where they fill more than half the cache, those of the newest query and of
/// uploads since excepted.
class HeldSegments {
 public:
  /// The cache must outlive the object.
  explicit HeldSegments(SegmentCache& cache) : cache_(cache) {}
  ~HeldSegments();
  HeldSegments(const HeldSegments&) = delete;
  HeldSegments& operator=(const HeldSegments&) = delete;

  /// A query begins: what older ones asked about may be let go.
  void begin_query() { ++query_; }
  /// The segment is (about to be) on the board and waits for a LoadModule.
  void expect(const DigestBytes& digest, std::uint64_t size);
  /// It is not there after all.
  void give_up(const DigestBytes& digest);
  /// Takes note of what an answered request loaded or unloaded.
  void note(const wire::RequestT& request, const wire::ResponseT& response);
  /// Everything that was loaded is gone.
  void forget_loaded();
  std::size_t size() const { return entries_.size(); }

 private:
  using Order = std::list<DigestBytes>;
  struct Entry {
    std::uint64_t size = 0;
    std::uint64_t query = 0;
    std::size_t modules = 0;  ///< loaded ones that use it
    bool waits = false;
    Order::iterator place;  ///< in the order of those that wait
  };
  using Entries = std::map<DigestBytes, Entry>;
  Entries::iterator hold(const DigestBytes& digest, std::uint64_t size);
  void stop_waiting(Entries::iterator entry);
  void let_go_if_unused(Entries::iterator entry);
  void unload(const std::vector<DigestBytes>& digests);

  SegmentCache& cache_;
  Entries entries_;
  Order waiting_;  // oldest first
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t query_ = 0;
  std::map<std::uint32_t, std::vector<DigestBytes>> modules_;  // by handle
};

}  // namespace gantry::rpc
#endif
