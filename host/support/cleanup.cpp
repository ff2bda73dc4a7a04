#include "host/support/cleanup.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace gantry::cleanup {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
// A thread that hangs in a system call inside a Section (a dead network disk) must not make us immortal.
constexpr auto kPatience = std::chrono::seconds(2);
constexpr int kAttempts = 20;
constexpr auto kPause = std::chrono::milliseconds(5);
constexpr auto kPoll = std::chrono::milliseconds(1);

struct Registry {
  std::timed_mutex mutex;
  std::set<std::string> paths;
  std::map<pid_t, Child::Group> children;
  std::set<const LastAct*> acts;
};

std::atomic<bool> begun = false;

/// Never destroyed: the waiting thread lives as long as the process.
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

/// Waits until a child is dead, but leaves its exit status to be asked for.
void await_death(pid_t child) {
  siginfo_t ignored{};
  while (::waitid(P_PID, static_cast<id_t>(child), &ignored, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
}

/// Kills a child that has not been asked for its exit status yet, so that the number is still its own, and
/// the group that it leads. Of no other number: -1 would mean every process of the user.
void kill_child(pid_t child, Child::Group group) {
  if (child > 1) ::kill(group == Child::Group::kOwn ? -child : child, SIGKILL);
}

void kill_children(const std::map<pid_t, Child::Group>& children) {
  for (const auto& [child, group] : children) kill_child(child, group);
  for (const auto& [child, group] : children) await_death(child);
}

void remove_paths(const std::set<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code code;
    // What a killed child's own children were writing may come in between.
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      std::filesystem::remove_all(path, code);
      if (!code) break;
      std::this_thread::sleep_for(kPause);
    }
  }
}

[[noreturn]] void die_by(int number) {
  ::signal(number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::raise(number);
  ::_exit(128 + number);
}

/// The lock is to be held until the process is dead.
[[nodiscard]] std::unique_lock<std::timed_mutex> clean_up() {
  std::unique_lock lock(registry().mutex, kPatience);
  begun = true;
  if (lock.owns_lock()) {
    kill_children(registry().children);
    remove_paths(registry().paths);
    for (const LastAct* act : registry().acts) (*act)();
  }
  return lock;
}

void wait_for_signal(sigset_t signals) {
  int number = 0;
  while (::sigwait(&signals, &number) != 0) {
  }
  const auto lock = clean_up();
  die_by(number);
}

}  // namespace

void start() {
  ::signal(SIGPIPE, SIG_IGN);
  registry();
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : kSignals) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      sigaddset(&signals, number);
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(wait_for_signal, signals).detach();
}

void end_process(int code) {
  const auto lock = clean_up();
  ::_exit(code);
}

bool has_begun() {
  return begun;
}

Section::Section() : lock_(registry().mutex) {}

void Section::add(const std::filesystem::path& path) {
  // The working folder may be another one by then.
  registry().paths.insert(std::filesystem::absolute(path).string());
}

void Section::remove(const std::filesystem::path& path) {
  registry().paths.erase(std::filesystem::absolute(path).string());
}

LastAct::LastAct(std::function<void()> act) : act_(std::move(act)) {
  const Section section;
  registry().acts.insert(this);
}

LastAct::~LastAct() {
  const Section section;
  registry().acts.erase(this);
}

Child::Child(const std::filesystem::path& program, char* const* arguments,
             const posix_spawn_file_actions_t& actions, char* const* environment, Group group)
    : group_(group) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const int grouping = group == Group::kOwn ? POSIX_SPAWN_SETPGROUP : 0;
  posix_spawnattr_setflags(&attributes,
                           static_cast<short>(grouping | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  sigset_t none, pipe;
  sigemptyset(&none);
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &pipe);
  {
    const Section section;
    error_ = ::posix_spawn(&pid_, program.c_str(), &actions, &attributes, arguments, environment);
    if (error_ == 0) registry().children.emplace(pid_, group);
  }
  posix_spawnattr_destroy(&attributes);
  if (error_ != 0) pid_ = -1;
}

Child::~Child() {
  if (pid_ < 0) return;
  kill();
  wait();
}

void Child::kill() const {
  kill_child(pid_, group_);
}

int Child::wait() {
  if (pid_ < 0) return 0;
  // It keeps its number, and so the group its own, until it is forgotten here.
  await_death(pid_);
  const Section section;
  registry().children.erase(pid_);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

bool Child::ends_within(std::chrono::milliseconds patience) const {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < deadline) {
    siginfo_t state{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &state, WEXITED | WNOWAIT | WNOHANG) == 0 &&
        state.si_pid == pid_)
      return true;
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

}  // namespace gantry::cleanup
