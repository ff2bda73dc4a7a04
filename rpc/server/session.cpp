#include "rpc/server/session.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "rpc/server/admission.h"
#include "rpc/server/session_execution.h"
#include "rpc/server/session_hello.h"
#include "rpc/server/session_requests.h"

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;

constexpr char kShuttingDown[] = "its server is shutting down; connect again when it is back";

/// Begins a session, runs its tasks and ends it.
class Session {
 public:
  Session(asio::io_context& io, int connection, int parent, ssl_ctx_st* tls, const ServeOptions& options,
          const SessionShare& share)
      : io_(io),
        tls_(tls),
        parts_(io, connection, parent, options, share),
        requests_(parts_),
        execution_(io, parts_),
        idle_timer_(io.get_executor()) {}

  asio::awaitable<void> main();
  void stop() noexcept;
  /// Reports the end, if there was a session.
  void report_end();

 private:
  asio::awaitable<bool> open();
  asio::awaitable<bool> greet();
  asio::awaitable<void> read_requests();
  asio::awaitable<void> execute_requests();
  asio::awaitable<void> watch_parent();
  asio::awaitable<void> watch_idleness();
  asio::awaitable<void> farewell(ErrorKind kind, std::string message);
  void spawn(asio::awaitable<void> task);

  asio::io_context& io_;
  ssl_ctx_st* tls_;
  SessionParts parts_;
  SessionLife& life_ = parts_.life;
  SessionRequests requests_;
  SessionExecution execution_;
  asio::steady_timer idle_timer_;
  ServerKeys::Offer key_;  ///< that the peer has shown to hold
  bool executing_ = false;
};

void Session::spawn(asio::awaitable<void> task) {
  asio::co_spawn(io_, std::move(task), [this](std::exception_ptr failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const Error& error) {
      life_.end_because(error.what());
    } catch (const std::exception&) {
      // The connection broke; whoever reads from it says so.
    }
    stop();
  });
}

void Session::stop() noexcept {
  if (!life_.stop()) return;
  std::error_code ignored;
  parts_.client.close();
  parts_.parent.close(ignored);
  idle_timer_.cancel();
  execution_.kill();
  parts_.memory.close();
  parts_.lease.close("the session ends");
  parts_.queue.close();
}

void Session::report_end() {
  if (const std::optional<std::string> summary = life_.summary()) parts_.log.info(*summary);
}

/// TLS and the version exchange, under one deadline. False: the peer has had its answer and goes.
asio::awaitable<bool> Session::open() {
  const ServeOptions& options = parts_.options;
  Watchdog watchdog(io_.get_executor(), options.handshake_timeout, [this] {
    life_.end_because("it did not authenticate in time");
    stop();
  });
  co_await parts_.client.connect(tls_, options.stall_timeout);
  if (tls_) {
    key_ = keys_of(tls_).offer();
    keys_of(tls_).forget();
    parts_.log.set_key(key_.identity);
  }
  co_return co_await greet();
}

/// The version exchange.
asio::awaitable<bool> Session::greet() {
  SessionClient& client = parts_.client;
  const auto header = co_await client.channel().read_header(kMaxHelloBytes);
  if (!header) co_return false;
  const Bytes payload = co_await client.channel().read_payload(*header);
  if (header->type != FrameType::kRequest) co_return false;
  const wire::RequestT request = decode_request(payload);
  const wire::HelloT* hello = request.body.AsHello();
  std::optional<wire::ResponseT> refusal = misfit_of(hello);
  if (!refusal) refusal = co_await ask_admission(parts_.parent, key_, parts_.options.max_sessions);
  if (refusal) {
    parts_.log.warning("refused: " + refusal->body.AsFailure()->message);
    co_await client.respond(header->id, *refusal);
    co_return false;
  }
  client.set_knows_leases((hello->features & kFeatureLeases) != 0);
  if (BoardActivity* activity = parts_.share.counted_activity())
    activity->open(parts_.share.memory.slot, key_.identity, parts_.log.peer_address());
  life_.start();
  client.channel().set_stall_timeout(parts_.options.stall_timeout);
  parts_.log.info("session started by client '" + hello->client + "'");
  co_await client.respond(header->id, make_response(make_welcome()));
  co_return true;
}

