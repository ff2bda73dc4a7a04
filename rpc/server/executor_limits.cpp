#include "rpc/server/executor_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

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
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (!kBoundsMemory) return;
  const std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  const std::uint64_t bytes = mapped_bytes() + limits.memory_bytes + threads * kThreadBytes;
  // The hard limit of addresses is left: see allow_gpu_addresses().
  lower(RLIMIT_AS, bytes, RLIM_INFINITY);
  lower(RLIMIT_DATA, bytes, bytes + kDriverBytes);
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
