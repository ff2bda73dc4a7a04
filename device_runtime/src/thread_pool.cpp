#include "device_runtime/src/thread_pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "device_runtime/src/affinity.h"
#include "device_runtime/src/cpu_info.h"

namespace gantry::runtime {
namespace {

// Long enough to bridge the serial part between two loops, short enough not to starve other processes.
constexpr int64_t kSpinNanoseconds = 60'000;
// A look at the clock that comes this late means that another process wanted the core.
constexpr int64_t kPreemptedNanoseconds = 500'000;
constexpr int kSpinsPerClock = 64;
// A thread's range has at most this many units; the smallest piece that it takes is an eighth of them.
constexpr uint32_t kUnitsPerThread = 32;
constexpr uint32_t kPiecesAtMost = 8;
constexpr int64_t kMaxUnits = 0xffff;  // of a loop: what pack() has room for

// Set while this thread runs a part of a loop: a nested loop then runs unsplit.
thread_local bool inside_loop = false;
// Set once this thread has run a range of the loop that it is in.
thread_local bool past_first_range = false;
// Of a pool's worker; callers are number 0.
thread_local size_t thread_index = 0;

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
  int64_t deadline = 0, last = 0;
  for (;;) {
    for (int i = 0; i < kSpinsPerClock; ++i) {
      if (done()) return true;
      pause_cpu();
    }
    const int64_t now = now_ns();
    if (deadline == 0) {
      deadline = now + kSpinNanoseconds;
    } else if (now > deadline || now - last > kPreemptedNanoseconds) {
      return done();
    }
    last = now;
  }
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

/// Rounding, traps and the treatment of denormals, without the flags that say what has happened.
uint32_t float_mode() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~uint32_t{_MM_EXCEPT_MASK};
#else
  uint64_t mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return static_cast<uint32_t>(mode);
#endif
}
void set_float_mode(uint32_t mode) {
  if (float_mode() == mode) return;
#if defined(__x86_64__)
  _mm_setcsr(mode);
#else
  __asm__ volatile("msr fpcr, %0" ::"r"(uint64_t{mode}));
#endif
}

constexpr uint64_t pack(uint32_t number, uint32_t first, uint32_t end) {
  return uint64_t{number} << 32 | first << 16 | end;
}
constexpr uint32_t number_of(uint64_t range) {
  return static_cast<uint32_t>(range >> 32);
}

int32_t host_parallel_for(void* context, GantryLoopBody body, void* closure, int64_t count) {
  return static_cast<ThreadPool*>(context)->parallel_for(body, closure, count);
}

int32_t host_parallel_rounds(void* context, GantryLoopBody body, void* closure, int64_t rounds,
                             int64_t count) {
  return static_cast<ThreadPool*>(context)->parallel_rounds(body, closure, rounds, count);
}

int32_t host_is_first_range(void*) {
  return past_first_range ? 0 : 1;
}

/// One range, which is all of a loop.
int32_t run_alone(GantryLoopBody body, void* closure, int64_t count) {
  const bool outer = std::exchange(past_first_range, false);
  const int32_t error = body(closure, 0, count);
  past_first_range = outer;
  return error;
}

void* host_thread_memory(void* context, int64_t bytes) {
  return static_cast<ThreadPool*>(context)->thread_memory(bytes);
}

// What generated code takes at most (a megabyte, in kernels of the emulated GPU), and some to spare; where
// the process's limits give threads more, they get more.
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

}  // namespace

