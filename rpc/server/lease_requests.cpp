#include "rpc/server/lease_requests.h"

namespace gantry::rpc {

asio::awaitable<bool> serve_lease(SessionParts& session, const SessionWork& work) {
  if (const auto* take = work.request.body.AsTakeLease()) {
    const LeaseAnswer answer = co_await session.lease.take(
        *take, [&](const LeaseListing& listing) { return session.client.tell_queue(work.id, listing); });
    wire::LeaseTakenT taken;
    taken.token = answer.token;
    taken.turn_ms = answer.turn_ms;
    taken.waited_ms = answer.waited_ms;
    co_await session.client.respond(work.id, make_response(taken));
    co_return true;
  }
  const auto* join = work.request.body.AsJoinLease();
  if (!join && !work.request.body.AsReleaseLease()) co_return false;
  if (join)
    co_await session.lease.join(join->token);
  else
    session.lease.release();
  co_await session.client.respond(work.id, make_response(wire::DoneT{}));
  co_return true;
}

}  // namespace gantry::rpc
