#include "rpc/server/session_lease.h"

#include <sys/socket.h>

#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <cstring>

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;

/// A grant that comes at once is nothing to tell of.
constexpr milliseconds kFirstWord{100}, kNextWord{1000};

std::string busy(const LeaseListing& listing) {
  if (!listing.held) return "others are measured there; try again later, or wait longer";
  const LeaseRow& holder = listing.row[0];
  const std::string who = holder.key.str().empty() ? holder.address.str() : "'" + holder.key.str() + "'";
  const std::string purpose = holder.purpose.str().empty() ? "" : " (" + holder.purpose.str() + ")";
  const std::string others = listing.waiting == 0 ? ""
                             : listing.waiting == 1
                                 ? ", and another one waits"
                                 : ", and " + std::to_string(listing.waiting) + " others wait";
  return who + purpose + " has measured there for " + std::to_string(holder.since_ms / 1000) + " s" + others +
         "; try again later, or wait longer";
}

std::unique_ptr<wire::LeaseEntryT> to_wire(const LeaseRow& row) {
  auto entry = std::make_unique<wire::LeaseEntryT>();
  entry->key = row.key.str();
  entry->address = row.address.str();
  entry->purpose = row.purpose.str();
  entry->priority = row.priority;
  entry->since_ms = row.since_ms;
  return entry;
}

}  // namespace

SessionLease::SessionLease(asio::posix::stream_descriptor& parent)
    : parent_(parent), woken_(parent.get_executor()), listed_(parent.get_executor()) {}

void SessionLease::check_open() const {
  if (!closed_.empty()) throw Error(ErrorKind::kReconnect, closed_);
}

void SessionLease::close(const std::string& why) {
  if (closed_.empty()) closed_ = why;
  woken_.cancel();
  listed_.notify_all();
}

