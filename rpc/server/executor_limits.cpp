#include "rpc/server/executor_limits.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "rpc/server/attachments.h"
#include "rpc/server/rights.h"
#include "rpc/server/system_call_filter.h"

namespace gantry::rpc {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kBoundsMemory = false;
#else
constexpr bool kBoundsMemory = true;
#endif

/// Of NVIDIA's driver: its own tables and buffers.
constexpr std::uint64_t kDriverBytes = std::uint64_t{4} << 30;
/// Of a thread: its stack and its arena of the allocator.
constexpr std::uint64_t kThreadBytes = std::uint64_t{80} << 20;

/// Beside those that a GPU's driver holds, of which there are dozens for each GPU.
constexpr rlim_t kOwnFiles = 1024;
constexpr rlim_t kMoreTasks = 4096;

#if defined(GANTRY_NO_DLOPEN)
constexpr bool kMayUseGpu = false;  // a static program cannot load its driver
#else
constexpr bool kMayUseGpu = true;
#endif

/// Processes and threads of all users; 0 where the system does not say.
rlim_t tasks_of_system() {
  // "0.20 0.18 0.12 1/80 11206": running and all.
  std::ifstream file("/proc/loadavg");
  double averages[3];
  rlim_t running = 0, all = 0;
  char slash = 0;
  file >> averages[0] >> averages[1] >> averages[2] >> running >> slash >> all;
  return file ? all : 0;
}

std::uint64_t mapped_bytes() {
  std::ifstream status("/proc/self/statm");
  std::uint64_t pages = 0;
  status >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Of what the system allows already, no more than these.
void lower(decltype(RLIMIT_AS) resource, rlim_t soft, rlim_t hard) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  limit.rlim_max = std::min(hard, limit.rlim_max);
  limit.rlim_cur = std::min(soft, limit.rlim_max);
  ::setrlimit(resource, &limit);
}

}  // namespace

void limit_memory(const ExecutorLimits& limits) {
  if (!kBoundsMemory) return;
  const std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  const std::uint64_t bytes = mapped_bytes() + limits.memory_bytes + threads * kThreadBytes;
  // Where there may be a GPU, the hard limits are its: see allow_gpu_addresses().
  lower(RLIMIT_AS, bytes, kMayUseGpu ? RLIM_INFINITY : bytes);
  lower(RLIMIT_DATA, bytes, kMayUseGpu ? bytes + kDriverBytes : bytes);
}

int give_up_rights(const ExecutorLimits& limits) {
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // If the system has to end a process because memory ran out, it had better be one that modules run in.
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  drop_all_capabilities();  // so that hard limits are hard for root's too
  // Linux counts all of the user's processes and threads against this, those of other sessions too: the limit
  // leaves room for every pool that a client may ask for, and is there against what starts threads for ever.
  if (const rlim_t tasks = tasks_of_system(); tasks > 0)
    lower(RLIMIT_NPROC, tasks + kMoreTasks, tasks + kMoreTasks);
  lower(RLIMIT_CORE, 0, 0);
  // A module's segments come all at once.
  lower(RLIMIT_NOFILE, kOwnFiles + kMaxAttachments, kOwnFiles + kMaxAttachments);
  // Outputs are files in memory.
  lower(RLIMIT_FSIZE, limits.memory_bytes, limits.memory_bytes);
  ::signal(SIGXFSZ, SIG_IGN);  // an error of the write instead
  return forbid_new_processes();
}

void allow_gpu_addresses() {
  if (!kBoundsMemory) return;
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    ::getrlimit(resource, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(resource, &limit);
  }
}

}  // namespace gantry::rpc
