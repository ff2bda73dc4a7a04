#include "rpc/server/session.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <cstdio>
#include <cstring>
#include <deque>

#include "gantry/runtime.h"
#include "rpc/protocol/channel.h"
#include "rpc/server/admission.h"
#include "rpc/server/board_info.h"
#include "rpc/server/executor_process.h"
#include "rpc/server/fault_diagnosis.h"
#include "rpc/server/measured_beside.h"
#include "rpc/server/session_lease.h"
#include "rpc/server/session_segments.h"
#include "rpc/server/shared_memory.h"

namespace gantry::rpc {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using tcp = asio::ip::tcp;

constexpr std::size_t kMaxQueuedRequests = 64;
constexpr char kShuttingDown[] = "its server is shutting down; connect again when it is back";

std::uint32_t to_milliseconds(milliseconds time) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(time.count(), 0, UINT32_MAX));
}

/// A request for the executor, complete with its data.
struct Work {
  std::uint32_t id;
  wire::RequestT request;
  Bytes frame;  ///< what the executor is sent
  UniqueFd data;
  milliseconds deadline;
  SessionMemory::Hold memory;
  bool handed_over = false;  ///< to an executor

  /// Null for other requests.
  const wire::LoadModuleT* load() const { return request.body.AsLoadModule(); }
};

class Session {
 public:
  Session(asio::io_context& io, int connection, int parent, ssl_ctx_st* tls, const ServeOptions& options,
          const SessionShare& share)
      : io_(io),
        options_(options),
        tls_(tls),
        parent_(io),
        connection_(io),
        memory_(io.get_executor(), options.session_memory_bytes, share.memory),
        work_ready_(io.get_executor()),
        idle_timer_(io.get_executor()),
        setup_{{options.session_memory_bytes}, options.program, {}},
        executor_(io.get_executor(), setup_),
        diagnosis_(io.get_executor(), setup_),
        log_(options.log_level, peer_of(connection)),
        segments_(options, share.verified, log_),
        lease_(parent_),
        share_(share),
        beside_(activity(), share.memory.slot) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    ::getpeername(connection, reinterpret_cast<sockaddr*>(&address), &length);
    connection_.assign({address.ss_family, 0}, connection);
    if (parent >= 0) parent_.assign(parent);
  }

  asio::awaitable<void> main();
  void stop() noexcept;
  /// Reports the end, if there was a session.
  void report_end();

 private:
  asio::awaitable<bool> open();
  asio::awaitable<void> read_requests();
  asio::awaitable<void> handle(const FrameHeader& header);
  asio::awaitable<void> handle_request(std::uint32_t id, wire::RequestT request, Bytes frame);
  asio::awaitable<void> enqueue(std::uint32_t id, wire::RequestT request, Bytes frame);
  asio::awaitable<void> execute_requests();
  asio::awaitable<void> execute(Work work);
  Attachments attachments_of(Work& work);
  asio::awaitable<void> execute_and_answer(Work& work);
  asio::awaitable<void> measure_and_answer(Work& work);
  asio::awaitable<void> ask_executor(Work& work);
  asio::awaitable<bool> serve_lease(const Work& work);
  asio::awaitable<void> tell_queue(std::uint32_t id, const LeaseListing& listing);
  asio::awaitable<void> tell_beside(std::uint32_t id);
  asio::awaitable<void> progress(std::uint32_t id, const wire::ResponseT& response);
  BoardActivity* activity() const { return share_.memory.board ? share_.activity : nullptr; }
  asio::awaitable<std::string> run_again(const Work& work, milliseconds most);
  asio::awaitable<void> look_into(const Work& work, const Attachments& attachments,
                                  const wire::ResponseT& response, Finish finish);
  asio::awaitable<void> watch_parent();
  asio::awaitable<void> watch_idleness();
  asio::awaitable<void> respond(std::uint32_t id, const wire::ResponseT& response);
  asio::awaitable<void> farewell(ErrorKind kind, std::string message);
  wire::BoardDescriptionT describe(bool gpus);
  milliseconds deadline_of(const wire::RequestT& request) const;
  void report_gaps();
  void forget_loaded();
  void report_load(const wire::LoadModuleT& load, const wire::ResponseT& response);
  void end_because(const std::string& why);
  void spawn(asio::awaitable<void> task);

  asio::io_context& io_;
  const ServeOptions& options_;
  ssl_ctx_st* tls_;
  asio::posix::stream_descriptor parent_;
  Socket connection_;
  std::unique_ptr<FrameChannel> channel_;
  SessionMemory memory_;
  std::deque<Work> queue_;
  Signal work_ready_;
  asio::steady_timer idle_timer_;
  ExecutorSetup setup_;
  ExecutorProcess executor_;
  FaultDiagnosis diagnosis_;
  std::optional<std::uint32_t> discarded_id_;    // data frames of a request that failed
  std::optional<wire::BoardDescriptionT> gpus_;  // asked for once a session
  Log log_;
  SessionSegments segments_;
  SessionLease lease_;
  SessionShare share_;
  MeasuredBeside beside_;
  bool client_knows_leases_ = false;
  ServerKeys::Offer key_;  ///< that the peer has shown to hold
  std::optional<Clock::time_point> started_;
  std::string end_;  // why it ends; the first reason is the one
  Clock::time_point last_activity_ = Clock::now();
  bool gaps_reported_ = false;
  bool executing_ = false;
  bool shutting_down_ = false;
  bool stopped_ = false;
};

