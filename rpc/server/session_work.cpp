#include "rpc/server/session_work.h"

#include <algorithm>

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxQueuedRequests = 64;

std::uint32_t to_milliseconds(milliseconds time) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(time.count(), 0, UINT32_MAX));
}

}  // namespace

void SessionWork::tell_deadline() {
  auto* benchmark = request.body.AsBenchmark();
  if (!benchmark) return;
  benchmark->deadline_ms = to_milliseconds(deadline);
  frame = encode_request(id, request);
}

milliseconds deadline_of(const wire::RequestT& request, milliseconds longest) {
  std::uint32_t asked = 0;
  if (const auto* run = request.body.AsRun()) asked = run->deadline_ms;
  if (const auto* benchmark = request.body.AsBenchmark()) asked = benchmark->deadline_ms;
  return asked > 0 ? std::min(milliseconds(asked), longest) : longest;
}

asio::awaitable<void> WorkQueue::add(SessionWork work) {
  while (waiting_.size() >= kMaxQueuedRequests && !closed_) co_await changed_.wait();
  waiting_.push_back(std::move(work));
  changed_.notify_all();
}

asio::awaitable<std::optional<SessionWork>> WorkQueue::next() {
  while (!finished_ && waiting_.empty()) co_await changed_.wait();
  if (finished_) co_return std::nullopt;
  std::optional<SessionWork> work(std::move(waiting_.front()));
  waiting_.pop_front();
  changed_.notify_all();
  co_return work;
}

void WorkQueue::finish() {
  finished_ = true;
  changed_.notify_all();
}

void WorkQueue::close() {
  closed_ = true;
  finish();
}

}  // namespace gantry::rpc
