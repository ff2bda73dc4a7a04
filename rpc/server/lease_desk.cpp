#include "rpc/server/lease_desk.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "rpc/error.h"

namespace gantry::rpc {
namespace {

LeaseQueue::Token random_token() {
  LeaseQueue::Token token = 0;
  while (::getrandom(&token, sizeof token, 0) != sizeof token) {
    if (errno != EINTR) throw Error(ErrorKind::kBoard, "the board has no random numbers");
  }
  return token;
}

LeaseRow row_of(const LeaseQueue::Place& place) {
  LeaseRow row;
  row.since_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(place.since.count(), 0));
  row.priority = static_cast<std::uint8_t>(place.priority);
  row.key = place.party.key;
  row.address = place.party.address;
  row.purpose = place.party.purpose;
  return row;
}

template <typename Message>
std::span<const std::byte> bytes_of(const Message& message) {
  return std::as_bytes(std::span(&message, 1));
}

}  // namespace

LeaseDesk::LeaseDesk(const LeaseTerms& terms, std::vector<std::string> urgent_keys, Send send, Report report)
    : terms_(terms),
      urgent_keys_(std::move(urgent_keys)),
      queue_(terms, random_token),
      send_(std::move(send)),
      report_(std::move(report)) {}

void LeaseDesk::answer_with(SessionId session, LeaseVerdict verdict, LeaseQueue::Token token,
                            LeaseQueue::Duration waited) {
  LeaseAnswer answer;
  answer.verdict = verdict;
  answer.turn_ms = static_cast<std::uint32_t>(terms_.turn.count());
  answer.token = token;
  answer.waited_ms = static_cast<std::uint64_t>(waited.count());
  send_(session, bytes_of(answer));
}

void LeaseDesk::take(SessionId session, const LeaseParty& who, const LeaseQuestion& question, Time now) {
  const auto priority = static_cast<LeasePriority>(question.priority);
  const bool may = who.key.empty() || std::ranges::find(urgent_keys_, who.key) != urgent_keys_.end();
  if (priority == LeasePriority::kUrgent && !may) return answer_with(session, LeaseVerdict::kNotAllowed);
  const LeaseParty party{who.key, who.address, question.purpose.str()};
  if (!queue_.take(session, party, priority, now)) answer_with(session, LeaseVerdict::kHasJoined);
}

void LeaseDesk::list(SessionId session, std::size_t sessions, Time now) {
  const LeaseQueue::State state = queue_.state(session, now);
  LeaseListing listing;
  listing.held = state.holder.has_value();
  listing.measuring = state.measuring;
  listing.waiting = static_cast<std::uint32_t>(state.waiting.size());
  listing.position = state.own ? static_cast<std::uint32_t>(*state.own + 1) : 0;
  listing.turn_ms = static_cast<std::uint32_t>(terms_.turn.count());
  listing.turn_left_ms = state.turn_left.count();
  listing.sessions = sessions;
  if (state.holder) listing.row[listing.rows++] = row_of(*state.holder);
  for (const LeaseQueue::Place& place : state.waiting)
    if (listing.rows < LeaseListing::kMostRows) listing.row[listing.rows++] = row_of(place);
  send_(session, bytes_of(listing));
}

bool LeaseDesk::answer(SessionId session, const LeaseParty& who, std::size_t sessions,
                       const LeaseQuestion& question, Time now) {
  if (question.priority > kMaxLeasePriority) return false;
  switch (question.ask) {
    case LeaseAsk::kTake:
      take(session, who, question, now);
      break;
    case LeaseAsk::kJoin:
      answer_with(session,
                  queue_.join(session, question.token) ? LeaseVerdict::kGranted : LeaseVerdict::kNoSuchLease);
      break;
    case LeaseAsk::kBegin:
      queue_.begin(session, {who.key, who.address, question.purpose.str()}, now);
      break;
    case LeaseAsk::kEnd:
      queue_.end(session, now);
      break;
    case LeaseAsk::kCancel:
      if (queue_.cancel(session, now)) answer_with(session, LeaseVerdict::kCancelled);
      break;
    case LeaseAsk::kRelease:
      queue_.release(session, now);
      break;
    case LeaseAsk::kState:
      queue_.advance(now);
      list(session, sessions, now);
      break;
    default:
      return false;
  }
  tell();
  return true;
}

void LeaseDesk::leave(SessionId session, Time now) {
  queue_.leave(session, now);
  tell();
}

void LeaseDesk::advance(Time now) {
  queue_.advance(now);
  tell();
}

void LeaseDesk::tell() {
  for (const LeaseQueue::Event& event : queue_.take_events()) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.3f s", static_cast<double>(event.lasted.count()) / 1e3);
    report_(event.owner, event.began ? "has the lease, for which it waited " + std::string(seconds)
                                     : "had the lease for " + std::string(seconds) + ": " + event.why);
  }
  for (const LeaseQueue::Grant& grant : queue_.take_grants())
    answer_with(grant.session, LeaseVerdict::kGranted, grant.token, grant.waited);
}

}  // namespace gantry::rpc
