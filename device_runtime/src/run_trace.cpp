#include "device_runtime/src/run_trace.h"

#include <sched.h>
#include <time.h>

#include <algorithm>

#include "device_runtime/src/executor.h"

namespace gantry::runtime {

Result<RunTrace> RunTrace::create(int threads, size_t steps) {
  const uint64_t places = static_cast<uint64_t>(threads) * std::max<uint64_t>(steps, 1);
  if (threads < 1 || steps > kMostSpans || places > kMostSpans) {
    return failure(GANTRY_INVALID_ARGUMENT, "%zu steps on %d threads are too many to trace", steps, threads);
  }
  RunTrace trace;
  trace.most_of_step_ = static_cast<uint32_t>(std::min<uint64_t>(kMostSpansOfStep, kMostSpans / places));
  trace.tracks_.resize(static_cast<size_t>(threads));
  for (Track& track : trace.tracks_) track.spans.reserve(steps * trace.most_of_step_);
  trace.steps_.resize(steps);
  return trace;
}

void RunTrace::begin(const GantryKernelHost& host) {
  observe(host);
  for (Track& track : tracks_) {
    track.spans.clear();
    track.of_step = 0;
    track.moved = false;
    track.cpu = -1;
  }
  std::fill(steps_.begin(), steps_.end(), RunTimeline::Step());
  begin_ = now_ns();
}

void RunTrace::begin_step(size_t step) {
  step_ = static_cast<uint32_t>(step);
  alone_since_ = now_ns();
  looped_ = false;
  steps_[step].begin_ns = alone_since_ - begin_;
}

void RunTrace::end_step() {
  const int64_t now = now_ns();
  steps_[step_].end_ns = now - begin_;
  add_alone(now);
}

RunTimeline RunTrace::end() {
  RunTimeline timeline;
  timeline.run_ns = now_ns() - begin_;
  timeline.steps = steps_;
  for (size_t i = 0; i < tracks_.size(); ++i) {
    const Track& track = tracks_[i];
    timeline.threads.push_back({"thread " + std::to_string(i), track.moved ? -1 : track.cpu});
    timeline.spans.insert(timeline.spans.end(), track.spans.begin(), track.spans.end());
  }
  return timeline;
}

RunTimeline RunTrace::one_after_another(std::span<const int64_t> nanoseconds, const char* track) {
  RunTimeline timeline;
  timeline.threads.push_back({track, -1});
  for (size_t i = 0; i < nanoseconds.size(); ++i) {
    const int64_t begin = timeline.run_ns, end = begin + std::max<int64_t>(nanoseconds[i], 0);
    timeline.steps.push_back({begin, end});
    if (end > begin) timeline.spans.push_back({0, static_cast<uint32_t>(i), begin, end});
    timeline.run_ns = end;
  }
  return timeline;
}

/// Whether what begins then belongs to the track's last stretch.
bool RunTrace::continues(const Track& track, int64_t begin) const {
  if (track.spans.empty() || track.spans.back().step != step_) return false;
  return begin - begin_ - track.spans.back().end_ns < kPauseNanoseconds || track.of_step == most_of_step_;
}

void RunTrace::add(Track& track, uint32_t thread, int64_t begin, int64_t end) const {
  if (const int cpu = sched_getcpu(); cpu != track.cpu) {
    track.moved = track.moved || track.cpu >= 0;
    track.cpu = cpu;
  }
  if (continues(track, begin)) {
    track.spans.back().end_ns = end - begin_;
    return;
  }
  const bool same_step = !track.spans.empty() && track.spans.back().step == step_;
  track.of_step = same_step ? track.of_step + 1 : 1;
  track.spans.push_back({thread, step_, begin - begin_, end - begin_});
}

/// The calling thread has computed by itself since it last did not. What a kernel does around its loops is
/// mostly too short for a stretch of its own.
void RunTrace::add_alone(int64_t now) {
  const bool worth = !looped_ || now - alone_since_ >= kPauseNanoseconds;
  if (worth || continues(tracks_[0], alone_since_)) add(tracks_[0], 0, alone_since_, now);
}

void RunTrace::enter_loop() {
  looped_ = true;
  add_alone(now_ns());
}

void RunTrace::leave_loop() {
  alone_since_ = now_ns();
}

int32_t RunTrace::run(size_t thread, const Loop& loop, int64_t begin, int64_t end) {
  const int64_t before = now_ns();
  const int32_t error = loop.run(begin, end);
  add(tracks_[thread], static_cast<uint32_t>(thread), before, now_ns());
  return error;
}

}  // namespace gantry::runtime
