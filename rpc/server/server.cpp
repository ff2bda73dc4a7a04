#include "rpc/server/server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

#include "device_runtime/src/memory.h"
#include "gantry/runtime.h"
#include "rpc/protocol/message.h"
#include "rpc/security/tls.h"
#include "rpc/server/board_info.h"
#include "rpc/server/cache.h"
#include "rpc/server/child_process.h"
#include "rpc/server/executor_start.h"
#include "rpc/server/session.h"

namespace gantry::rpc {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kAcceptBackoff{100};
/// The parent's patience beyond a child's own handshake deadline.
constexpr milliseconds kHandshakeSlack{1000};
/// For sessions to tell their clients, between the end of the grace and SIGKILL.
constexpr milliseconds kFarewellTime{1500};

int signal_pipe[2] = {-1, -1};

void on_signal(int number) {
  const int saved = errno;
  const char byte = static_cast<char>(number);
  (void)!::write(signal_pipe[1], &byte, 1);
  errno = saved;
}

void handle_signal(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | (number == SIGCHLD ? SA_NOCLDSTOP : 0);
  ::sigaction(number, &action, nullptr);
}

/// Connected, but has not sent a byte yet: costs a descriptor and these few bytes.
struct SilentPeer {
  UniqueFd connection;
  Clock::time_point deadline;
  Log log;
};

struct Child {
  ChildProcess process;
  UniqueFd control;
  Clock::time_point handshake_deadline;
  Log log;
  std::optional<int> memory_slot;
  bool admitted = false;
};

/// The parent process: accepts, looks at one byte, forks. It parses nothing that a peer sent, so that nothing
/// a peer sends can hurt it, and it has one thread, so that a fork of it is whole.
class Server {
 public:
  Server(const ServeOptions& options, UniqueFd listener, TlsContext tls)
      : options_(options),
        listener_(std::move(listener)),
        tls_(std::move(tls)),
        memory_(data_memory(options)),
        log_(options.log_level) {}
  int run();

 private:
  int next_timeout() const;
  void poll_once();
  void accept_some();
  void drop_oldest(const char* why);
  void expire();
  void read_signals();
  void begin_shutdown(int signal);
  void force_shutdown();
  void reap();
  bool first_byte(SilentPeer& peer);
  void start_session(UniqueFd connection, Log log);
  [[noreturn]] void be_session(UniqueFd connection, UniqueFd control, std::optional<int> memory_slot);
  void answer_child(Child& child);
  static void dismiss(int connection, const void* answer, std::size_t size);

  const ServeOptions& options_;
  UniqueFd listener_;
  TlsContext tls_;
  BoardMemory memory_;
  VerifiedSegments verified_;
  std::deque<SilentPeer> silent_;  // oldest first
  std::vector<Child> children_;    // oldest first
  Clock::time_point accept_after_{};
  std::optional<Clock::time_point> force_at_;  // set while shutting down
  std::optional<Clock::time_point> kill_at_;   // set once sessions were told to end at once
  Log log_;
};

int Server::run() {
  while (!force_at_ || !children_.empty()) {
    poll_once();
    expire();
  }
  log_.info("stopped");
  return 0;
}

int Server::next_timeout() const {
  auto next = Clock::now() + std::chrono::hours(1);
  if (!silent_.empty()) next = std::min(next, silent_.front().deadline);
  for (const Child& child : children_)
    if (!child.admitted) next = std::min(next, child.handshake_deadline);
  if (accept_after_ > Clock::now()) next = std::min(next, accept_after_);
  if (force_at_) next = std::min(next, kill_at_ ? *kill_at_ : *force_at_);
  const auto wait = std::chrono::duration_cast<milliseconds>(next - Clock::now()).count() + 1;
  return static_cast<int>(std::clamp<long long>(wait, 0, 3'600'000));
}

void Server::poll_once() {
  std::vector<pollfd> fds;
  fds.push_back({signal_pipe[0], POLLIN, 0});
  // A negative descriptor is ignored by poll().
  fds.push_back({accept_after_ > Clock::now() ? -1 : listener_.get(), POLLIN, 0});
  const std::size_t peer_count = silent_.size(), child_count = children_.size();
  for (const SilentPeer& peer : silent_) fds.push_back({peer.connection.get(), POLLIN, 0});
  for (const Child& child : children_) fds.push_back({child.control.get(), POLLIN, 0});
  if (::poll(fds.data(), fds.size(), next_timeout()) <= 0) return;

  for (std::size_t i = 0; i < child_count; ++i)
    if (fds[2 + peer_count + i].revents != 0) answer_child(children_[i]);
  std::deque<SilentPeer> still_silent;
  for (std::size_t i = 0; i < peer_count; ++i)
    if (fds[2 + i].revents == 0 || !first_byte(silent_[i])) still_silent.push_back(std::move(silent_[i]));
  silent_ = std::move(still_silent);
  if (fds[0].revents != 0) read_signals();
  if (fds[1].revents != 0 && listener_) accept_some();
}

void Server::accept_some() {
  for (int i = 0; i < 64; ++i) {
    UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        // Out of descriptors or memory: make some room, and do not spin on the connection that waits.
        if (!silent_.empty()) drop_oldest("the system has no room for more");
        accept_after_ = Clock::now() + kAcceptBackoff;
      }
      return;
    }
    if (silent_.size() >= options_.max_silent_peers) drop_oldest("too many others have connected");
    Log log(options_.log_level, peer_of(connection.get()));
    log.info("connected");
    silent_.push_back({std::move(connection), Clock::now() + options_.handshake_timeout, std::move(log)});
  }
}