ThreadPool::ThreadPool()
    : host_{GANTRY_KERNEL_ABI_VERSION,
            sizeof(GantryKernelHost),
            this,
            host_parallel_for,
            nullptr,
            host_thread_memory,
            host_parallel_rounds,
            host_is_first_range} {}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int threads, std::span<const int> cpus) {
  if (threads < 1 || threads > 1024) {
    return failure(GANTRY_INVALID_ARGUMENT, "%d threads: give a number from 1 to 1024", threads);
  }
  std::unique_ptr<ThreadPool> pool(new ThreadPool);
  for (int i = 0; i < threads; ++i) {
    auto slot = std::make_unique<Slot>();
    slot->pool = pool.get();
    slot->index = static_cast<uint32_t>(i);
    pool->slots_.push_back(std::move(slot));
    pool->memory_.emplace_back();
    // Where the threads' cores are not known, they count as alike.
    const bool all_pinned = cpus.size() >= static_cast<size_t>(threads);
    pool->weights_.push_back(all_pinned ? cpu_capacity(cpus[static_cast<size_t>(i)]) : 1);
  }
  const std::optional<cpu_set_t> unpinned = affinity_before_pins();
  for (int i = 1; i < threads; ++i) {
    pthread_t thread{};
    const int error = start_thread(&thread, worker_main, pool->slots_[static_cast<size_t>(i)].get());
    if (error != 0) return failure(GANTRY_OUT_OF_MEMORY, "cannot start thread %d: %s", i, strerror(error));
    pool->workers_.push_back(thread);
    if (static_cast<size_t>(i) < cpus.size()) {
      GANTRY_TRY(pin_thread(thread, cpus[static_cast<size_t>(i)]));
    } else if (unpinned) {
      // What it has inherited is one CPU; without success it stays there, which is slow at worst.
      pthread_setaffinity_np(thread, sizeof *unpinned, &*unpinned);
    }
  }
  return pool;
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create_on_all_cores() {
  const std::vector<int> cpus = cores_from_this_one();
  auto pool = create(static_cast<int>(cpus.size()), cpus);
  if (pool.ok()) {
    (*pool)->core_cpus_ = cpus;
    (*pool)->caller_cpu_ = cpus.front();
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  const uint32_t number = number_.load() + 1;
  for (const auto& slot : slots_) slot->range.store(pack(number, 0, 0));
  number_.store(number);
  futex_wake_all(number_);
  for (const pthread_t worker : workers_) pthread_join(worker, nullptr);
}

void ThreadPool::partition(std::span<const uint32_t> weights, uint32_t units, std::vector<uint32_t>& bounds) {
  uint64_t total = 0, before = 0;
  for (const uint32_t weight : weights) total += weight;
  bounds.assign(1, 0);
  for (const uint32_t weight : weights) {
    before += weight;
    // Rounded up: what does not divide falls to the first threads, which start first.
    bounds.push_back(static_cast<uint32_t>((before * units + total - 1) / total));
  }
}

void* ThreadPool::worker_main(void* slot) {
  auto* self = static_cast<Slot*>(slot);
  thread_index = self->index;
  self->pool->work(*self);
  return nullptr;
}

// A sleeper counts itself before it looks at the number again, and the caller changes the number before it
// looks for sleepers: in the total order of these (sequentially consistent) accesses one of them sees the
// other.
uint32_t ThreadPool::await_loop(const Slot& self, uint32_t seen) {
  const auto moved = [&] { return number_of(self.range.load(std::memory_order_acquire)) != seen; };
  if (!spin_until(moved)) {
    sleepers_.fetch_add(1);
    while (number_.load() == seen) futex_wait(number_, seen);
    sleepers_.fetch_sub(1);
  }
  return number_of(self.range.load(std::memory_order_acquire));
}

void ThreadPool::work(Slot& self) {
  uint32_t seen = 0;
  for (;;) {
    seen = await_loop(self, seen);
    if (stop_.load()) return;
    const Loop loop{
        self.body.load(std::memory_order_relaxed),   self.closure.load(std::memory_order_relaxed),
        self.count.load(std::memory_order_relaxed),  self.units.load(std::memory_order_relaxed),
        self.rounds.load(std::memory_order_relaxed), self.each_thread.load(std::memory_order_relaxed) != 0};
    set_float_mode(self.float_mode.load(std::memory_order_relaxed));
    take_part(self.index, seen, loop);
  }
}

// Takes units of a range, its owner from the front and the others from the back: half of what is left, but
// not too little. False when none is left or that loop is over.
bool ThreadPool::claim(Slot& slot, uint32_t number, bool owner, uint32_t least, Units& claimed) {
  uint64_t range = slot.range.load(std::memory_order_acquire);
  for (;;) {
    const uint32_t begin = range >> 16 & 0xffff, end = range & 0xffff;
    if (number_of(range) != number || begin == end) return false;
    const uint32_t taken = std::min(end - begin, std::max((end - begin + 1) / 2, least));
    claimed = owner ? Units{begin, begin + taken} : Units{end - taken, end};
    const uint64_t rest = owner ? pack(number, claimed.end, end) : pack(number, begin, claimed.begin);
    if (slot.range.compare_exchange_weak(range, rest, std::memory_order_acq_rel, std::memory_order_acquire))
      return true;
  }
}

int32_t ThreadPool::run_range(const Loop& loop, int64_t begin, int64_t end) {
  const int32_t error = loop.body(loop.closure, begin, end);
  past_first_range = true;
  return error;
}

int32_t ThreadPool::run_units(const Loop& loop, uint32_t owner, Units units) const {
  const uint32_t first = bounds_[owner], length = bounds_[owner + 1] - first;
  if (loop.rounds == 1) {
    // Units differ by one iteration at most; free of overflow for every count.
    const int64_t size = loop.count / loop.units, rest = loop.count % loop.units;
    const auto iteration = [&](int64_t unit) { return unit * size + unit * rest / loop.units; };
    return run_range(loop, iteration(first + units.begin), iteration(first + units.end));
  }
  const int64_t count = loop.count / loop.rounds;
  int32_t error = 0;
  for (uint32_t at = units.begin; at < units.end && error == 0;) {
    const uint32_t round = at / length, end = std::min(units.end, (round + 1) * length);
    const int64_t begin = round * count + first + (at - round * length);
    error = run_range(loop, begin, begin + (end - at));
    at = end;
  }
  return error;
}

void ThreadPool::take_part(uint32_t self, uint32_t number, const Loop& loop) {
  const auto threads = static_cast<uint32_t>(slots_.size());
  const uint32_t ranges = loop.each_thread ? 1 : threads;
  const uint32_t least = std::max(loop.units / threads / kPiecesAtMost, 1u);
  uint32_t finished = 0;
  Units units;
  inside_loop = true;
  for (uint32_t i = 0; i < ranges; ++i) {
    Slot& slot = *slots_[(self + i) % threads];
    while (claim(slot, number, i == 0, least, units)) {
      if (const int32_t error = run_units(loop, slot.index, units); error != 0) {
        int32_t none = 0;
        error_.compare_exchange_strong(none, error);
      }
      finished += units.end - units.begin;
    }
  }
  inside_loop = past_first_range = false;
  if (finished == 0) return;
  const uint32_t done = done_.fetch_add(finished) + finished;
  if (self != 0 && done == loop.units && caller_sleeps_.load() != 0) futex_wake_all(done_);
}

void ThreadPool::await_units(uint32_t units) {
  if (spin_until([&] { return done_.load(std::memory_order_acquire) == units; })) return;
  caller_sleeps_.store(1);
  for (uint32_t done = done_.load(); done != units; done = done_.load()) futex_wait(done_, done);
  caller_sleeps_.store(0);
}

// Linux may move the caller to a worker's core, and cannot move a pinned worker: until the caller is moved
// again, for some ten milliseconds, both would share that core and leave another idle.
void ThreadPool::keep_clear_of_caller() {
  const int cpu = sched_getcpu();
  if (cpu == caller_cpu_) return;
  caller_cpu_ = cpu;
  const int core = cpu_info().core_cpu(cpu);
  const auto taken =
      static_cast<size_t>(std::find(core_cpus_.begin(), core_cpus_.end(), core) - core_cpus_.begin());
  if (taken == 0 || taken == core_cpus_.size()) return;
  // Without success the worker stays, which is slow at worst.
  if (!pin_thread(workers_[taken - 1], core_cpus_[0]).ok()) return;
  std::swap(core_cpus_[0], core_cpus_[taken]);
  std::swap(weights_[0], weights_[taken]);
  bounds_.clear();
}

// Everything of the loop before was done, so nobody takes units and nobody trusts what these lines said.
void ThreadPool::publish(const Loop& loop) {
  if (!core_cpus_.empty()) keep_clear_of_caller();
  const uint32_t units = loop.units / loop.rounds;
  if (loop.each_thread) {
    bounds_.resize(slots_.size() + 1);
    std::iota(bounds_.begin(), bounds_.end(), 0u);
  } else if (bounds_.empty() || bounds_.back() != units) {
    partition(weights_, units, bounds_);
  }
  error_.store(0, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  const uint32_t number = number_.load(std::memory_order_relaxed) + 1, mode = float_mode();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = *slots_[i];
    slot.body.store(loop.body, std::memory_order_relaxed);
    slot.closure.store(loop.closure, std::memory_order_relaxed);
    slot.count.store(loop.count, std::memory_order_relaxed);
    slot.units.store(loop.units, std::memory_order_relaxed);
    slot.rounds.store(loop.rounds, std::memory_order_relaxed);
    slot.float_mode.store(mode, std::memory_order_relaxed);
    slot.each_thread.store(loop.each_thread ? 1 : 0, std::memory_order_relaxed);
    slot.range.store(pack(number, 0, (bounds_[i + 1] - bounds_[i]) * loop.rounds), std::memory_order_release);
  }
  number_.store(number);
  if (sleepers_.load() != 0) futex_wake_all(number_);
}

size_t ThreadPool::calling_thread() {
  return thread_index;
}

void* ThreadPool::thread_memory(int64_t bytes) {
  if (bytes < 0 || thread_index >= memory_.size()) return nullptr;
  AlignedBuffer& memory = memory_[thread_index];
  if (!memory.reserve(static_cast<uint64_t>(bytes), "a thread's memory").ok()) return nullptr;
  return memory.data();
}

void ThreadPool::run(const Loop& loop) {
  publish(loop);
  take_part(0, number_.load(std::memory_order_relaxed), loop);
  await_units(loop.units);
}

int32_t ThreadPool::parallel_for(GantryLoopBody body, void* closure, int64_t count) {
  if (count <= 0) return 0;
  if (inside_loop || workers_.empty() || count == 1) return run_alone(body, closure, count);
  const int64_t most = int64_t{kUnitsPerThread} * threads();
  run({body, closure, count, static_cast<uint32_t>(count < most ? count : most), 1});
  return error_.load(std::memory_order_relaxed);
}

int32_t ThreadPool::parallel_rounds(GantryLoopBody body, void* closure, int64_t rounds, int64_t count) {
  if (rounds <= 0 || count <= 0) return 0;
  // Too few to divide, or more than a range holds.
  const bool divides = rounds > 1 && count >= threads() && count <= kMaxUnits / rounds;
  if (inside_loop || workers_.empty() || !divides) return parallel_for(body, closure, rounds * count);
  const int64_t all = rounds * count;
  run({body, closure, all, static_cast<uint32_t>(all), static_cast<uint32_t>(rounds)});
  return error_.load(std::memory_order_relaxed);
}

int32_t ThreadPool::run_on_each_thread(GantryLoopBody body, void* closure) {
  if (inside_loop) return -1;  // the other threads would never come
  if (workers_.empty()) return run_alone(body, closure, 1);
  run({body, closure, threads(), static_cast<uint32_t>(threads()), 1, true});
  bounds_.clear();  // those were not by the cores' speeds
  return error_.load(std::memory_order_relaxed);
}

std::vector<int> ThreadPool::thread_cpus() {
  std::vector<int> cpus(slots_.size(), -1);
  const auto ask = [](void* closure, int64_t begin, int64_t) {
    (*static_cast<std::vector<int>*>(closure))[static_cast<size_t>(begin)] = sched_getcpu();
    return int32_t{0};
  };
  run_on_each_thread(ask, &cpus);
  return cpus;
}

}  // namespace gantry::runtime
