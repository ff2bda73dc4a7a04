#include "rpc/server/parent_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "rpc/server/board_info.h"
#include "rpc/server/first_byte.h"
#include "rpc/server/rights.h"
#include "rpc/server/session.h"
#include "rpc/server/signals.h"

namespace gantry::rpc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAcceptBackoff{100};
/// The parent's patience beyond a child's own handshake deadline.
constexpr milliseconds kHandshakeSlack{1000};
/// For sessions to tell their clients, between the end of the grace and SIGKILL.
constexpr milliseconds kFarewellTime{1500};
/// Turns within a handshake's time: a handshake takes a few round trips.
constexpr int kTurns = 4;
/// How long a key that is gone may still have sessions; they are told then, so this and kFarewellTime bound
/// it.
constexpr milliseconds kKeyCheckInterval{500};
/// Lines about strangers: at once, and a second in the long run.
constexpr double kReportBurst = 100, kReportRate = 20;

bool has_terminal() {
  return static_cast<bool>(UniqueFd(::open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY)));
}

}  // namespace

ParentProcess::ParentProcess(const ServeOptions& options, UniqueFd listener, std::unique_ptr<KeyStore> keys)
    : options_(options),
      listener_(std::move(listener)),
      keys_(std::move(keys)),
      tls_(keys_ ? make_server_context(keys_->keys()) : nullptr),
      memory_(data_memory(options)),
      leases_(
          lease_terms(), options.urgent_keys,
          [this](LeaseDesk::SessionId child, std::span<const std::byte> message) {
            send_to(static_cast<pid_t>(child), message);
          },
          [this](LeaseDesk::SessionId child, const std::string& event) {
            report_lease(static_cast<pid_t>(child), event);
          }),
      waiting_({options.max_waiting_peers, options.max_waiting_of_one_address}),
      places_({options.max_handshakes, options.max_handshakes_of_one_address},
              options.handshake_timeout / kTurns),
      report_budget_(kReportBurst, kReportRate),
      log_(options.log_level) {
  ignore_signal(SIGPIPE);
  std::vector<int> signals = {SIGINT, SIGTERM, SIGCHLD};
  // A terminal that closes ends the server as it does any program; without one SIGHUP is for daemons.
  if (!has_terminal()) signals.push_back(SIGHUP);
  signals_ = open_signal_pipe(signals);
}

void ParentProcess::announce(AnnouncedService service) {
  announcement_.emplace(std::move(service), log_);
}

int ParentProcess::run() {
  while (!force_at_ || !children_.empty()) {
    if (announcement_) announcement_->start_if_due(Clock::now());
    poll_once();
    expire();
    start_sessions();
  }
  log_.info("stopped");
  return 0;
}

int ParentProcess::next_timeout() const {
  const auto now = Clock::now();
  auto next = now + std::chrono::hours(1);
  if (!waiting_.peers().empty()) next = std::min(next, waiting_.peers().front().deadline);
  if (waiting_.any_has_spoken()) next = std::min(next, places_.next_turn(now).value_or(next));
  for (const Child& child : children_) {
    if (!child.admitted && !child.killed) next = std::min(next, child.handshake_deadline);
    if (child.kill_at && !child.killed) next = std::min(next, *child.kill_at);
    if (child.key != 0) next = std::min(next, keys_checked_ + kKeyCheckInterval);
  }
  if (accept_after_ > now) next = std::min(next, accept_after_);
  if (announcement_) next = std::min(next, announcement_->start_at().value_or(next));
  next = std::min(next, leases_.next_change(now).value_or(next));
  if (force_at_ && !kill_at_) next = std::min(next, *force_at_);
  if (kill_at_ && *kill_at_ > now) next = std::min(next, *kill_at_);
  const auto wait = std::chrono::duration_cast<milliseconds>(next - now).count() + 1;
  return static_cast<int>(std::clamp<long long>(wait, 0, 3'600'000));
}

