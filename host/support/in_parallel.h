// Loops over constants of many megabytes, divided among the machine's cores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "host/support/start_thread.h"

namespace gantry {

/// Calls `run(begin, end)` for parts of 0 … count - 1 on several threads; it must not throw.
inline void in_parallel(int64_t count, const std::function<void(int64_t, int64_t)>& run) {
  const auto most = static_cast<int64_t>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
  const int64_t threads = std::clamp<int64_t>(count, 1, most);
  std::vector<std::thread> workers;
  int64_t started = 1;
  while (started < threads &&
         start_thread(workers, run, count * started / threads, count * (started + 1) / threads))
    ++started;
  run(0, count / threads);
  if (started < threads) run(count * started / threads, count);
  for (std::thread& worker : workers) worker.join();
}

}  // namespace gantry
