// Makes the system refuse memory.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

#include "device_runtime/src/memory.h"

namespace gantry::runtime::testing {

/// While it is there, this process may map that many bytes more, all of its threads together.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(uint64_t bytes) {
    ::getrlimit(RLIMIT_AS, &before_);
    std::ifstream status("/proc/self/statm");
    rlim_t pages = 0;
    status >> pages;
    const rlimit limit{pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressSpaceLimit() { ::setrlimit(RLIMIT_AS, &before_); }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

  /// Whether there is such a limit: emulators ignore it, and sanitizers would be refused what they map.
  static bool is_possible() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    const AddressSpaceLimit limit(uint64_t{1} << 20);
    return !AlignedBuffer().reserve(uint64_t{2} << 20, "a test").ok();
#endif
  }

 private:
  rlimit before_{};
};

}  // namespace gantry::runtime::testing