void Server::expire() {
  const auto now = Clock::now();
  while (!silent_.empty() && silent_.front().deadline <= now) drop_oldest("it has sent nothing");
  if (force_at_ && *force_at_ <= now && !kill_at_) force_shutdown();
  for (Child& child : children_)
    if ((!child.admitted && child.handshake_deadline <= now) || (kill_at_ && *kill_at_ <= now))
      child.process.signal(SIGKILL);
}

void Server::drop_oldest(const char* why) {
  silent_.front().log.info(std::string("connection closed: ") + why);
  silent_.pop_front();
}

void Server::read_signals() {
  char bytes[64];
  const ssize_t count = ::read(signal_pipe[0], bytes, sizeof bytes);
  for (ssize_t i = 0; i < count; ++i)
    if (bytes[i] != SIGCHLD) begin_shutdown(bytes[i]);
  reap();
}

/// First asks the sessions to finish what runs; a second signal, or the end of the grace, ends them.
void Server::begin_shutdown(int signal) {
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
  silent_.clear();
  for (Child& child : children_) {
    if (!child.admitted)
      child.process.signal(SIGKILL);
    else
      (void)::send(child.control.get(), &kShutDown, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

/// Has the sessions tell their clients and end; those that do not are killed.
void Server::force_shutdown() {
  kill_at_ = Clock::now() + kFarewellTime;
  for (const Child& child : children_)
    if (child.admitted) (void)::send(child.control.get(), &kEndNow, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// A session that did not end by itself or by our SIGKILL has a bug: its peer only sees that it is gone.
void Server::reap() {
  std::erase_if(children_, [this](Child& child) {
    const std::optional<int> ended = child.process.wait_if_ended();
    if (!ended && child.process.running()) return false;
    if (child.memory_slot) memory_.free_slot(*child.memory_slot);
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
}

void Server::answer_child(Child& child) {
  char byte = 0;
  if (::recv(child.control.get(), &byte, 1, MSG_DONTWAIT) <= 0) {
    child.control.reset();  // it ends; SIGCHLD follows
    return;
  }
  const auto sessions = std::count_if(children_.begin(), children_.end(),
                                      [](const Child& c) { return c.admitted && c.control; });
  const bool room = byte == kAskAdmission && static_cast<std::size_t>(sessions) < options_.max_sessions;
  child.admitted = room;
  (void)::send(child.control.get(), room ? &kAdmitted : &kFull, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Answers and closes. What the peer has sent is read first: closing over unread bytes would cut the answer
/// off.
void Server::dismiss(int connection, const void* answer, std::size_t size) {
  char discarded[4096];
  for (int i = 0; i < 16 && ::recv(connection, discarded, sizeof discarded, MSG_DONTWAIT) > 0; ++i) {
  }
  (void)::send(connection, answer, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(connection, SHUT_WR);
}

/// Decides by the first byte who the peer is. False: nothing has come after all.
bool Server::first_byte(SilentPeer& peer) {
  unsigned char byte = 0;
  const int fd = peer.connection.get();
  const ssize_t count = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0) {
    peer.log.info("disconnected without a word");
    return true;
  }
  constexpr unsigned char kTlsHandshake = 0x16;
  const bool tls = byte == kTlsHandshake, plain = byte == kFrameMagic[0];
  if ((tls && tls_) || (plain && !tls_)) {
    start_session(std::move(peer.connection), std::move(peer.log));
  } else if (tls) {
    peer.log.warning("authentication failed: the peer has a key, and this server runs without one");
    dismiss(fd, kNoKeyAlert, sizeof kNoKeyAlert);
  } else if (plain) {
    peer.log.warning("authentication failed: the peer has no key");
    const Bytes frame = encode_response(
        0, make_failure(ErrorKind::kReconnect, "it accepts only clients with its key; give the key file"));
    dismiss(fd, frame.data(), frame.size());
  } else if (byte >= 'A' && byte <= 'Z') {
    constexpr char kHint[] =
        "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
        "This is gantry-device; it speaks gantry's protocol, not HTTP.\n";
    peer.log.warning("refused: it does not speak gantry's protocol, but perhaps HTTP");
    dismiss(fd, kHint, sizeof kHint - 1);
  } else {
    peer.log.warning("refused: it does not speak gantry's protocol");
  }
  peer.connection.reset();
  return true;
}

void Server::start_session(UniqueFd connection, Log log) {
  const auto handshaking = [](const Child& child) { return !child.admitted && child.control; };
  if (static_cast<std::size_t>(std::count_if(children_.begin(), children_.end(), handshaking)) >=
      options_.max_handshakes) {
    const auto oldest = std::find_if(children_.begin(), children_.end(), handshaking);
    oldest->process.signal(SIGKILL);
    oldest->control.reset();
  }
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  UniqueFd ours(ends[0]), theirs(ends[1]);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const std::optional<int> slot = memory_.take_slot();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    be_session(std::move(connection), std::move(theirs), slot);
  }
  if (child < 0) {
    if (slot) memory_.free_slot(*slot);
    accept_after_ = Clock::now() + kAcceptBackoff;
    return;
  }
  children_.push_back({ChildProcess(child), std::move(ours),
                       Clock::now() + options_.handshake_timeout + kHandshakeSlack, std::move(log), slot});
}

void Server::be_session(UniqueFd connection, UniqueFd control, std::optional<int> memory_slot) {
  // Signals are the parent's business: it tells its sessions by their control sockets.
  handle_signal(SIGINT, SIG_IGN);
  handle_signal(SIGTERM, SIG_IGN);
  handle_signal(SIGCHLD, SIG_DFL);
  ::close(signal_pipe[0]);
  ::close(signal_pipe[1]);
  listener_.reset();
  silent_.clear();
  children_.clear();
  const SessionShare share{memory_slot ? MemoryShare{&memory_, *memory_slot} : MemoryShare{}, &verified_};
  ::_exit(run_session(connection.release(), control.release(), tls_.get(), options_, share));
}

UniqueFd listen_on(const ServeOptions& options, asio::ip::tcp::endpoint& endpoint) {
  const auto fail = [&](const char* what) {
    return Error(ErrorKind::kBoard, std::string(what) + " " + options.host + ":" +
                                        std::to_string(options.port) + ": " + std::strerror(errno) +
                                        "; choose another address with --listen");
  };
  UniqueFd listener(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (listener) ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!listener || ::bind(listener.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0)
    throw fail("cannot listen on");
  if (::listen(listener.get(), 1024) != 0) throw fail("cannot listen on");
  socklen_t length = static_cast<socklen_t>(endpoint.capacity());
  if (::getsockname(listener.get(), endpoint.data(), &length) == 0) endpoint.resize(length);
  return listener;
}

bool is_loopback(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  return address.is_loopback();
}

void prepare_process() {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // A module's process, which is the same user's, could trace this one or its sessions and read the key.
  ::prctl(PR_SET_DUMPABLE, 0);
  if (::pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(ErrorKind::kBoard, std::string("the system refuses a pipe: ") + std::strerror(errno));
  handle_signal(SIGPIPE, SIG_IGN);
  for (int number : {SIGINT, SIGTERM, SIGCHLD}) handle_signal(number, on_signal);
}

}  // namespace

int serve(const ServeOptions& given) {
  ServeOptions options = given;
  std::error_code error;
  const auto address =
      asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
  if (error)
    throw Error(ErrorKind::kRequest,
                "'" + options.host + "' is not an IP address; listen on e.g. 0.0.0.0:7453 or 127.0.0.1:7453");
  if (!options.key && !is_loopback(address))
    throw Error(ErrorKind::kRequest,
                "listening on " + options.host +
                    " would let anyone on the network run code on this board: make a key with "
                    "'gantry keygen' and start the server with --key FILE, or listen on 127.0.0.1");
  options.session_memory_bytes = session_memory(options);
  if (options.cache.empty()) options.cache = default_cache_directory();
  options.cache = std::filesystem::absolute(options.cache);
  const SegmentCache cache(options.cache, options.cache_bytes);

  asio::ip::tcp::endpoint endpoint(address, options.port);
  UniqueFd listener = listen_on(options, endpoint);
  TlsContext tls = options.key ? make_server_context(*options.key) : nullptr;
  const UniqueFd program(open_this_program());
  options.program = program.get();
  prepare_process();
  const std::string shown = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  std::printf("gantry-device %s listening on %s:%u (%s), cache %s\n", gantry_version(), shown.c_str(),
              endpoint.port(),
              options.key ? ("TLS 1.3, key " + options.key->identity).c_str() : "no key, this machine only",
              options.cache.c_str());
  std::fflush(stdout);
  Log(options.log_level)
      .info(std::string("gantry-device ") + gantry_version() + " listens on " + shown + ":" +
            std::to_string(endpoint.port()) + ", " +
            (options.key ? "key " + options.key->identity : std::string("no key")));
  return Server(options, std::move(listener), std::move(tls)).run();
}

int serve_connection(int socket) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  handle_signal(SIGPIPE, SIG_IGN);
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  ServeOptions options;
  options.program = open_this_program();
  options.session_memory_bytes = runtime::usable_memory_bytes();
  options.deadline = options.idle_timeout = std::chrono::hours(24 * 30);
  options.handshake_timeout = std::chrono::minutes(1);
  options.log_level = LogLevel::kError;  // its one client is the program that started it
  options.stall_timeout = std::chrono::milliseconds(0);
  return run_session(socket, -1, nullptr, options, {});
}

}  // namespace gantry::rpc
