/// A session's dealings with the cache.
#ifndef GANTRY_RPC_SERVER_SESSION_SEGMENTS_H
#define GANTRY_RPC_SERVER_SESSION_SEGMENTS_H

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "rpc/protocol/channel.h"
#include "rpc/server/attachments.h"
#include "rpc/server/cache.h"
#include "rpc/server/held_segments.h"
#include "rpc/server/log.h"
#include "rpc/server/options.h"

namespace gantry::rpc {

/// Answers for segments, receives them, and keeps those that the client counts on from being evicted. A
/// segment that turns out to be damaged is a warning in the log. One thread.
class SessionSegments {
 public:
  /// A segment of more bytes is not hashed for a query, whose client waits for half a minute, however slow
  /// the board's disk and processor are.
  static constexpr std::uint64_t kQueryBytes = std::uint64_t{128} << 20;

  /// No cache in the options: modules are sent whole. `log` must outlive the object.
  SessionSegments(const ServeOptions& options, VerifiedSegments* verified, Log& log);

  /// How much of each segment is here. What is whole is as it was compiled, or else attach() finds that out.
  wire::SegmentStatesT states_of(const wire::QuerySegmentsT& query);
  /// An upload's data; throws as SegmentCache::Upload does. One that stands still shall soon be resumed by
  /// another session: it has less patience than the channel usually has.
  asio::awaitable<void> receive(FrameChannel& channel, std::uint32_t id, const wire::UploadSegmentT& upload,
                                const std::function<void()>& on_progress);
  /// Opens the segments that the module needs. Throws Error(kRetry) unless each is on the board as it was
  /// compiled.
  void attach(const wire::LoadModuleT& load, Attachments& attachments);
  /// Takes note of what an answered request loaded or unloaded.
  void note(const wire::RequestT& request, const wire::ResponseT& response);
  /// The executor has ended.
  void forget_loaded();

 private:
  /// Throws Error(kRequest) if there is none.
  SegmentCache& cache();
  void report_damage();

  std::chrono::milliseconds stall_timeout_;
  Log& log_;
  std::optional<SegmentCache> cache_;
  std::optional<HeldSegments> held_;
};

}  // namespace gantry::rpc
#endif
