// Loops over constants of many megabytes, divided among the machine's cores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace gantry {

/// Calls `run(begin, end)` for parts of 0 … count - 1 on several threads; it must not throw.
inline void in_parallel(int64_t count, const std::function<void(int64_t, int64_t)>& run) {
  const auto most = static_cast<int64_t>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
  const int64_t threads = std::clamp<int64_t>(count, 1, most);
  std::vector<std::thread> workers;
  for (int64_t i = 1; i < threads; ++i)
    workers.emplace_back(run, count * i / threads, count * (i + 1) / threads);
  run(0, count / threads);
  for (std::thread& worker : workers) worker.join();
}

}  // namespace gantry
