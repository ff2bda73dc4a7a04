#include "device_runtime/src/affinity.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include <algorithm>
#include <string>

#include "device_runtime/src/cpu_info.h"

namespace gantry::runtime {
namespace {

/// "0-3, 8": the CPUs that this process may use.
std::string allowed_cpus_text() {
  const std::vector<int>& cpus = cpu_info().allowed_cpus;
  std::string text;
  for (size_t i = 0; i < cpus.size(); ++i) {
    const size_t first = i;
    while (i + 1 < cpus.size() && cpus[i + 1] == cpus[i] + 1) ++i;
    text += (text.empty() ? "" : ", ") + std::to_string(cpus[first]);
    if (i > first) text += "-" + std::to_string(cpus[i]);
  }
  return text;
}

}  // namespace

Status pin_thread(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int error = EINVAL;
  if (cpu >= 0 && cpu < CPU_SETSIZE) {
    CPU_SET(cpu, &set);
    error = pthread_setaffinity_np(thread, sizeof set, &set);
  }
  if (error == 0) return Status();
  return failure(GANTRY_INVALID_ARGUMENT, "cannot pin a thread to CPU %d: %s; this process may use CPUs %s",
                 cpu, strerror(error), allowed_cpus_text().c_str());
}

Status pin_this_thread(int cpu) {
  return pin_thread(pthread_self(), cpu);
}

std::vector<int> cores_from_this_one() {
  std::vector<int> cpus = cpu_info().core_cpus;
  const auto here = std::find(cpus.begin(), cpus.end(), cpu_info().core_cpu(sched_getcpu()));
  if (here != cpus.end()) std::rotate(cpus.begin(), here, here + 1);
  return cpus;
}

}  // namespace gantry::runtime
