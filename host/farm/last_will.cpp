#include "host/farm/last_will.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace gantry::farm {
namespace {

/// Each line replaces the one before; the last one counts. By name, too: a controller that has forgotten jobs
/// may have given their numbers to others.
const std::string& script() {
  static const std::string text = fmt::format(
      "trap '' HUP INT QUIT TERM\n"
      "jobs=\n"
      "while read -r line; do jobs=$line; done\n"
      "[ -z \"$jobs\" ] || exec scancel --quiet --name={} $jobs",
      kLeaseJob);
  return text;
}

/// Neither dies with a group that is killed nor keeps anybody's output open.
pid_t start_shell(int input) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, pipe;
  sigemptyset(&none);
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                           POSIX_SPAWN_SETSIGDEF));
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &pipe);
  std::string shell = "sh", option = "-c", text = script();
  char* const arguments[] = {shell.data(), option.data(), text.data(), nullptr};
  pid_t child = -1;
  if (::posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments, environ) != 0) child = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

}  // namespace

LastWill::LastWill() {
  int ends[2];
  // No other program that this one starts has its end, which would keep the shell waiting.
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  shell_ = start_shell(ends[0]);
  ::close(ends[0]);
  if (shell_ > 0)
    pipe_ = ends[1];
  else
    ::close(ends[1]);
}

LastWill::~LastWill() {
  if (pipe_ < 0) return;
  set({});
  ::close(pipe_);
  while (::waitpid(shell_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void LastWill::set(const std::set<JobId>& jobs) {
  if (pipe_ < 0) return;
  const std::string line = fmt::format("{}\n", fmt::join(jobs, " "));
  // Short enough to go at once, and whole. A shell that is gone leaves things as they are without it.
  while (::write(pipe_, line.data(), line.size()) < 0 && errno == EINTR) {
  }
}

}  // namespace gantry::farm
