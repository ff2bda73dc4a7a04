#include "rpc/server/executor_start.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace gantry::rpc {
namespace {

// The executor's descriptors.
constexpr int kSocket = 3;
constexpr int kStep = 4;
constexpr int kProgram = 5;  // closed when it is executed
constexpr int kFirstFree = 6;

/// Whether the runtime, or NVIDIA's driver, which the runtime loads, reads it. HOME: of the code that the
/// driver compiles, it keeps a cache there. QEMU_PLUGIN: the emulator's, where the system starts one for the
/// program.
bool is_for_executors(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  for (const std::string_view known :
       {"GANTRY_PERF_MAP", "GANTRY_GDB", "LD_LIBRARY_PATH", "HOME", "QEMU_PLUGIN"})
    if (name == known) return true;
  for (const std::string_view part : {"CUDA", "NVIDIA"})
    if (name.find(part) != std::string_view::npos) return true;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  if (name.ends_with("SAN_OPTIONS")) return true;
#endif
  return false;
}

/// What execve() gets. Made before the fork: in the child, another thread of the parent may hold the
/// allocator's lock for ever.
class Command {
 public:
  explicit Command(const ExecutorSetup& setup)
      : words_{"gantry-device", std::string(kExecutorCommand), std::to_string(setup.limits.memory_bytes),
               std::to_string(setup.limits.first_handle)} {
    for (std::string& word : words_) arguments_.push_back(word.data());
    arguments_.push_back(nullptr);
    for (char** entry = environ; *entry; ++entry)
      if (is_for_executors(*entry)) environment_.push_back(*entry);
    environment_.push_back(nullptr);
  }
  /// Returns only if it fails, errno set.
  void execute(int program) const {
#if defined(SYS_execveat)
    ::syscall(SYS_execveat, program, "", arguments_.data(), environment_.data(), AT_EMPTY_PATH);
#else
    errno = ENOSYS;
#endif
  }

 private:
  std::vector<std::string> words_;
  std::vector<char*> arguments_, environment_;
};

/// Nothing to read, and nobody to read what a module writes: it could pose as the server's log.
bool close_standard_streams() {
  int ends[2];
  ends[0] = ends[1] = ::open("/dev/null", O_RDWR);
  if (ends[0] < 0 && ::pipe2(ends, O_NONBLOCK) != 0) return false;  // takes a little, then nothing
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return ::dup2(ends[0], 0) == 0 && ::dup2(ends[1], 1) == 1;  // they report on stderr
#else
  return ::dup2(ends[0], 0) == 0 && ::dup2(ends[1], 1) == 1 && ::dup2(ends[1], 2) == 2;
#endif
}

/// Keeps these under their numbers; everything else belongs to the session.
bool arrange_descriptors(int socket, int step, int program) {
  // Out of the way first: one may have the number that another shall get.
  const int from[] = {::fcntl(socket, F_DUPFD, kFirstFree), ::fcntl(step, F_DUPFD, kFirstFree),
                      program < 0 ? -1 : ::fcntl(program, F_DUPFD, kFirstFree)};
  if (::dup2(from[0], kSocket) < 0 || ::dup2(from[1], kStep) < 0) return false;
  if (program >= 0 && ::dup3(from[2], kProgram, O_CLOEXEC) < 0) return false;
  if (!close_standard_streams()) return false;
  close_descriptors_from(program >= 0 ? kFirstFree : kProgram);
  return true;
}

template <typename T>
bool parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

ChildProcess start_executor(const ExecutorSetup& setup, int socket, const StepMemory& step) {
  const Command command(setup);
  const pid_t session = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return ChildProcess(child);
  if (!arrange_descriptors(socket, step.descriptor(), setup.program)) ::_exit(1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != session) ::_exit(0);
  if (setup.program >= 0) {
    command.execute(kProgram);
    step->exec_error = errno;
    ::close(kProgram);
  } else {
    step->exec_error = ENOENT;
  }
  ::_exit(run_executor(kSocket, setup.limits, *step));
}

int executor_main(int argc, char** argv) {
  ExecutorLimits limits;
  std::optional<StepMemory> step;
  try {
    if (argc == 4 && parse(argv[2], limits.memory_bytes) && parse(argv[3], limits.first_handle))
      step.emplace(UniqueFd(kStep));
  } catch (const std::exception&) {
    // No such descriptor.
  }
  if (!step) {
    std::fprintf(stderr, "gantry-device: %s is how gantry-device starts its own processes; use serve\n",
                 argv[1]);
    return 1;
  }
  ::prctl(PR_SET_NAME, argv[0]);                   // Linux before 6.14 names it by its descriptor
  ::_exit(run_executor(kSocket, limits, **step));  // as a fork does: no destructor of a driver's may wait
}

int open_this_program() {
  return ::open("/proc/self/exe", O_PATH | O_CLOEXEC);
}

}  // namespace gantry::rpc
