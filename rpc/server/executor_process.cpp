#include "rpc/server/executor_process.h"

#include "rpc/server/descriptor_message.h"
#include "rpc/signal_name.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;

/// Between asking an executor to say where it is and killing it.
constexpr milliseconds kReportTime{200};

std::string signal_text(int number) {
  return signal_name(number) + " (" + ::strsignal(number) + ")";
}

}  // namespace

ExecutorProcess::ExecutorProcess(asio::any_io_executor executor, const ExecutorSetup& setup)
    : executor_(std::move(executor)), setup_(setup) {}

ExecutorProcess::~ExecutorProcess() {
  kill();
}

void ExecutorProcess::start() {
  if (!step_) step_.emplace();
  StepMemory& step = *step_;
  step->filled = 0;
  step->finished = 0;
  step->exec_error = 0;
  step->fork_error = 0;
  knows_gpus_ = false;
  ExecutorSetup setup = setup_;
  setup.limits.first_handle = handles_.next();
  const auto refused = [] {
    return Error(ErrorKind::kBoard,
                 std::string("the board cannot start an executor: ") + std::strerror(errno));
  };
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw refused();
  UniqueFd ours(ends[0]), theirs(ends[1]);
  child_ = start_executor(setup, theirs.get(), step);
  if (!child_.running()) throw refused();
  socket_.emplace(executor_, ours.release());
  socket_->native_non_blocking(true);
}

void ExecutorProcess::kill() noexcept {
  child_.kill();
  std::error_code ignored;
  if (socket_) socket_->close(ignored);
}

void ExecutorProcess::check_handle(bool loads, const wire::ResponseT& answer) {
  const auto* module = answer.body.AsModuleLoaded();
  if (!module) return;
  try {
    if (!loads) throw Error(ErrorKind::kBoard, "the module's process answered a request that nobody made");
    handles_.accept(module->handle);
  } catch (const Error&) {
    kill();
    throw;
  }
}

asio::awaitable<void> ExecutorProcess::send(const Bytes& frame, const Attachments& attachments) {
  std::vector<int> descriptors;
  for (const UniqueFd& file : attachments) descriptors.push_back(file.get());
  OutgoingFrame outgoing(frame, std::move(descriptors));
  while (!outgoing.done()) {
    if (outgoing.send_some(socket_->native_handle(), MSG_DONTWAIT) >= 0) continue;
    if (errno != EAGAIN && errno != EINTR) throw std::system_error(errno, std::generic_category());
    co_await socket_->async_wait(asio::posix::stream_descriptor::wait_write, asio::use_awaitable);
  }
}

/// Exactly `size` bytes, or 0 at the end of the stream. A reply has one descriptor at most.
asio::awaitable<std::size_t> ExecutorProcess::receive(void* buffer, std::size_t size,
                                                      std::vector<UniqueFd>& payload) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = receive_with_descriptors(
        socket_->native_handle(), static_cast<char*>(buffer) + done, size - done, payload, 1, MSG_DONTWAIT);
    if (count == 0) co_return 0;
    if (count < 0) {
      if (errno == ECONNRESET) co_return 0;
      if (errno != EAGAIN && errno != EINTR) throw std::system_error(errno, std::generic_category());
      co_await socket_->async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
      continue;
    }
    done += static_cast<std::size_t>(count);
  }
  co_return done;
}

/// None if the executor is gone.
asio::awaitable<std::optional<ExecutorProcess::Reply>> ExecutorProcess::receive_reply() {
  Reply reply;
  std::vector<UniqueFd> payload;
  FrameHeaderBytes bytes;
  if (co_await receive(bytes.data(), bytes.size(), payload) == 0) co_return std::nullopt;
  const FrameHeader header = decode_header(bytes);
  reply.frame.resize(kFrameHeaderSize + header.length);
  std::copy(bytes.begin(), bytes.end(), reply.frame.begin());
  if (header.length > 0 &&
      co_await receive(reply.frame.data() + kFrameHeaderSize, header.length, payload) == 0)
    co_return std::nullopt;
  if (!payload.empty()) reply.payload = std::move(payload.front());
  co_return reply;
}

/// Apart from the executor's own socket: it is the client's connection that broke here.
asio::awaitable<void> ExecutorProcess::told(const OnProgress& on_progress, const Bytes& frame) {
  try {
    co_await on_progress(frame);
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::kReconnect, "the connection broke: " + error.code().message());
  }
}

asio::awaitable<ExecutorProcess::Reply> ExecutorProcess::call(const Bytes& frame,
                                                              const Attachments& attachments,
                                                              milliseconds deadline,
                                                              const OnProgress& on_progress) {
  if (!running()) start();
  const FrameHeader request =
      decode_header(std::span<const std::uint8_t, kFrameHeaderSize>(frame.data(), kFrameHeaderSize));
  Watchdog ask(executor_, deadline, [this] { child_.signal(kDeadlineSignal); });
  Watchdog force(executor_, deadline + kReportTime, [this] { child_.signal(SIGKILL); });
  try {
    if (!knows_gpus_ && !setup_.gpus.empty()) {
      co_await send(setup_.gpus, {});
      knows_gpus_ = true;
    }
    co_await send(frame, attachments);
    while (auto reply = co_await receive_reply()) {
      const FrameHeader header = decode_header(
          std::span<const std::uint8_t, kFrameHeaderSize>(reply->frame.data(), kFrameHeaderSize));
      if (header.id != request.id) throw Error(ErrorKind::kBug, "the executor answered another request");
      if (header.type == FrameType::kResponse) {
        reply->finish = static_cast<Finish>((*step_)->finished.load());
        if (reply->finish != kGoesOn) kill();
        co_return std::move(*reply);
      }
      if (header.type != FrameType::kProgress)
        throw Error(ErrorKind::kBug, "the executor sent a frame of a wrong kind");
      decode_response(std::span(reply->frame).subspan(kFrameHeaderSize));
      co_await told(on_progress, reply->frame);
    }
  } catch (const Error&) {
    kill();  // what runs there overwrote the executor's own memory, or the client is gone
    throw;
  } catch (const std::system_error&) {
    // The socket broke: the executor is dead or dying.
  }
  report_death(ask.expired(), deadline);
}

void ExecutorProcess::report_death(bool deadline_passed, milliseconds deadline) {
  // It closed its socket, so it is dead or means to be.
  const std::optional<int> ended = child_.kill();
  if (!ended) throw Error(ErrorKind::kReconnect, "the session ended");
  const int status = *ended;
  kill();
  const std::string where = place_text(**step_);
  if (deadline_passed)
    throw Error(ErrorKind::kBoard,
                "the module was stopped " + where + ": it had not finished after its deadline of " +
                    std::to_string(deadline.count() / 1000.0).substr(0, 6) + " s; load it again");
  if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
    throw Error(ErrorKind::kBoard,
                "the module crashed " + where + " with " + signal_text(WTERMSIG(status)) + "; load it again");
  if (WIFSIGNALED(status))
    throw Error(ErrorKind::kBoard,
                "the module's process was killed " + where +
                    " (SIGKILL), most likely because the board ran out of memory; load it again");
  throw Error(ErrorKind::kBoard, "the module ended its process " + where + " with exit code " +
                                     std::to_string(WEXITSTATUS(status)) + "; load it again");
}

}  // namespace gantry::rpc