void Session::spawn(asio::awaitable<void> task) {
  asio::co_spawn(io_, std::move(task), [this](std::exception_ptr failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const Error& error) {
      end_because(error.what());
    } catch (const std::exception&) {
      // The connection broke; whoever reads from it says so.
    }
    stop();
  });
}

void Session::stop() noexcept {
  if (stopped_) return;
  stopped_ = true;
  std::error_code ignored;
  if (channel_) channel_->close();
  connection_.close(ignored);
  parent_.close(ignored);
  idle_timer_.cancel();
  executor_.kill();
  diagnosis_.kill();
  memory_.close();
  lease_.close("the session ends");
  work_ready_.notify_all();
}

void Session::end_because(const std::string& why) {
  if (end_.empty()) end_ = why;
}

void Session::report_end() {
  if (!started_) return;
  const std::chrono::duration<double> lasted = Clock::now() - *started_;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3f", lasted.count());
  log_.info("session ended after " + std::string(seconds) +
            " s: " + (end_.empty() ? "the client closed the connection" : end_));
}

/// What of an executor's confinement this system does not offer: once a session.
void Session::report_gaps() {
  if (gaps_reported_) return;
  gaps_reported_ = true;
  if (const int error = executor_.exec_error(); error != 0)
    log_.info(
        std::string("executors are forks of their session, with its memory and addresses: the system does "
                    "not execute gantry-device anew (") +
        std::strerror(error) + ")");
  if (const int error = executor_.fork_error(); error != 0)
    log_.info(std::string("modules could start processes: the system does not filter system calls (") +
              std::strerror(error) + ")");
}

void Session::report_load(const wire::LoadModuleT& load, const wire::ResponseT& response) {
  const std::string parts = load.whole ? "" : " of " + std::to_string(load.segments.size()) + " segments";
  const std::string what = "module" + parts + " for " + load.device;
  if (const auto* loaded = response.body.AsModuleLoaded())
    log_.info(what + " loaded: target " + loaded->target + ", handle " + std::to_string(loaded->handle));
  else if (const auto* failure = response.body.AsFailure())
    log_.warning(what + " not loaded: " + failure->message);
}

