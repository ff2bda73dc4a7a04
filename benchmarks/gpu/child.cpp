#include "benchmarks/gpu/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

namespace gantry::gpu_bundle {
namespace {

/// Of each stream, at its beginning and at its end.
constexpr size_t kKept = 512 << 10;
/// What a process gets to clean up after it has been asked to end.
constexpr Seconds kGrace{1.5};
/// After SIGKILL a process that hangs in a driver may stay; it is left then.
constexpr Seconds kDeath{3};
constexpr int kTickMs = 20;

std::atomic<int> signal_received{0};

void on_signal(int signal) {
  signal_received = signal;
}

/// A stream of a child, read without waiting.
class Stream {
 public:
  explicit Stream(int descriptor) : descriptor_(descriptor) { ::fcntl(descriptor_, F_SETFL, O_NONBLOCK); }
  Stream(Stream&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), text_(std::move(other.text_)) {}
  ~Stream() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int descriptor() const { return descriptor_; }
  std::string& text() { return text_; }

  void read_all() {
    char buffer[16384];
    while (descriptor_ >= 0) {
      const ssize_t count = ::read(descriptor_, buffer, sizeof buffer);
      if (count < 0) return;
      if (count == 0) {
        ::close(std::exchange(descriptor_, -1));
        return;
      }
      text_.append(buffer, static_cast<size_t>(count));
      if (text_.size() > 3 * kKept) text_.erase(kKept, text_.size() - 2 * kKept);
    }
  }

 private:
  int descriptor_;
  std::string text_;
};

std::vector<std::string> merged_environment(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  const auto is_added = [&](const std::string& entry) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    return std::any_of(added.begin(), added.end(), [&](const std::string& a) { return a.starts_with(name); });
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_added(*entry)) all.emplace_back(*entry);
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Those that not even SIGKILL has ended: still children of this process, until the driver lets them go.
std::set<pid_t>& given_up() {
  static std::set<pid_t> pids;
  return pids;
}

/// A started process. Unreaped until `wait_if_ended` or the destructor, so that its pid stays its own.
class Process {
 public:
  explicit Process(Command command) : started_(Clock::now()), limit_(command.limit) {
    int out[2], err[2], result[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0 || ::pipe2(result, O_CLOEXEC) != 0) {
      fail(errno);
      return;
    }
    std::vector<std::string> environment = merged_environment(command.environment);
    std::vector<char*> arguments = pointers(command.arguments), variables = pointers(environment);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);
      ::signal(SIGPIPE, SIG_DFL);
      const int nothing = ::open("/dev/null", O_RDONLY);
      ::dup2(nothing, 0);
      ::dup2(out[1], 1);
      ::dup2(err[1], 2);
      ::execvpe(arguments[0], arguments.data(), variables.data());
      const int error = errno;
      if (::write(result[1], &error, sizeof error) < 0) ::_exit(126);
      ::_exit(127);
    }
    const int error = errno;
    for (int end : {out[1], err[1], result[1]}) ::close(end);
    output_.emplace(out[0]);
    errors_.emplace(err[0]);
    if (pid_ < 0) {
      ::close(result[0]);
      fail(error);
      return;
    }
    ::setpgid(pid_, pid_);
    int failure = 0;
    while (::read(result[0], &failure, sizeof failure) < 0 && errno == EINTR) {
    }
    ::close(result[0]);
    if (failure == 0) return;
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
    fail(failure);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (running()) end_now(Outcome::End::kStopped);
  }

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  Outcome& outcome() { return outcome_; }
  Stream* output() { return output_ ? &*output_ : nullptr; }
  Stream* errors() { return errors_ ? &*errors_ : nullptr; }

  /// Reads what there is, and ends it where its time is over or this process shall end.
  void tick() {
    read();
    if (has_ended()) return collect();
    if (stop_signal() != 0) return end_now(Outcome::End::kStopped);
    if (Clock::now() - started_ > limit_) end_now(Outcome::End::kTimedOut);
  }
  /// Asks the group to end, then ends it.
  void end_now(Outcome::End why) {
    const Clock::time_point asked = Clock::now();
    ::kill(-pid_, SIGTERM);
    while (!has_ended() && Clock::now() - asked < kGrace) pause();
    ::kill(-pid_, SIGKILL);
    while (!has_ended() && Clock::now() - asked < kGrace + kDeath) pause();
    const bool dead = has_ended();
    collect();
    outcome_.end = why;
    if (!dead) outcome_.errors += "\n(the process does not end, not even by SIGKILL: the driver holds it)";
  }

 private:
  void fail(int error) {
    outcome_.end = Outcome::End::kNotStarted;
    outcome_.code = error;
  }
  void read() {
    output_->read_all();
    errors_->read_all();
  }
  void pause() {
    read();
    ::poll(nullptr, 0, kTickMs);
  }
  /// Whether it is a zombie; it stays one.
  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  }
  /// Ends what is left of its group while its number is still its own, then reaps it.
  void collect() {
    ::kill(-pid_, SIGKILL);
    read();
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      outcome_.end = WIFEXITED(status) ? Outcome::End::kExited : Outcome::End::kSignalled;
      outcome_.code = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
    } else {
      given_up().insert(pid_);
    }
    pid_ = -1;
    outcome_.seconds = Seconds(Clock::now() - started_).count();
    outcome_.output = std::move(output_->text());
    outcome_.errors = std::move(errors_->text());
  }

  Clock::time_point started_;
  Seconds limit_;
  pid_t pid_ = -1;
  std::optional<Stream> output_, errors_;
  Outcome outcome_;
};