asio::awaitable<void> Session::main() {
  bool opened = false;
  std::optional<Error> complaint;
  try {
    opened = co_await open();
  } catch (const TlsError& error) {
    parts_.log.warning("authentication failed: " + complaint_about(keys_of(tls_).offer(), error));
  } catch (const Error& error) {
    complaint = error;
  } catch (const std::system_error& error) {
    parts_.log.info("went before its session had started: " +
                    (life_.end().empty() ? error.code().message() : life_.end()));
  }
  if (complaint) {
    parts_.log.warning(std::string("refused: ") + complaint->what());
    co_await farewell(complaint->kind(), complaint->what());
  }
  if (!opened || life_.stopped()) {
    stop();
    co_return;
  }
  life_.touch();
  if (parts_.parent.is_open()) spawn(watch_parent());
  spawn(watch_idleness());
  spawn(execute_requests());
  co_await read_requests();
}

/// Says why the connection ends, if the peer still listens, and ends it.
asio::awaitable<void> Session::farewell(ErrorKind kind, std::string message) {
  life_.end_because(message);
  Watchdog watchdog(io_.get_executor(), milliseconds(1000), [this] { stop(); });
  try {
    co_await parts_.client.respond(0, make_failure(kind, message));
  } catch (const std::exception&) {
  }
  stop();
}

asio::awaitable<void> Session::read_requests() {
  std::optional<std::string> complaint;
  try {
    co_await requests_.read_all();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) complaint = error.what();
    life_.end_because(error.what());
  } catch (const std::exception& error) {
    life_.end_because(std::string("the connection broke: ") + error.what());
  }
  if (complaint) co_await farewell(ErrorKind::kBug, *complaint);
}

asio::awaitable<void> Session::execute_requests() {
  while (true) {
    std::optional<SessionWork> work = co_await parts_.queue.next();
    if (!work) break;
    executing_ = true;
    co_await execution_.execute(std::move(*work));
    executing_ = false;
    life_.touch();
  }
  if (!life_.stopped()) co_await farewell(ErrorKind::kReconnect, kShuttingDown);
}

asio::awaitable<void> Session::watch_parent() {
  std::array<std::byte, std::max(sizeof(LeaseListing), sizeof(LeaseAnswer))> message{};
  // Fails, and so ends the session, when the parent is gone.
  while (!life_.stopped()) {
    std::error_code gone;
    const std::size_t size = co_await parts_.parent.async_read_some(
        asio::buffer(message), asio::redirect_error(asio::use_awaitable, gone));
    const auto byte = static_cast<char>(message[0]);
    if (gone || size == 0) {
      parts_.lease.close("its server is gone");
      if (!life_.stopped()) life_.end_because("its server is gone");
      co_return;
    }
    if (byte == kLeaseAnswer || byte == kLeaseListing) {
      parts_.lease.hear(std::span(message).first(size));
      continue;
    }
    if (byte == kEndNow) {
      co_await farewell(ErrorKind::kReconnect,
                        std::string(kShuttingDown) + " (it did not wait for the request any longer)");
      co_return;
    }
    if (byte == kKeyRevoked) {
      co_await farewell(ErrorKind::kReconnect, revocation_of(key_));
      co_return;
    }
    if (byte != kShutDown) co_return;
    parts_.lease.close(kShuttingDown);
    parts_.queue.finish();
  }
}

asio::awaitable<void> Session::watch_idleness() {
  const SessionLife::Clock::duration most = parts_.options.idle_timeout;
  while (!life_.stopped()) {
    const bool busy = executing_ || !parts_.queue.empty();
    const auto idle = busy ? SessionLife::Clock::duration::zero() : life_.idle();
    if (idle >= most) {
      co_await farewell(ErrorKind::kReconnect, "the session was idle for too long");
      co_return;
    }
    idle_timer_.expires_after(most - idle);
    std::error_code cancelled;
    co_await idle_timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
}

/// A module's segments are open all at once: as many files as the system lets this process have.
void allow_all_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int run_session(int connection, int parent, ssl_ctx_st* tls, const ServeOptions& options,
                const SessionShare& share) {
  try {
    allow_all_descriptors();
    if (share.memory.board) share.memory.board->keep_from_children();
    if (share.verified) share.verified->keep_from_children();
    if (share.activity) share.activity->keep_from_children();
    asio::io_context io(1);
    Session session(io, connection, parent, tls, options, share);
    asio::co_spawn(io, session.main(), [&](std::exception_ptr) { session.stop(); });
    io.run();
    session.report_end();
    return 0;
  } catch (const std::exception& error) {
    Log(options.log_level).error(std::string("a session could not start: ") + error.what());
    return 1;
  }
}

}  // namespace gantry::rpc
