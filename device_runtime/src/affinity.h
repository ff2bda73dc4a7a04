// Which CPUs threads run on.
#pragma once

#include <pthread.h>

#include <vector>

#include "device_runtime/src/status.h"

namespace gantry::runtime {

/// Lets a thread run on one CPU only; INVALID_ARGUMENT with its number if that is not possible.
Status pin_thread(pthread_t thread, int cpu);
Status pin_this_thread(int cpu);

/// A CPU of each core that this process may use (CpuInfo::core_cpus), in their order from the one whose core
/// the calling thread is on, round to the one before.
std::vector<int> cores_from_this_one();

}  // namespace gantry::runtime