/// TLS and the version exchange, under one deadline. False: the peer has had its answer and goes.
asio::awaitable<bool> Session::open() {
  Watchdog watchdog(io_.get_executor(), options_.handshake_timeout, [this] {
    end_because("it did not authenticate in time");
    stop();
  });
  std::error_code not_tcp;
  connection_.set_option(tcp::no_delay(true), not_tcp);
  notice_vanished_peer(connection_.native_handle(), options_.stall_timeout);
  if (tls_) {
    auto stream = std::make_unique<TlsStream>(std::move(connection_), tls_, TlsStream::Role::kServer);
    TlsStream* handshaker = stream.get();
    channel_ = std::make_unique<FrameChannel>(std::move(stream));
    co_await handshaker->handshake();
    key_ = keys_of(tls_).offer();
    keys_of(tls_).forget();
    log_.set_key(key_.identity);
  } else {
    channel_ = std::make_unique<FrameChannel>(make_plain_stream(std::move(connection_)));
  }
  const auto header = co_await channel_->read_header(kMaxHelloBytes);
  if (!header) co_return false;
  const Bytes payload = co_await channel_->read_payload(*header);
  if (header->type != FrameType::kRequest) co_return false;
  const wire::RequestT request = decode_request(payload);
  const wire::HelloT* hello = request.body.AsHello();
  std::optional<wire::ResponseT> refusal;
  if (!hello)
    refusal = make_failure(ErrorKind::kBug, "the first message must be a hello");
  else if (hello->version_min > kProtocolVersion || hello->version_max < kProtocolVersion)
    refusal = make_failure(ErrorKind::kRequest,
                           "the board speaks protocol version " + std::to_string(kProtocolVersion) +
                               ", this client does not: use the same version of gantry and gantry-device");
  else
    refusal = co_await ask_admission(parent_, key_, options_.max_sessions);
  if (refusal) {
    log_.warning("refused: " + refusal->body.AsFailure()->message);
    co_await respond(header->id, *refusal);
    co_return false;
  }
  client_knows_leases_ = (hello->features & kFeatureLeases) != 0;
  if (activity()) activity()->open(share_.memory.slot, key_.identity, log_.peer_address());
  wire::WelcomeT welcome;
  welcome.version = kProtocolVersion;
  welcome.features = kFeatureLongResults | kFeatureLeases;
  welcome.server = "gantry-device";
  started_ = Clock::now();
  channel_->set_stall_timeout(options_.stall_timeout);
  log_.info("session started by client '" + hello->client + "'");
  co_await respond(header->id, make_response(std::move(welcome)));
  co_return true;
}

asio::awaitable<void> Session::main() {
  bool opened = false;
  std::optional<Error> complaint;
  try {
    opened = co_await open();
  } catch (const TlsError& error) {
    log_.warning("authentication failed: " + complaint_about(keys_of(tls_).offer(), error));
  } catch (const Error& error) {
    complaint = error;
  } catch (const std::system_error& error) {
    log_.info("went before its session had started: " + (end_.empty() ? error.code().message() : end_));
  }
  if (complaint) {
    log_.warning(std::string("refused: ") + complaint->what());
    co_await farewell(complaint->kind(), complaint->what());
  }
  if (!opened || stopped_) {
    stop();
    co_return;
  }
  last_activity_ = Clock::now();
  if (parent_.is_open()) spawn(watch_parent());
  spawn(watch_idleness());
  spawn(execute_requests());
  co_await read_requests();
}

asio::awaitable<void> Session::respond(std::uint32_t id, const wire::ResponseT& response) {
  Bytes frame;
  try {
    frame = encode_response(id, response);
  } catch (const Error& error) {
    frame = encode_response(id, make_failure(error.kind(), error.what()));
  }
  co_await channel_->write(id, frame);
}

/// Says why the connection ends, if the peer still listens, and ends it.
asio::awaitable<void> Session::farewell(ErrorKind kind, std::string message) {
  end_because(message);
  Watchdog watchdog(io_.get_executor(), milliseconds(1000), [this] { stop(); });
  try {
    co_await respond(0, make_failure(kind, message));
  } catch (const std::exception&) {
  }
  stop();
}

asio::awaitable<void> Session::read_requests() {
  std::optional<std::string> complaint;
  try {
    while (!stopped_) {
      const auto header = co_await channel_->read_header();
      if (!header) co_return;
      last_activity_ = Clock::now();
      co_await handle(*header);
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) complaint = error.what();
    end_because(error.what());
  } catch (const std::exception& error) {
    end_because(std::string("the connection broke: ") + error.what());
  }
  if (complaint) co_await farewell(ErrorKind::kBug, *complaint);
}