/// A question is short and the parent reads: there is room for it, or there is no parent.
void SessionLease::ask(const LeaseQuestion& question) {
  if (::send(parent_.native_handle(), &question, sizeof question, MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(sizeof question))
    throw Error(ErrorKind::kReconnect, "its server does not answer");
}

void SessionLease::hear(std::span<const std::byte> message) {
  if (message.empty()) return;
  const auto kind = static_cast<char>(message[0]);
  if (kind == kLeaseAnswer && message.size() == sizeof(LeaseAnswer)) {
    std::memcpy(&answer_.emplace(), message.data(), sizeof(LeaseAnswer));
  } else if (kind == kLeaseListing && message.size() == sizeof(LeaseListing)) {
    std::memcpy(&listing_, message.data(), sizeof(LeaseListing));
    ++listings_;
    listed_.notify_all();
  }
  woken_.cancel();
}

asio::awaitable<void> SessionLease::wake(milliseconds after) {
  woken_.expires_after(after);
  std::error_code cancelled;
  co_await woken_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
}

asio::awaitable<LeaseListing> SessionLease::state() {
  if (!parent_.is_open()) co_return LeaseListing{};
  const std::uint64_t before = listings_;
  LeaseQuestion question;
  question.ask = LeaseAsk::kState;
  ask(question);
  while (listings_ == before) {
    check_open();
    co_await listed_.wait();
  }
  co_return listing_;
}

asio::awaitable<void> SessionLease::tell(const OnWait& on_wait) {
  const LeaseListing listing = co_await state();
  if (!answer_ && on_wait) co_await on_wait(listing);
}

asio::awaitable<LeaseAnswer> SessionLease::wait_for_answer(milliseconds longest, const OnWait& on_wait) {
  const auto began = Clock::now();
  auto next_word = began + kFirstWord;
  bool cancelled = false;
  while (!answer_) {
    check_open();
    const auto now = Clock::now();
    if (longest.count() > 0 && now - began >= longest && !cancelled) {
      cancelled = true;
      LeaseQuestion question;
      question.ask = LeaseAsk::kCancel;
      ask(question);
    } else if (now >= next_word) {
      next_word = now + kNextWord;
      co_await tell(on_wait);
      continue;
    }
    auto until = next_word;
    if (longest.count() > 0 && !cancelled) until = std::min(until, began + longest);
    co_await wake(std::chrono::duration_cast<milliseconds>(until - now) + milliseconds(1));
  }
  const LeaseAnswer answer = *answer_;
  answer_.reset();
  if (answer.verdict == LeaseVerdict::kCancelled) {
    const LeaseListing listing = co_await state();  // apart: g++ 12 ends what a throw awaits too early
    throw Error(ErrorKind::kRetry, busy(listing));
  }
  co_return answer;
}

asio::awaitable<LeaseAnswer> SessionLease::take(const wire::TakeLeaseT& request, const OnWait& on_wait) {
  if (!parent_.is_open()) co_return LeaseAnswer{};
  LeaseQuestion question;
  question.ask = LeaseAsk::kTake;
  question.priority = request.priority;
  question.purpose = request.purpose;
  ask(question);
  const LeaseAnswer answer = co_await wait_for_answer(milliseconds(request.longest_wait_ms), on_wait);
  if (answer.verdict == LeaseVerdict::kNotAllowed)
    throw Error(ErrorKind::kRequest,
                "this key may not measure urgently; whoever runs the board allows it with --urgent KEY");
  if (answer.verdict != LeaseVerdict::kGranted)
    throw Error(ErrorKind::kRequest, "this session has joined a lease already: it cannot take one");
  purpose_ = request.purpose;
  chosen_ = true;
  co_return answer;
}

asio::awaitable<void> SessionLease::join(std::uint64_t token) {
  if (!parent_.is_open()) co_return;
  LeaseQuestion question;
  question.ask = LeaseAsk::kJoin;
  question.token = token;
  ask(question);
  const LeaseAnswer answer = co_await wait_for_answer(milliseconds(0), {});
  if (answer.verdict != LeaseVerdict::kGranted)
    throw Error(ErrorKind::kRetry, "there is no such lease (any more): take another one");
  chosen_ = true;
}

void SessionLease::release() {
  if (!parent_.is_open()) return;
  LeaseQuestion question;
  question.ask = LeaseAsk::kRelease;
  ask(question);
  chosen_ = false;
}

asio::awaitable<milliseconds> SessionLease::begin(milliseconds longest, const OnWait& on_wait) {
  if (!parent_.is_open()) co_return milliseconds(0);
  LeaseQuestion question;
  question.ask = LeaseAsk::kBegin;
  question.purpose = purpose_;
  const auto began = Clock::now();
  ask(question);
  co_await wait_for_answer(chosen_ ? milliseconds(0) : longest, on_wait);
  co_return std::chrono::duration_cast<milliseconds>(Clock::now() - began);
}

void SessionLease::end() {
  if (!parent_.is_open() || !closed_.empty()) return;
  LeaseQuestion question;
  question.ask = LeaseAsk::kEnd;
  try {
    ask(question);
  } catch (const Error& error) {
    close(error.what());  // the session ends, and the lease with it
  }
}

wire::LeaseQueueT to_wire(const LeaseListing& listing) {
  wire::LeaseQueueT queue;
  std::size_t row = 0;
  if (listing.held && listing.rows > 0) queue.holder = to_wire(listing.row[row++]);
  queue.measuring = listing.measuring;
  queue.turn_ms = listing.turn_ms;
  queue.turn_left_ms = listing.turn_left_ms;
  queue.waiting_count = listing.waiting;
  queue.position = listing.position;
  queue.sessions = static_cast<std::uint32_t>(listing.sessions);
  for (; row < std::min<std::size_t>(listing.rows, LeaseListing::kMostRows); ++row)
    queue.waiting.push_back(to_wire(listing.row[row]));
  return queue;
}

}  // namespace gantry::rpc
