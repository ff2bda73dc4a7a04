#include "rpc/server/session_segments.h"

#include <algorithm>

namespace gantry::rpc {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Of an upload, whose segment no other session can go on with meanwhile.
constexpr milliseconds kUploadStall{20'000};
/// After so long a query has nothing more hashed.
constexpr milliseconds kQueryTime{2'000};

/// Another stall timeout of a channel, for a while.
class StallTimeout {
 public:
  StallTimeout(FrameChannel& channel, milliseconds usual, milliseconds now)
      : channel_(channel), usual_(usual) {
    channel_.set_stall_timeout(now);
  }
  ~StallTimeout() { channel_.set_stall_timeout(usual_); }
  StallTimeout(const StallTimeout&) = delete;
  StallTimeout& operator=(const StallTimeout&) = delete;

 private:
  FrameChannel& channel_;
  milliseconds usual_;
};

}  // namespace

SessionSegments::SessionSegments(const ServeOptions& options, VerifiedSegments* verified, Log& log)
    : stall_timeout_(options.stall_timeout), log_(log) {
  if (options.cache.empty()) return;
  cache_.emplace(options.cache, options.cache_bytes, verified);
  held_.emplace(*cache_);
}

SegmentCache& SessionSegments::cache() {
  if (!cache_) throw Error(ErrorKind::kRequest, "this server keeps no segments: send modules whole");
  return *cache_;
}

wire::SegmentStatesT SessionSegments::states_of(const wire::QuerySegmentsT& query) {
  wire::SegmentStatesT states;
  SegmentCache& segments = cache();
  held_->begin_query();
  const auto start = Clock::now();
  for (const auto& segment : query.segments) {
    const DigestBytes digest = to_array(*segment->digest);
    held_->expect(digest, segment->size);  // before it is looked for: not evicted in between
    // Large ones, and what is left after a while, are verified when they are loaded, which may take longer
    // than a query.
    const bool patient = segment->size <= kQueryBytes && Clock::now() - start < kQueryTime;
    if (patient ? segments.open(digest, segment->size) : segments.find(digest, segment->size)) {
      states.held.push_back(segment->size);
      continue;
    }
    held_->give_up(digest);
    std::uint64_t partial = segments.partial_bytes(digest, segment->size);
    // An upload that has all its bytes but was not finished still needs its last one.
    if (partial == segment->size && partial > 0) --partial;
    states.held.push_back(partial);
  }
  report_damage();
  return states;
}

void SessionSegments::report_damage() {
  if (!cache_) return;
  for (const std::string& damage : cache_->take_damage()) log_.warning(damage);
}

void SessionSegments::attach(const wire::LoadModuleT& load, Attachments& attachments) {
  try {
    attach_segments(load, cache(), attachments);
  } catch (const Error&) {
    report_damage();
    throw;
  }
}

asio::awaitable<void> SessionSegments::receive(FrameChannel& channel, std::uint32_t id,
                                               const wire::UploadSegmentT& upload,
                                               const std::function<void()>& on_progress) {
  const DigestBytes digest = to_array(*upload.digest);
  SegmentCache::Upload target(cache(), digest, upload.size, upload.offset);
  // One that stands still shall soon be resumed by another session.
  const StallTimeout soon(channel, stall_timeout_, std::min(stall_timeout_, kUploadStall));
  co_await channel.read_data(
      id, upload.size - upload.offset,
      [&](std::size_t length) {
        const auto piece = target.next(length);
        return asio::buffer(piece.data(), piece.size());
      },
      [&](asio::const_buffer) {
        target.put();
        on_progress();
      });
  held_->expect(digest, upload.size);
  try {
    target.finish();
  } catch (...) {
    held_->give_up(digest);
    throw;
  }
}

void SessionSegments::note(const wire::RequestT& request, const wire::ResponseT& response) {
  if (held_) held_->note(request, response);
}

void SessionSegments::forget_loaded() {
  if (held_) held_->forget_loaded();
}

}  // namespace gantry::rpc