void ParentProcess::poll_once() {
  constexpr std::size_t kFirstPeer = 3;
  std::vector<pollfd> fds;
  fds.push_back({signals_, POLLIN, 0});
  // A negative descriptor is ignored by poll().
  fds.push_back({accept_after_ > Clock::now() ? -1 : listener_.get(), POLLIN, 0});
  fds.push_back({announcement_ ? announcement_->descriptor() : -1, POLLIN, 0});
  auto& peers = waiting_.peers();
  const std::size_t peer_count = peers.size(), child_count = children_.size();
  // What those have sent who wait for a place stays unread, so only their going is news.
  for (const WaitingPeer& peer : peers)
    fds.push_back({peer.connection.get(), static_cast<short>(peer.has_spoken ? POLLRDHUP : POLLIN), 0});
  for (const Child& child : children_) fds.push_back({child.control.get(), POLLIN, 0});
  if (::poll(fds.data(), fds.size(), next_timeout()) <= 0) return;

  for (std::size_t i = 0; i < child_count; ++i)
    if (fds[kFirstPeer + peer_count + i].revents != 0) answer_child(children_[i]);
  std::deque<WaitingPeer> still_waiting;
  for (std::size_t i = 0; i < peer_count; ++i)
    if (fds[kFirstPeer + i].revents == 0 || still_waits(peers[i]))
      still_waiting.push_back(std::move(peers[i]));
  peers = std::move(still_waiting);
  if (fds[2].revents != 0) announcement_->read(Clock::now());
  if (fds[0].revents != 0) read_signals();
  if (fds[1].revents != 0 && listener_) accept_some();
}

void ParentProcess::accept_some() {
  for (int i = 0; i < 64; ++i) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    UniqueFd connection(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length,
                                  SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        // Out of descriptors or memory: make some room, and do not spin on the connection that waits.
        waiting_.drop_one("the system has no room for more");
        accept_after_ = Clock::now() + kAcceptBackoff;
      }
      return;
    }
    Log log = log_of(connection.get());
    log.info("connected");
    waiting_.add({std::move(connection), source_of(address), Clock::now() + options_.handshake_timeout,
                  std::move(log)});
  }
}

/// The log for a new peer; it reports nothing but errors where too many come.
Log ParentProcess::log_of(int connection) {
  if (!report_budget_.take(Clock::now())) return Log(LogLevel::kError, peer_of(connection));
  if (const std::size_t left_out = report_budget_.take_left_out(); left_out > 0)
    log_.warning(std::to_string(left_out) + " connections came too fast to report each of them");
  return Log(options_.log_level, peer_of(connection));
}

/// Something has come from it, or it is gone.
bool ParentProcess::still_waits(WaitingPeer& peer) {
  if (peer.has_spoken) {
    peer.log.info("disconnected before its turn to authenticate");
    return false;
  }
  const Visitor visitor = look_at_first_byte(peer.connection.get(), tls_ != nullptr, peer.log);
  peer.has_spoken = visitor == Visitor::kClient;
  return visitor != Visitor::kGone;
}

void ParentProcess::expire() {
  const auto now = Clock::now();
  waiting_.expire(now);
  places_.free_unused(now);
  if (force_at_ && *force_at_ <= now && !kill_at_) force_shutdown();
  const bool in_use =
      std::any_of(children_.begin(), children_.end(), [](const Child& child) { return child.key != 0; });
  if (in_use && keys_checked_ + kKeyCheckInterval <= now) check_keys();
  leases_.advance(now);
  for (const LeaseDesk::SessionId hanging : leases_.overdue(now))
    for (Child& child : children_)
      if (child.id == hanging && !child.kill_at) {
        child.log.warning("measures for longer than --deadline allows");
        child.kill_at = now;
      }
  for (Child& child : children_) {
    const bool late =
        (!child.admitted && child.handshake_deadline <= now) || (child.kill_at && *child.kill_at <= now);
    if (child.killed || !(late || (kill_at_ && *kill_at_ <= now))) continue;
    child.process.signal(SIGKILL);
    child.killed = true;
  }
}

