#include "rpc/server/lease_queue.h"

#include <algorithm>
#include <utility>

namespace gantry::rpc {
namespace {

LeaseQueue::Duration between(LeaseQueue::Time from, LeaseQueue::Time to) {
  return std::chrono::duration_cast<LeaseQueue::Duration>(to - from);
}

}  // namespace

// ---- tickets ----

LeaseQueue::Ticket* LeaseQueue::ticket_of(SessionId session) {
  const auto member = membership_.find(session);
  return member == membership_.end() ? nullptr : &tickets_.at(member->second);
}

LeaseQueue::Ticket& LeaseQueue::make_ticket(SessionId owner, const LeaseParty& party, LeasePriority priority,
                                            bool brief) {
  Token token = 0;
  while (token == 0 || tickets_.contains(token)) token = make_token_();
  Ticket& ticket = tickets_[token];
  ticket.token = token;
  ticket.owner = owner;
  ticket.party = party;
  ticket.priority = priority;
  ticket.brief = brief;
  membership_[owner] = token;
  return ticket;
}

LeaseQueue::Ticket* LeaseQueue::holder() {
  return holder_ == 0 ? nullptr : &tickets_.at(holder_);
}
const LeaseQueue::Ticket* LeaseQueue::holder() const {
  return holder_ == 0 ? nullptr : &tickets_.at(holder_);
}

// ---- who is next ----

int LeaseQueue::level(const Ticket& ticket, Time now) const {
  const Duration waited = ticket.waits_since ? between(*ticket.waits_since, now) : Duration(0);
  return static_cast<int>(ticket.priority) + static_cast<int>(waited / terms_.patience);
}

bool LeaseQueue::comes_before(const Ticket& a, const Ticket& b, Time now) const {
  const int of_a = level(a, now), of_b = level(b, now);
  return of_a != of_b ? of_a > of_b : a.arrival < b.arrival;
}

const LeaseQueue::Ticket* LeaseQueue::first_waiting(Time now) const {
  const Ticket* first = nullptr;
  for (const auto& [token, ticket] : tickets_)
    if (ticket.waits_since && (!first || comes_before(ticket, *first, now))) first = &ticket;
  return first;
}

/// Since when the holder should give way; none where nobody waits that would come before it.
std::optional<LeaseQueue::Time> LeaseQueue::turn_over_since(const Ticket& holder, Time now) const {
  const Ticket* first = first_waiting(now);
  if (!first || level(*first, now) < static_cast<int>(holder.priority)) return std::nullopt;
  Time over = holder.turn_ends;
  for (const auto& [token, ticket] : tickets_)
    if (ticket.waits_since && ticket.priority > holder.priority)
      over = std::min(over, std::max(*ticket.waits_since, holder.held_since));
  return over;
}

/// When a holder that does not measure loses the lease; none where nobody waits.
std::optional<LeaseQueue::Time> LeaseQueue::taken_away_at(const Ticket& holder, Time now) const {
  if (!first_waiting(now)) return std::nullopt;
  Time at = holder.rests_since + (holder.brief ? terms_.brief_rest : terms_.rest);
  if (const auto over = turn_over_since(holder, now))
    at = std::min(at, *over + (holder.brief ? Duration(0) : terms_.give_way));
  return at;
}

// ---- the lease changes hands ----

void LeaseQueue::wait(Ticket& ticket, Waiting waiting, Time now) {
  if (!ticket.waits_since) {
    ticket.waits_since = now;
    ticket.arrival = ++arrivals_;
  }
  ticket.waiting.push_back(waiting);
}

void LeaseQueue::hold(Ticket& ticket, Time now) {
  const Duration waited = ticket.waits_since ? between(*ticket.waits_since, now) : Duration(0);
  holder_ = ticket.token;
  ticket.waits_since.reset();
  ticket.held_since = ticket.rests_since = now;
  ticket.turn_ends = now + terms_.turn;
  events_.push_back({true, ticket.owner, waited, ""});
  for (const Waiting& waiting : std::exchange(ticket.waiting, {})) {
    if (waiting.measures) ticket.measuring[waiting.session] = now;
    grants_.push_back({waiting.session, ticket.token, waited});
  }
}

void LeaseQueue::lose(const char* why, Time now) {
  const Ticket& ticket = *holder();
  events_.push_back({false, ticket.owner, between(ticket.held_since, now), why});
  holder_ = 0;
}

/// Ends the ticket, as soon as none of its sessions measures.
void LeaseQueue::close(Ticket& ticket, const char* why, Time now) {
  ticket.closed = true;
  // While others measured under it, its owner may have taken another one.
  const auto own = membership_.find(ticket.owner);
  if (own != membership_.end() && own->second == ticket.token) membership_.erase(own);
  if (!ticket.measuring.empty()) return;
  if (ticket.token == holder_) lose(why, now);
  erase(ticket.token, now);
}

/// Sessions that waited under the ticket wait on, each under its own.
void LeaseQueue::erase(Token token, Time now) {
  const Ticket ticket = std::move(tickets_.at(token));
  tickets_.erase(token);
  std::erase_if(membership_, [&](const auto& member) { return member.second == token; });
  for (const Waiting& waiting : ticket.waiting) begin(waiting.session, ticket.party, now);
}

void LeaseQueue::advance(Time now) {
  for (;;) {
    if (Ticket* held = holder()) {
      if (!held->measuring.empty()) return;
      if (held->closed) {
        close(*held, "its session ended", now);
        continue;
      }
      if (const auto at = taken_away_at(*held, now); at && *at <= now) {
        const auto over = turn_over_since(*held, now);
        lose(over && *over <= now ? "its turn was over" : "it rested while others waited", now);
        continue;
      }
      if (held->turn_ends <= now) {
        const bool rests = held->rests_since + terms_.rest <= now;
        if (!turn_over_since(*held, now) && rests) {
          lose("its turn was over and it rested", now);
          continue;
        }
        if (!turn_over_since(*held, now)) held->turn_ends = now + terms_.turn;
      }
      return;
    }
    const Ticket* first = first_waiting(now);
    if (!first) return;
    hold(tickets_.at(first->token), now);
  }
}

// ---- what sessions ask ----

bool LeaseQueue::take(SessionId session, const LeaseParty& party, LeasePriority priority, Time now) {
  Ticket* own = ticket_of(session);
  if (own && own->owner != session) return false;
  if (!own) own = &make_ticket(session, party, priority, false);
  own->party = party;
  own->priority = priority;
  own->brief = false;
  const Token token = own->token;
  advance(now);
  if (holder_ == token && own->measuring.empty()) {
    const auto over = turn_over_since(*own, now);
    if (over && *over <= now) lose("it gave way", now);
  }
  if (holder_ == token) {
    grants_.push_back({session, token, Duration(0)});
    return true;
  }
  wait(*own, {session, false}, now);
  advance(now);
  return true;
}

bool LeaseQueue::join(SessionId session, Token token) {
  const auto ticket = tickets_.find(token);
  if (ticket == tickets_.end() || ticket->second.closed || ticket->second.brief) return false;
  const Ticket* own = ticket_of(session);
  if (own) return own->token == token;
  membership_[session] = token;
  return true;
}

void LeaseQueue::begin(SessionId session, const LeaseParty& party, Time now) {
  Ticket* own = ticket_of(session);
  if (!own) own = &make_ticket(session, party, LeasePriority::kNormal, true);
  const Token token = own->token;
  advance(now);
  if (holder_ == token) {
    own->measuring[session] = now;
    grants_.push_back({session, token, Duration(0)});
    return;
  }
  wait(*own, {session, true}, now);
  advance(now);
}

void LeaseQueue::end(SessionId session, Time now) {
  if (stop_measuring(session, now)) advance(now);
}

/// Whoever measures does so under the holder, maybe one that has given it back since. False: it does not.
bool LeaseQueue::stop_measuring(SessionId session, Time now) {
  Ticket* held = holder();
  if (!held || held->measuring.erase(session) == 0) return false;
  held->rests_since = now;
  return true;
}

bool LeaseQueue::cancel(SessionId session, Time now) {
  Ticket* own = ticket_of(session);
  if (!own) return false;
  const auto of_session = [&](const Waiting& waiting) { return waiting.session == session; };
  if (std::erase_if(own->waiting, of_session) == 0) return false;
  if (own->waiting.empty()) own->waits_since.reset();
  advance(now);
  return true;
}

void LeaseQueue::release(SessionId session, Time now) {
  Ticket* own = ticket_of(session);
  if (!own || own->owner != session) return;
  close(*own, "it was given back", now);
  advance(now);
}

void LeaseQueue::leave(SessionId session, Time now) {
  stop_measuring(session, now);
  if (Ticket* own = ticket_of(session)) {
    std::erase_if(own->waiting, [&](const Waiting& waiting) { return waiting.session == session; });
    if (own->waiting.empty()) own->waits_since.reset();
    membership_.erase(session);
    if (own->owner == session) close(*own, "its session ended", now);
  }
  advance(now);
}

// ---- what is told ----

std::optional<LeaseQueue::Time> LeaseQueue::next_change(Time now) const {
  const Ticket* held = holder();
  if (!held) return std::nullopt;
  if (held->measuring.empty()) {
    const auto taken = taken_away_at(*held, now);
    return taken ? (held->turn_ends > now ? std::min(*taken, held->turn_ends) : *taken) : held->turn_ends;
  }
  Time first = Time::max();
  for (const auto& [session, since] : held->measuring)
    first = std::min(first, since + terms_.longest_measurement);
  return first;
}

std::vector<LeaseQueue::SessionId> LeaseQueue::overdue(Time now) const {
  std::vector<SessionId> sessions;
  if (const Ticket* held = holder())
    for (const auto& [session, since] : held->measuring)
      if (since + terms_.longest_measurement <= now) sessions.push_back(session);
  return sessions;
}

std::vector<LeaseQueue::Grant> LeaseQueue::take_grants() {
  return std::exchange(grants_, {});
}

std::vector<LeaseQueue::Event> LeaseQueue::take_events() {
  return std::exchange(events_, {});
}

LeaseQueue::State LeaseQueue::state(SessionId asker, Time now) const {
  State result;
  if (const Ticket* held = holder()) {
    result.holder = Place{held->party, held->priority, between(held->held_since, now)};
    result.measuring = !held->measuring.empty();
    const auto over = turn_over_since(*held, now);
    result.turn_left = between(now, over.value_or(std::max(held->turn_ends, now)));
  }
  std::vector<const Ticket*> waiting;
  for (const auto& [token, ticket] : tickets_)
    if (ticket.waits_since) waiting.push_back(&ticket);
  std::ranges::sort(waiting, [&](const Ticket* a, const Ticket* b) { return comes_before(*a, *b, now); });
  const auto member = membership_.find(asker);
  for (const Ticket* ticket : waiting) {
    if (member != membership_.end() && member->second == ticket->token) result.own = result.waiting.size();
    result.waiting.push_back({ticket->party, ticket->priority, between(*ticket->waits_since, now)});
  }
  return result;
}

}  // namespace gantry::rpc
