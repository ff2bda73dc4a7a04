#include "host/support/span_recorder.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace gantry {

void SpanRecorder::add(Span span) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() == kMostSpans) {
    ++left_out_;
    return;
  }
  entries_.push_back({std::this_thread::get_id(), std::move(span)});
}

namespace {

struct ThreadSpans {
  int64_t begin_ns = 0, end_ns = 0;
  bool owner = false;
  std::vector<Span> spans;
};

void extend(ThreadSpans& thread, Span span) {
  thread.begin_ns = thread.spans.empty() ? span.begin_ns : std::min(thread.begin_ns, span.begin_ns);
  thread.end_ns = std::max(thread.end_ns, span.end_ns);
  thread.spans.push_back(std::move(span));
}

bool outer_first(const Span& a, const Span& b) {
  return std::tuple(a.begin_ns, -a.end_ns) < std::tuple(b.begin_ns, -b.end_ns);
}

}  // namespace

std::vector<std::vector<Span>> SpanRecorder::take() {
  const std::lock_guard lock(mutex_);
  std::map<std::thread::id, ThreadSpans> by_id;
  by_id[owner_].owner = true;
  for (Entry& entry : entries_) extend(by_id[entry.thread], std::move(entry.span));
  entries_.clear();
  std::vector<ThreadSpans> threads;
  for (auto& [id, thread] : by_id) threads.push_back(std::move(thread));
  std::ranges::sort(threads, [](const ThreadSpans& a, const ThreadSpans& b) {
    return std::tuple(!a.owner, a.begin_ns) < std::tuple(!b.owner, b.begin_ns);
  });
  std::vector<ThreadSpans> lanes;
  for (ThreadSpans& thread : threads) {
    // The owner's own lane is no other's.
    const auto free = std::find_if(lanes.begin() + (lanes.empty() ? 0 : 1), lanes.end(),
                                   [&](const ThreadSpans& lane) { return lane.end_ns <= thread.begin_ns; });
    ThreadSpans& lane = free == lanes.end() ? lanes.emplace_back() : *free;
    for (Span& span : thread.spans) extend(lane, std::move(span));
  }
  std::vector<std::vector<Span>> result;
  for (ThreadSpans& lane : lanes) {
    std::ranges::stable_sort(lane.spans, outer_first);
    result.push_back(std::move(lane.spans));
  }
  return result;
}

}  // namespace gantry
