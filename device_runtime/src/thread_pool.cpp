#include "device_runtime/src/thread_pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace gantry::runtime {
namespace {

// Long enough to bridge the serial part between two loops, short enough not to starve other processes.
constexpr int64_t kSpinNanoseconds = 60'000;
constexpr int kSpinsPerClock = 64;

// Set while this thread runs a part of a loop: a nested loop then runs unsplit.
thread_local bool inside_loop = false;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Spins until `done()` or the time is over; says whether it was done.
template <typename Condition>
bool spin_until(const Condition& done) {
  int64_t deadline = 0;
  for (;;) {
    for (int i = 0; i < kSpinsPerClock; ++i) {
      if (done()) return true;
      pause_cpu();
    }
    const int64_t now = now_ns();
    if (deadline == 0) deadline = now + kSpinNanoseconds;
    if (now > deadline) return false;
  }
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

int32_t host_parallel_for(void* context, GantryLoopBody body, void* closure, int64_t count) {
  return static_cast<ThreadPool*>(context)->parallel_for(body, closure, count);
}

// What generated code takes at most (a megabyte, in kernels of the emulated GPU), and some to spare; where the
// process's limits give threads more, they get more.
constexpr size_t kMinStackBytes = size_t{4} << 20;

int start_thread(pthread_t* thread, void* (*function)(void*), void* argument) {
  pthread_attr_t attributes;
  if (const int error = pthread_attr_init(&attributes); error != 0) return error;
  size_t bytes = 0;
  pthread_attr_getstacksize(&attributes, &bytes);
  if (bytes < kMinStackBytes) pthread_attr_setstacksize(&attributes, kMinStackBytes);
  const int error = pthread_create(thread, &attributes, function, argument);
  pthread_attr_destroy(&attributes);
  return error;
}

Status set_affinity(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int error = EINVAL;
  if (cpu >= 0 && cpu < CPU_SETSIZE) {
    CPU_SET(cpu, &set);
    error = pthread_setaffinity_np(thread, sizeof set, &set);
  }
  if (error == 0) return Status();
  return failure(GANTRY_INVALID_ARGUMENT, "cannot pin a thread to CPU %d: %s", cpu, strerror(error));
}

}  // namespace

Status pin_this_thread(int cpu) {
  return set_affinity(pthread_self(), cpu);
}

ThreadPool::ThreadPool()
    : host_{GANTRY_KERNEL_ABI_VERSION, sizeof(GantryKernelHost), this, host_parallel_for} {}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int threads, std::span<const int> cpus) {
  if (threads < 1 || threads > 1024) {
    return failure(GANTRY_INVALID_ARGUMENT, "%d threads: give a number from 1 to 1024", threads);
  }
  std::unique_ptr<ThreadPool> pool(new ThreadPool);
  for (int i = 1; i < threads; ++i) {
    auto worker = std::make_unique<Worker>();
    worker->pool = pool.get();
    worker->index = i;
    const int error = start_thread(&worker->thread, worker_main, worker.get());
    if (error != 0) return failure(GANTRY_OUT_OF_MEMORY, "cannot start thread %d: %s", i, strerror(error));
    pool->workers_.push_back(std::move(worker));
    if (static_cast<size_t>(i) < cpus.size()) {
      GANTRY_TRY(set_affinity(pool->workers_.back()->thread, cpus[static_cast<size_t>(i)]));
    }
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  epoch_.fetch_add(1);
  futex_wake_all(epoch_);
  for (const auto& worker : workers_) pthread_join(worker->thread, nullptr);
}

void* ThreadPool::worker_main(void* worker) {
  const auto* self = static_cast<const Worker*>(worker);
  self->pool->work(self->index);
  return nullptr;
}

// A sleeper counts itself before it looks at the epoch again, and the caller moves the epoch before it looks
// for sleepers: in the total order of these (sequentially consistent) accesses one of them sees the other.
uint32_t ThreadPool::await_loop(uint32_t seen) {
  const auto moved = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
  if (spin_until(moved)) return seen + 1;
  sleepers_.fetch_add(1);
  while (epoch_.load() == seen) futex_wait(epoch_, seen);
  sleepers_.fetch_sub(1);
  return seen + 1;
}

void ThreadPool::work(int index) {
  uint32_t seen = 0;
  for (;;) {
    // Loops follow each other only when every worker is done, so the epoch never runs ahead by two.
    seen = await_loop(seen);
    if (stop_) return;
    run_part(index);
    if (pending_.fetch_sub(1) == 1 && caller_sleeps_.load() != 0) futex_wake_all(pending_);
  }
}

void ThreadPool::run_part(int index) {
  const int64_t parts = threads() < count_ ? threads() : count_;
  if (index >= parts) return;
  // The first `rest` parts are longer by one; free of overflow for every count.
  const int64_t size = count_ / parts, rest = count_ % parts;
  const int64_t begin = index * size + (index < rest ? index : rest);
  const int64_t end = begin + size + (index < rest ? 1 : 0);
  inside_loop = true;
  const int32_t error = body_(closure_, begin, end);
  inside_loop = false;
  if (error != 0) {
    int32_t none = 0;
    error_.compare_exchange_strong(none, error);
  }
}

void ThreadPool::await_workers() {
  if (spin_until([&] { return pending_.load(std::memory_order_acquire) == 0; })) return;
  caller_sleeps_.store(1);
  for (uint32_t left = pending_.load(); left != 0; left = pending_.load()) futex_wait(pending_, left);
  caller_sleeps_.store(0);
}

int32_t ThreadPool::parallel_for(GantryLoopBody body, void* closure, int64_t count) {
  if (count <= 0) return 0;
  if (inside_loop || workers_.empty() || count == 1) return body(closure, 0, count);
  body_ = body;
  closure_ = closure;
  count_ = count;
  error_.store(0, std::memory_order_relaxed);
  pending_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1);
  if (sleepers_.load() != 0) futex_wake_all(epoch_);
  run_part(0);
  await_workers();
  return error_.load(std::memory_order_relaxed);
}

}  // namespace gantry::runtime