void ParentProcess::read_signals() {
  char bytes[64];
  const ssize_t count = ::read(signals_, bytes, sizeof bytes);
  for (ssize_t i = 0; i < count; ++i) {
    if (bytes[i] == SIGHUP) read_keys_again();
    if (bytes[i] == SIGINT || bytes[i] == SIGTERM) begin_shutdown(bytes[i]);
  }
  reap();
}

/// First asks the sessions to finish what runs; a second signal, or the end of the grace, ends them.
void ParentProcess::begin_shutdown(int signal) {
  const std::string name = signal == SIGINT ? "SIGINT" : "SIGTERM";
  if (force_at_) {
    log_.info(name + " again: not waiting for running requests");
    force_at_ = Clock::now();
    return;
  }
  const auto sessions =
      std::count_if(children_.begin(), children_.end(), [](const Child& child) { return child.admitted; });
  log_.info(name + ": shutting down; " + std::to_string(sessions) + " sessions may finish what runs within " +
            std::to_string(options_.shutdown_grace.count()) + " ms");
  force_at_ = Clock::now() + options_.shutdown_grace;
  listener_.reset();
  announcement_.reset();
  waiting_.peers().clear();
  for (Child& child : children_) {
    if (!child.admitted)
      child.process.signal(SIGKILL);
    else
      (void)::send(child.control.get(), &kShutDown, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

/// Has the sessions tell their clients and end; those that do not are killed.
void ParentProcess::force_shutdown() {
  kill_at_ = Clock::now() + kFarewellTime;
  for (const Child& child : children_)
    if (child.admitted) (void)::send(child.control.get(), &kEndNow, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// A session that did not end by itself or by our SIGKILL has a bug: its peer only sees that it is gone.
void ParentProcess::reap() {
  std::vector<pid_t> gone;
  std::erase_if(children_, [&](Child& child) {
    const std::optional<int> ended = child.process.wait_if_ended();
    if (!ended && child.process.running()) return false;
    places_.ended(child.id);
    if (child.memory_slot) activity_.close(*child.memory_slot);
    if (child.memory_slot) memory_.free_slot(*child.memory_slot);
    gone.push_back(child.id);
    if (!ended) return true;
    const int status = *ended;
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
      child.log.error(std::string("a session crashed: ") + ::strsignal(WTERMSIG(status)) +
                      "; please report this");
    else if (WIFSIGNALED(status))
      child.log.warning(child.admitted ? "session ended by force" : "ended: it had not authenticated");
    else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
      child.log.error("a session failed with exit code " + std::to_string(WEXITSTATUS(status)));
    return true;
  });
  // Its executor died with it: the next one may measure.
  for (const pid_t child : gone) leases_.leave(child, Clock::now());
}

LeaseTerms ParentProcess::lease_terms() const {
  constexpr milliseconds kSlack{30'000};
  LeaseTerms terms = options_.lease;
  terms.longest_measurement = options_.deadline + kSlack;
  return terms;
}

void ParentProcess::send_to(pid_t id, std::span<const std::byte> message) {
  for (Child& child : children_) {
    if (child.id != id || !child.control) continue;
    const ssize_t sent =
        ::send(child.control.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != static_cast<ssize_t>(message.size())) child.control.reset();  // it does not read: it ends
  }
}

/// The one whose lease it was may have ended with it.
void ParentProcess::report_lease(pid_t id, const std::string& event) {
  const std::string text = "lease of session " + std::to_string(id) + ": " + event;
  for (Child& child : children_)
    if (child.id == id) return child.log.info(text);
  log_.info(text);
}

void ParentProcess::answer_lease(Child& child) {
  LeaseQuestion question;
  const ssize_t size = ::recv(child.control.get(), &question, sizeof question, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto sessions = std::count_if(children_.begin(), children_.end(), [&](const Child& other) {
    return other.admitted && other.control && other.party.key == child.party.key;
  });
  if (size != sizeof question ||
      !leases_.answer(child.id, child.party, static_cast<std::size_t>(sessions), question, Clock::now()))
    child.control.reset();  // it ends; SIGCHLD follows
}

void ParentProcess::answer_child(Child& child) {
  if (child.admitted) return answer_lease(child);
  AskAdmission question;
  const ssize_t size = ::recv(child.control.get(), &question, sizeof question, MSG_DONTWAIT);
  if (size != sizeof question || std::exchange(child.has_asked, true)) {
    child.control.reset();  // it ends; SIGCHLD follows
    return;
  }
  places_.authenticated(child.id);
  const char answer = answer_to(question);
  child.admitted = answer == kAdmitted;
  child.key = child.admitted ? question.key : 0;
  child.party.key = keys_ ? keys_->keys()->identity_of(question.key) : "";
  child.party.address = child.log.peer_address();
  child.log.set_key(child.party.key.empty() ? "-" : child.party.key);
  (void)::send(child.control.get(), &answer, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

char ParentProcess::answer_to(const AskAdmission& question) {
  // The key was read when the handshake began.
  check_keys();
  if (keys_ && !keys_->keys()->hold(question.key)) return kKeyRevoked;
  const auto sessions = std::count_if(children_.begin(), children_.end(),
                                      [](const Child& child) { return child.admitted && child.control; });
  return static_cast<std::size_t>(sessions) < options_.max_sessions ? kAdmitted : kFull;
}

void ParentProcess::read_keys_again() {
  check_keys();
  log_.info("SIGHUP: " + (keys_ ? keys_->names() : std::string("no key to read again")));
}

/// Reads the keys, and ends the sessions of those that are gone.
void ParentProcess::check_keys() {
  if (!keys_) return;
  keys_->refresh(log_);
  wipe_traces();
  keys_checked_ = Clock::now();
  for (Child& child : children_) {
    if (child.key == 0 || keys_->keys()->hold(child.key)) continue;
    child.key = 0;
    child.kill_at = keys_checked_ + kFarewellTime;
    if (child.control) (void)::send(child.control.get(), &kKeyRevoked, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void ParentProcess::start_sessions() {
  while (accept_after_ <= Clock::now()) {
    pid_t lost = 0;
    auto peer = waiting_.next(places_, Clock::now(), lost);
    for (Child& child : children_)
      if (child.id == lost) child.process.signal(SIGKILL);
    if (!peer) return;
    start_session(std::move(*peer));
  }
}

/// The system has no process for it, and for nobody else just now.
void ParentProcess::turn_away(WaitingPeer& peer) {
  peer.log.warning(std::string("connection closed: the system has no room for its process: ") +
                   std::strerror(errno));
  accept_after_ = Clock::now() + kAcceptBackoff;
}

void ParentProcess::start_session(WaitingPeer peer) {
  check_keys();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return turn_away(peer);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const std::optional<int> slot = memory_.take_slot();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    be_session(std::move(peer.connection), std::move(theirs), slot);
  }
  if (child < 0) {
    if (slot) memory_.free_slot(*slot);
    return turn_away(peer);
  }
  const auto now = Clock::now();
  places_.enter(peer.source, child, now);
  // Its end is reported even if its start was one of too many: processes have a rate already.
  children_.push_back({child, ChildProcess(child), std::move(ours),
                       now + options_.handshake_timeout + kHandshakeSlack,
                       Log(options_.log_level, peer.log.peer()), slot});
}

void ParentProcess::be_session(UniqueFd connection, UniqueFd control, std::optional<int> memory_slot) {
  // Signals are the parent's business: it tells its sessions by their control sockets.
  close_signal_pipe({SIGINT, SIGTERM});
  drop_all_capabilities();
  listener_.reset();
  announcement_.reset();
  waiting_.peers().clear();
  children_.clear();
  keys_.reset();  // but for those of `tls_`, which the handshake needs
  const SessionShare share{memory_slot ? MemoryShare{&memory_, *memory_slot} : MemoryShare{}, &verified_,
                           &activity_};
  ::_exit(run_session(connection.release(), control.release(), tls_.get(), options_, share));
}

}  // namespace gantry::rpc