asio::awaitable<void> Session::handle(const FrameHeader& header) {
  Bytes frame(kFrameHeaderSize + header.length);
  const FrameHeaderBytes bytes = encode_header(header);
  std::copy(bytes.begin(), bytes.end(), frame.begin());
  co_await channel_->read_payload(asio::buffer(frame) + kFrameHeaderSize);
  if (header.type == FrameType::kData && discarded_id_ == header.id) co_return;
  if (header.type != FrameType::kRequest)
    throw Error(ErrorKind::kBug, "a frame came that belongs to no request");
  if (header.id == 0) throw Error(ErrorKind::kBug, "a request has the id 0");
  discarded_id_.reset();
  std::optional<wire::ResponseT> failure;
  try {
    co_await handle_request(header.id, decode_request(std::span(frame).subspan(kFrameHeaderSize)),
                            std::move(frame));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug || error.kind() == ErrorKind::kReconnect) throw;
    failure = make_failure(error);
  }
  if (failure) {
    wire::FailureT& told = *failure->body.AsFailure();
    if (told.unsupported) told.message += "; its version is " + std::string(gantry_version());
    discarded_id_ = header.id;
    co_await respond(header.id, *failure);
  }
}

asio::awaitable<void> Session::handle_request(std::uint32_t id, wire::RequestT request, Bytes frame) {
  switch (request.body.type) {
    case wire::RequestBody::Ping:
      co_return co_await respond(id, make_response(wire::PongT{}));
    case wire::RequestBody::GetBoardInfo:
      co_return co_await respond(id, make_response(describe(request.body.AsGetBoardInfo()->gpus)));
    case wire::RequestBody::QuerySegments:
      co_return co_await respond(id, make_response(segments_.states_of(*request.body.AsQuerySegments())));
    case wire::RequestBody::GetLeases: {
      const LeaseListing listing = co_await lease_.state();
      co_return co_await respond(id, make_response(to_wire(listing)));
    }
    case wire::RequestBody::UploadSegment: {
      const Doing doing(activity(), share_.memory.slot, Activity::kTransfer);
      co_await segments_.receive(*channel_, id, *request.body.AsUploadSegment(),
                                 [this] { last_activity_ = Clock::now(); });
    }
      co_return co_await respond(id, make_response(wire::DoneT{}));
    case wire::RequestBody::Hello:
      throw Error(ErrorKind::kRequest, "this session has begun already: it takes no second hello");
    case wire::RequestBody::LoadModule:
    case wire::RequestBody::UnloadModule:
    case wire::RequestBody::SetInput:
    case wire::RequestBody::Run:
    case wire::RequestBody::GetOutput:
    case wire::RequestBody::Benchmark:
    case wire::RequestBody::TakeLease:
    case wire::RequestBody::JoinLease:
    case wire::RequestBody::ReleaseLease:
      co_return co_await enqueue(id, std::move(request), std::move(frame));
    case wire::RequestBody::NONE:
      break;  // decode_request lets none through
  }
}

wire::BoardDescriptionT Session::describe(bool gpus) {
  wire::BoardDescriptionT board = describe_board(options_);
  if (!gpus) return board;
  if (!gpus_) {
    gpus_.emplace();
    add_gpus(*gpus_);
  }
  board.gpus.clear();
  for (const auto& gpu : gpus_->gpus) board.gpus.push_back(std::make_unique<wire::GpuDescriptionT>(*gpu));
  board.gpu_problem = gpus_->gpu_problem;
  return board;
}

milliseconds Session::deadline_of(const wire::RequestT& request) const {
  std::uint32_t asked = 0;
  if (const auto* run = request.body.AsRun()) asked = run->deadline_ms;
  if (const auto* benchmark = request.body.AsBenchmark()) asked = benchmark->deadline_ms;
  return asked > 0 ? std::min(milliseconds(asked), options_.deadline) : options_.deadline;
}

asio::awaitable<void> Session::enqueue(std::uint32_t id, wire::RequestT request, Bytes frame) {
  // Until there is room nothing more is read.
  SessionMemory::Hold hold = co_await memory_.reserve(request, frame.size());
  if (stopped_) co_return;
  const milliseconds deadline = deadline_of(request);
  Work work{id, std::move(request), std::move(frame), UniqueFd(), deadline, std::move(hold)};
  if (auto* benchmark = work.request.body.AsBenchmark()) {
    // The executor stops between samples before the deadline that holds, whatever was asked for.
    benchmark->deadline_ms = to_milliseconds(work.deadline);
    work.frame = encode_request(id, work.request);
  }
  if (const std::uint64_t size = following_bytes(work.request); size > 0) {
    const Doing doing(activity(), share_.memory.slot, Activity::kTransfer);
    SharedMemory memory(size);
    std::uint64_t done = 0;
    co_await channel_->read_data(
        id, size,
        [&](std::size_t length) {
          memory.populate(done, length, MADV_POPULATE_WRITE);
          const auto piece = asio::buffer(memory.data() + done, length);
          done += length;
          return piece;
        },
        [&](asio::const_buffer piece) {
          work.memory.arrived(piece.size());
          last_activity_ = Clock::now();
        });
    work.data = memory.take();
  }
  while (queue_.size() >= kMaxQueuedRequests && !stopped_) co_await work_ready_.wait();
  queue_.push_back(std::move(work));
  work_ready_.notify_all();
}

