/// A session's end of leases: asks the parent, and waits for its turn.
#ifndef GANTRY_RPC_SERVER_SESSION_LEASE_H
#define GANTRY_RPC_SERVER_SESSION_LEASE_H

#include <asio/awaitable.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "rpc/protocol/watchdog.h"
#include "rpc/server/lease_messages.h"

namespace gantry::rpc {

/// Where nobody is asked (a session that serves one program of this machine) everything is granted. One
/// thread; one of take(), join() and begin() at a time. All throw Error(kReconnect) once it has been closed.
class SessionLease {
 public:
  /// Hears of the queue about once a second.
  using OnWait = std::function<asio::awaitable<void>(const LeaseListing&)>;

  /// `parent` outlives it, and is read by whoever calls hear().
  explicit SessionLease(asio::posix::stream_descriptor& parent);

  /// Waits for the lease, for `longest` at most (zero: for ever); again, where it is held: gives way where it
  /// should. Throws Error(kRetry) when the time is up, kRequest where it may not be had.
  asio::awaitable<LeaseAnswer> take(const wire::TakeLeaseT& request, const OnWait& on_wait);
  /// Throws Error(kRetry) where there is no such lease.
  asio::awaitable<void> join(std::uint64_t token);
  void release();
  /// Until the session may measure. `longest` counts only for a session that has no lease of its own choice.
  /// Every begin() has its end(). Throws Error(kRetry) when the time is up.
  asio::awaitable<std::chrono::milliseconds> begin(std::chrono::milliseconds longest, const OnWait& on_wait);
  void end();
  asio::awaitable<LeaseListing> state();
  /// Whether the session has taken or joined one.
  bool chosen() const { return chosen_; }

  /// A message of the parent's that begins with kLeaseAnswer or kLeaseListing.
  void hear(std::span<const std::byte> message);
  /// Nothing comes any more; who waits fails with that reason.
  void close(const std::string& why);

 private:
  using Clock = std::chrono::steady_clock;
  void ask(const LeaseQuestion& question);
  asio::awaitable<LeaseAnswer> wait_for_answer(std::chrono::milliseconds longest, const OnWait& on_wait);
  asio::awaitable<void> wake(std::chrono::milliseconds after);
  asio::awaitable<void> tell(const OnWait& on_wait);
  void check_open() const;

  asio::posix::stream_descriptor& parent_;
  asio::steady_timer woken_;
  std::optional<LeaseAnswer> answer_;
  Signal listed_;
  LeaseListing listing_;
  std::uint64_t listings_ = 0;  // that have come
  std::string purpose_;
  std::string closed_;
  bool chosen_ = false;
};

wire::LeaseQueueT to_wire(const LeaseListing& listing);

/// Ends the measuring that has begun.
class Measuring {
 public:
  explicit Measuring(SessionLease& lease) : lease_(&lease) {}
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;
  ~Measuring() { lease_->end(); }

 private:
  SessionLease* lease_;
};

}  // namespace gantry::rpc
#endif