/// Ends children of this process that it has not started itself: orphans that it has adopted.
void end_orphans(const std::set<pid_t>& own) {
  for (int round = 0; round < 10; ++round) {
    std::ifstream list("/proc/self/task/" + std::to_string(::getpid()) + "/children");
    bool any = false;
    for (pid_t pid = 0; list >> pid;) {
      if (own.count(pid) != 0) continue;
      if (given_up().count(pid) != 0) {
        if (::waitpid(pid, nullptr, WNOHANG) == pid) given_up().erase(pid);
        continue;
      }
      any = true;
      ::kill(pid, SIGKILL);
      for (int wait = 0; wait < 25 && ::waitpid(pid, nullptr, WNOHANG) == 0; ++wait)
        ::poll(nullptr, 0, kTickMs);
    }
    if (!any) return;
  }
}

/// The children that servers of this process are.
std::set<pid_t>& servers() {
  static std::set<pid_t> pids;
  return pids;
}

void wait_for_any(const std::vector<std::unique_ptr<Process>>& processes) {
  std::vector<pollfd> waits;
  for (const auto& process : processes) {
    for (Stream* stream : {process->output(), process->errors()}) {
      if (stream != nullptr && stream->descriptor() >= 0) waits.push_back({stream->descriptor(), POLLIN, 0});
    }
  }
  ::poll(waits.data(), waits.size(), kTickMs);
}

}  // namespace

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaction(signal, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int stop_signal() {
  return signal_received;
}

std::string Outcome::why() const {
  std::string text;
  switch (end) {
    case End::kExited:
      text = code == 0 ? "" : "exit code " + std::to_string(code);
      break;
    case End::kSignalled:
      text = std::string("crashed: ") + ::strsignal(code);
      break;
    case End::kTimedOut:
      text = "took longer than " + std::to_string(static_cast<int>(seconds)) + " s and was ended";
      break;
    case End::kNotStarted:
      text = std::string("could not be started: ") + std::strerror(code);
      break;
    case End::kStopped:
      text = "stopped with the whole run";
      break;
  }
  constexpr size_t kShown = 4000;
  size_t from = errors.size() > kShown ? errors.size() - kShown : 0;
  while (from > 0 && from < errors.size() && (static_cast<unsigned char>(errors[from]) & 0xc0) == 0x80)
    ++from;
  std::string said = (from > 0 ? "… " : "") + errors.substr(from);
  while (!said.empty() && said.back() == '\n') said.pop_back();
  if (said.empty()) return text;
  return text.empty() ? said : text + ": " + said;
}

void run_many(int at_once, const std::function<bool(Command&)>& next,
              const std::function<void(size_t, Outcome)>& done) {
  std::vector<std::unique_ptr<Process>> processes;
  std::vector<size_t> numbers;
  size_t started = 0;
  bool more = true;
  while (more || !processes.empty()) {
    while (more && processes.size() < static_cast<size_t>(at_once)) {
      Command command;
      more = stop_signal() == 0 && next(command);
      if (!more) break;
      processes.push_back(std::make_unique<Process>(std::move(command)));
      numbers.push_back(started++);
    }
    if (processes.empty()) break;
    wait_for_any(processes);
    for (size_t i = 0; i < processes.size();) {
      if (processes[i]->running()) processes[i]->tick();
      if (processes[i]->running()) {
        ++i;
        continue;
      }
      Outcome outcome = std::move(processes[i]->outcome());
      const size_t number = numbers[i];
      processes.erase(processes.begin() + static_cast<std::ptrdiff_t>(i));
      numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(i));
      if (processes.empty()) end_orphans(servers());
      done(number, std::move(outcome));
    }
  }
}

Outcome run(const Command& command) {
  Outcome result;
  bool given = false;
  run_many(
      1,
      [&](Command& next) {
        if (given) return false;
        next = command;
        return given = true;
      },
      [&](size_t, Outcome outcome) { result = std::move(outcome); });
  if (!given) result.end = Outcome::End::kStopped;
  return result;
}

struct Server::Impl {
  Process process;
  pid_t pid = process.pid();  ///< also when it has ended
};

Server::Server(const Command& command, Seconds patience) : impl_(new Impl{Process(command)}) {
  if (!impl_->process.running()) return;
  servers().insert(impl_->pid);
  const Clock::time_point until = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  while (impl_->process.running() && Clock::now() < until && stop_signal() == 0) {
    impl_->process.output()->read_all();
    const std::string& text = impl_->process.output()->text();
    if (const size_t end = text.find('\n'); end != std::string::npos) {
      first_line_ = text.substr(0, end);
      return;
    }
    ::poll(nullptr, 0, kTickMs);
    impl_->process.tick();
  }
}

Server::~Server() {
  servers().erase(impl_->pid);
  if (impl_->process.running()) impl_->process.end_now(Outcome::End::kStopped);
  end_orphans(servers());
}

std::string Server::errors() {
  if (!impl_->process.running()) return impl_->process.outcome().why();
  impl_->process.errors()->read_all();
  return impl_->process.errors()->text();
}

}  // namespace gantry::gpu_bundle