asio::awaitable<void> Session::execute_requests() {
  while (!stopped_ && !shutting_down_) {
    if (queue_.empty()) {
      co_await work_ready_.wait();
      continue;
    }
    Work work = std::move(queue_.front());
    queue_.pop_front();
    work_ready_.notify_all();
    executing_ = true;
    co_await execute(std::move(work));
    executing_ = false;
    last_activity_ = Clock::now();
  }
  if (!stopped_) co_await farewell(ErrorKind::kReconnect, kShuttingDown);
}

/// What the executor needs beside the request, and has neither a path nor a right to open itself.
Attachments Session::attachments_of(Work& work) {
  Attachments attachments;
  if (work.data) attachments.push_back(std::move(work.data));
  if (const wire::LoadModuleT* load = work.load(); load && !load->whole) segments_.attach(*load, attachments);
  return attachments;
}

asio::awaitable<void> Session::execute(Work work) {
  std::optional<wire::ResponseT> failure;
  try {
    if (!co_await serve_lease(work)) co_await execute_and_answer(work);
  } catch (const Error& error) {
    if (stopped_) co_return;
    if (channel_->closed()) throw;  // nobody is there to be answered
    failure = make_failure(error.kind() == ErrorKind::kBug ? ErrorKind::kBoard : error.kind(), error.what());
  }
  if (failure && work.handed_over && !executor_.running()) {
    // It was killed: by its deadline, or by a signal.
    log_.warning("executor ended: " + failure->body.AsFailure()->message);
    if (executor_.died_in_a_graph())
      failure->body.AsFailure()->message += co_await run_again(work, milliseconds(10'000));
    forget_loaded();
  }
  if (failure) co_await respond(work.id, *failure);
}

asio::awaitable<void> Session::execute_and_answer(Work& work) {
  const wire::LoadModuleT* load = work.load();
  if (!load && !executor_.running())
    throw Error(ErrorKind::kRequest, "no module is loaded in this session (any more): load it first");
  memory_.check_kept(work.request);
  if (work.request.body.AsBenchmark()) co_return co_await measure_and_answer(work);
  const Activity what = load                        ? Activity::kLoad
                        : work.request.body.AsRun() ? Activity::kRun
                                                    : Activity::kTransfer;
  const Doing doing(activity(), share_.memory.slot, what);
  if (load) executor_.require_handle();
  if (load && is_on_gpu(*load) && setup_.gpus.empty())
    setup_.gpus = encode_response(0, make_response(describe(true)));
  co_await ask_executor(work);
}

/// Waits for its turn to measure, and says what was done beside it.
asio::awaitable<void> Session::measure_and_answer(Work& work) {
  // A session that has chosen no lease has one for the while, of a client that may know nothing of leases:
  // that waits for its own deadline, of which measuring gets the rest.
  const milliseconds waited = co_await lease_.begin(
      work.deadline / 2, [&](const LeaseListing& listing) { return tell_queue(work.id, listing); });
  const Measuring measuring(lease_);
  if (stopped_) throw Error(ErrorKind::kReconnect, "the session ends");
  if (!lease_.chosen() && waited > milliseconds(1000)) {
    work.deadline -= waited;
    work.request.body.AsBenchmark()->deadline_ms = to_milliseconds(work.deadline);
    work.frame = encode_request(work.id, work.request);
  }
  beside_.begin(waited);
  co_await ask_executor(work);
}

asio::awaitable<void> Session::progress(std::uint32_t id, const wire::ResponseT& response) {
  co_await channel_->write(id, encode_response(id, response, FrameType::kProgress));
}

asio::awaitable<void> Session::tell_queue(std::uint32_t id, const LeaseListing& listing) {
  if (client_knows_leases_) co_await progress(id, make_response(to_wire(listing)));
}

asio::awaitable<void> Session::tell_beside(std::uint32_t id) {
  if (!client_knows_leases_) co_return;
  if (auto told = beside_.told()) co_await progress(id, make_response(std::move(*told)));
}

/// What needs no executor. False: the request is another one.
asio::awaitable<bool> Session::serve_lease(const Work& work) {
  if (const auto* take = work.request.body.AsTakeLease()) {
    const LeaseAnswer answer = co_await lease_.take(
        *take, [&](const LeaseListing& listing) { return tell_queue(work.id, listing); });
    wire::LeaseTakenT taken;
    taken.token = answer.token;
    taken.turn_ms = answer.turn_ms;
    taken.waited_ms = answer.waited_ms;
    co_await respond(work.id, make_response(taken));
    co_return true;
  }
  const auto* join = work.request.body.AsJoinLease();
  if (!join && !work.request.body.AsReleaseLease()) co_return false;
  if (join)
    co_await lease_.join(join->token);
  else
    lease_.release();
  co_await respond(work.id, make_response(wire::DoneT{}));
  co_return true;
}

/// Hands the request to the executor, and its answer to the client.
asio::awaitable<void> Session::ask_executor(Work& work) {
  const wire::LoadModuleT* load = work.load();
  const Attachments attachments = attachments_of(work);
  work.handed_over = true;
  auto reply =
      co_await executor_.call(work.frame, attachments, work.deadline,
                              [this, &work](const Bytes& frame) { return channel_->write(work.id, frame); });
  const wire::ResponseT response = decode_response(std::span(reply.frame).subspan(kFrameHeaderSize));
  executor_.check_handle(load != nullptr, response);
  co_await look_into(work, attachments, response, reply.finish);
  if (executor_.running()) {
    memory_.note(work.request, response, work.memory);
    segments_.note(work.request, response);
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
  co_await channel_->write(work.id, reply.frame, memory.bytes());
}

/// The executor has ended, and all that was loaded with it.
void Session::forget_loaded() {
  diagnosis_.forget();
  memory_.forget();
  segments_.forget_loaded();
}

/// What a fresh executor finds out about the run that failed.
asio::awaitable<std::string> Session::run_again(const Work& work, milliseconds most) {
  std::uint32_t handle = 0;
  if (const auto* run = work.request.body.AsRun()) handle = run->handle;
  if (const auto* benchmark = work.request.body.AsBenchmark()) handle = benchmark->handle;
  co_return co_await diagnosis_.run_again(handle, std::min(work.deadline, most));
}

/// Keeps what a fault on a GPU is traced with, or traces one: then throws the error with what was found.
asio::awaitable<void> Session::look_into(const Work& work, const Attachments& attachments,
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

asio::awaitable<void> Session::watch_parent() {
  std::array<std::byte, std::max(sizeof(LeaseListing), sizeof(LeaseAnswer))> message{};
  // Fails, and so ends the session, when the parent is gone.
  while (!stopped_) {
    std::error_code gone;
    const std::size_t size = co_await parent_.async_read_some(
        asio::buffer(message), asio::redirect_error(asio::use_awaitable, gone));
    const auto byte = static_cast<char>(message[0]);
    if (gone || size == 0) {
      lease_.close("its server is gone");
      if (!stopped_) end_because("its server is gone");
      co_return;
    }
    if (byte == kLeaseAnswer || byte == kLeaseListing) {
      lease_.hear(std::span(message).first(size));
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
    shutting_down_ = true;
    lease_.close(kShuttingDown);
    work_ready_.notify_all();
  }
}

asio::awaitable<void> Session::watch_idleness() {
  while (!stopped_) {
    const auto idle = executing_ || !queue_.empty() ? Clock::duration::zero() : Clock::now() - last_activity_;
    if (idle >= options_.idle_timeout) {
      co_await farewell(ErrorKind::kReconnect, "the session was idle for too long");
      co_return;
    }
    idle_timer_.expires_after(options_.idle_timeout - idle);
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
