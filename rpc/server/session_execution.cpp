#include "rpc/server/session_execution.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "rpc/server/lease_requests.h"
#include "rpc/server/shared_memory.h"

namespace gantry::rpc {

using std::chrono::milliseconds;

namespace {

/// For others who measure; none would be for ever.
constexpr milliseconds kLeastWait{100};

}  // namespace

SessionExecution::SessionExecution(asio::io_context& io, SessionParts& session)
    : session_(session),
      setup_{{session.options.session_memory_bytes}, session.options.program, {}},
      executor_(io.get_executor(), setup_),
      diagnosis_(io.get_executor(), setup_),
      beside_(session.share.counted_activity(), session.share.memory.slot) {}

void SessionExecution::kill() noexcept {
  executor_.kill();
  diagnosis_.kill();
}

asio::awaitable<void> SessionExecution::execute(SessionWork work) {
  std::optional<wire::ResponseT> failure;
  try {
    if (!co_await serve_lease(session_, work)) co_await execute_and_answer(work);
  } catch (const Error& error) {
    if (session_.life.stopped()) co_return;
    if (session_.client.channel().closed()) throw;  // nobody is there to be answered
    failure = make_failure(error.kind() == ErrorKind::kBug ? ErrorKind::kBoard : error.kind(), error.what());
  }
  if (failure && work.handed_over && !executor_.running()) {
    // It was killed: by its deadline, or by a signal.
    session_.log.warning("executor ended: " + failure->body.AsFailure()->message);
    if (executor_.died_in_a_graph())
      failure->body.AsFailure()->message += co_await run_again(work, milliseconds(10'000));
    forget_loaded();
  }
  if (failure) co_await session_.client.respond(work.id, *failure);
}

asio::awaitable<void> SessionExecution::execute_and_answer(SessionWork& work) {
  const wire::LoadModuleT* load = work.load();
  if (!load && !executor_.running())
    throw Error(ErrorKind::kRequest, "no module is loaded in this session (any more): load it first");
  session_.memory.check_kept(work.request);
  if (work.request.body.AsBenchmark()) co_return co_await measure_and_answer(work);
  const Activity what = load                        ? Activity::kLoad
                        : work.request.body.AsRun() ? Activity::kRun
                                                    : Activity::kTransfer;
  const Doing doing = session_.share.doing(what);
  if (load) executor_.require_handle();
  if (load && is_on_gpu(*load) && setup_.gpus.empty())
    setup_.gpus = encode_response(0, make_response(session_.board.describe(true)));
  co_await ask_executor(work);
}

/// Waits for its turn to measure, and says what was done beside it.
asio::awaitable<void> SessionExecution::measure_and_answer(SessionWork& work) {
  // A session that has chosen no lease has one for the while, of a client that may know nothing of leases:
  // that waits for half of its own deadline, of which measuring gets the rest. The word that nobody else
  // measures takes a moment, too.
  SessionLease& lease = session_.lease;
  const milliseconds longest = std::max(work.deadline / 2, kLeastWait);
  const milliseconds waited = co_await lease.begin(
      longest, [&](const LeaseListing& listing) { return session_.client.tell_queue(work.id, listing); });
  const Measuring measuring(lease);
  if (session_.life.stopped()) throw Error(ErrorKind::kReconnect, "the session ends");
  if (!lease.chosen() && waited > milliseconds(1000)) {
    work.deadline = std::max({work.deadline - waited, work.deadline / 2, milliseconds(1)});
    work.tell_deadline();
  }
  beside_.begin(waited);
  co_await ask_executor(work);
}

asio::awaitable<void> SessionExecution::tell_beside(std::uint32_t id) {
  if (!session_.client.knows_leases()) co_return;
  if (auto told = beside_.told()) co_await session_.client.progress(id, make_response(std::move(*told)));
}

/// What the executor needs beside the request, and has neither a path nor a right to open itself.
Attachments SessionExecution::attachments_of(SessionWork& work) {
  Attachments attachments;
  if (work.data) attachments.push_back(std::move(work.data));
  if (const wire::LoadModuleT* load = work.load(); load && !load->whole)
    session_.segments.attach(*load, attachments);
  return attachments;
}

/// Hands the request to the executor, and its answer to the client.
asio::awaitable<void> SessionExecution::ask_executor(SessionWork& work) {
  const wire::LoadModuleT* load = work.load();
  const Attachments attachments = attachments_of(work);
  work.handed_over = true;
  auto reply = co_await executor_.call(
      work.frame, attachments, work.deadline,
      [this, &work](const Bytes& frame) { return session_.client.channel().write(work.id, frame); });
  const wire::ResponseT response = decode_response(std::span(reply.frame).subspan(kFrameHeaderSize));
  executor_.check_handle(load != nullptr, response);
  co_await look_into(work, attachments, response, reply.finish);
  if (executor_.running()) {
    session_.memory.note(work.request, response, work.memory);
    session_.segments.note(work.request, response);
  } else {
    forget_loaded();
  }
  const std::uint64_t size = following_bytes(response);
  if (size > work.memory.reserved())
    throw Error(ErrorKind::kBoard, "an answer of " + std::to_string(size >> 20) +
                                       " MiB is more than the module said, or than a session may use");
  if (size > 0) work.memory.arrived(size);
  const SharedMemory memory(std::move(reply.payload), size);
  if (size > 0) memory.populate(0, size, MADV_POPULATE_READ);
  if (response.body.AsBenchmarkFinished()) co_await tell_beside(work.id);
  co_await session_.client.channel().write(work.id, reply.frame, memory.bytes());
}

/// The executor has ended, and all that was loaded with it.
void SessionExecution::forget_loaded() {
  diagnosis_.forget();
  session_.memory.forget();
  session_.segments.forget_loaded();
}

/// What a fresh executor finds out about the run that failed.
asio::awaitable<std::string> SessionExecution::run_again(const SessionWork& work, milliseconds most) {
  std::uint32_t handle = 0;
  if (const auto* run = work.request.body.AsRun()) handle = run->handle;
  if (const auto* benchmark = work.request.body.AsBenchmark()) handle = benchmark->handle;
  co_return co_await diagnosis_.run_again(handle, std::min(work.deadline, most));
}

/// Keeps what a fault on a GPU is traced with, or traces one: then throws the error with what was found.
asio::awaitable<void> SessionExecution::look_into(const SessionWork& work, const Attachments& attachments,
                                                  const wire::ResponseT& response, Finish finish) {
  if (finish == kGoesOn) {
    diagnosis_.note(work.request, attachments, response);
    if (work.load()) report_gaps();
    if (work.load()) report_load(*work.load(), response);
    co_return;
  }
  const auto* failure = response.body.AsFailure();
  std::string found;
  if (finish == kGpuLostUnknownAt && failure) found = co_await run_again(work, milliseconds(60'000));
  diagnosis_.forget();
  if (failure) throw Error(ErrorKind::kBoard, failure->message + found + "; load the module again");
}

/// What of an executor's confinement this system does not offer: once a session.
void SessionExecution::report_gaps() {
  if (gaps_reported_) return;
  gaps_reported_ = true;
  if (const int error = executor_.exec_error(); error != 0)
    session_.log.info(
        std::string("executors are forks of their session, with its memory and addresses: the system does "
                    "not execute gantry-device anew (") +
        std::strerror(error) + ")");
  if (const int error = executor_.fork_error(); error != 0)
    session_.log.info(
        std::string("modules could start processes: the system does not filter system calls (") +
        std::strerror(error) + ")");
}

void SessionExecution::report_load(const wire::LoadModuleT& load, const wire::ResponseT& response) {
  const std::string parts = load.whole ? "" : " of " + std::to_string(load.segments.size()) + " segments";
  const std::string what = "module" + parts + " for " + load.device;
  if (const auto* loaded = response.body.AsModuleLoaded())
    session_.log.info(what + " loaded: target " + loaded->target + ", handle " +
                      std::to_string(loaded->handle));
  else if (const auto* failure = response.body.AsFailure())
    session_.log.warning(what + " not loaded: " + failure->message);
}

}  // namespace gantry::rpc
