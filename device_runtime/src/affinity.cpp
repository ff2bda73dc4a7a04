#include "device_runtime/src/affinity.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <mutex>
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

// Nothing that would be destroyed when a thread or the process ends: sessions may end later.
std::mutex pins_mutex;
CallerPin* newest_pin = nullptr;

/// A number that no other thread has or had; ids are used again.
uint32_t this_thread_number() {
  static std::atomic<uint32_t> last{0};
  thread_local uint32_t number = 0;
  if (number == 0) number = ++last;
  return number;
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

Status CallerPin::set(int cpu) {
  if (pthread_getaffinity_np(pthread_self(), sizeof before_, &before_) == 0) {
    thread_ = this_thread_number();
    const std::lock_guard lock(pins_mutex);
    older_ = newest_pin;
    newest_pin = this;
  }
  return pin_this_thread(cpu);
}

CallerPin::~CallerPin() {
  if (thread_ == 0) return;
  const std::lock_guard lock(pins_mutex);
  CallerPin* next = nullptr;  // of the same thread, which was pinned on from what this one did
  CallerPin** link = &newest_pin;
  for (; *link != this; link = &(*link)->older_) {
    if ((*link)->thread_ == thread_) next = *link;
  }
  *link = older_;
  if (next != nullptr) {
    next->before_ = before_;
  } else if (thread_ == this_thread_number()) {
    pthread_setaffinity_np(pthread_self(), sizeof before_, &before_);
  }
}

std::optional<cpu_set_t> affinity_before_pins() {
  const uint32_t thread = this_thread_number();
  const CallerPin* first = nullptr;
  const std::lock_guard lock(pins_mutex);
  for (const CallerPin* pin = newest_pin; pin != nullptr; pin = pin->older_) {
    if (pin->thread_ == thread) first = pin;
  }
  if (first == nullptr) return std::nullopt;
  return first->before_;
}

std::vector<int> cores_from_this_one() {
  std::vector<int> cpus = cpu_info().core_cpus;
  const auto here = std::find(cpus.begin(), cpus.end(), cpu_info().core_cpu(sched_getcpu()));
  if (here != cpus.end()) std::rotate(cpus.begin(), here, here + 1);
  return cpus;
}

}  // namespace gantry::runtime
