#include "device_runtime/src/instruction_counter.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "device_runtime/src/emulated_counter.h"
#include "device_runtime/src/small_file.h"

namespace gantry::runtime {
namespace {

/// -1, errno set, where the kernel has or gives none.
int open_of_kernel() {
  perf_event_attr attributes{};
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.size = sizeof attributes;
  attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  // Always on the processor: a counter that takes turns with others tells a guess.
  attributes.pinned = 1;
  return static_cast<int>(::syscall(SYS_perf_event_open, &attributes, /*pid=*/0, /*cpu=*/-1, /*group_fd=*/-1,
                                    PERF_FLAG_FD_CLOEXEC));
}

std::string why_no_kernel_counter(int error) {
  std::string why = format_text("perf_event_open: %s", strerror(error));
  if (error == EACCES || error == EPERM) {
    const auto paranoid = read_small_number("/proc/sys/kernel/perf_event_paranoid");
    if (paranoid && *paranoid > 2)
      why += format_text("; kernel.perf_event_paranoid is %d there, and 2 allows it",
                         static_cast<int>(*paranoid));
  } else if (error == ENOENT || error == EOPNOTSUPP || error == ENODEV) {
    why += "; its processor, or the virtual machine that it is, has no such counter";
  } else if (error == ENOSYS) {
    why += "; under qemu-user it takes gantry's plugin: qemu-aarch64 -plugin libgantry_qemu_count.so";
  }
  return why;
}

}  // namespace

Result<InstructionCounter> InstructionCounter::open() {
  std::string why = "the kernel's counter does not count, or others have it";
  if (const int descriptor = open_of_kernel(); descriptor < 0) {
    why = why_no_kernel_counter(errno);
  } else {
    InstructionCounter counter(Source::kKernel, descriptor);
    if (counter.counts()) return Result<InstructionCounter>(std::move(counter));
  }
  InstructionCounter counter(Source::kEmulator, ::memfd_create("gantry-counter", MFD_CLOEXEC));
  if (counter.counts()) return Result<InstructionCounter>(std::move(counter));
  return failure(GANTRY_INCOMPATIBLE, "nothing counts instructions there (%s)", why.c_str());
}

InstructionCounter::~InstructionCounter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InstructionCounter& InstructionCounter::operator=(InstructionCounter&& other) noexcept {
  std::swap(source_, other.source_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(cost_, other.cost_);
  return *this;
}

bool InstructionCounter::read(uint64_t& count) const {
  // A pinned counter that has lost its place on the processor reads as the end of a file.
  if (source_ == Source::kKernel) return ::read(descriptor_, &count, sizeof count) == sizeof count;
  if (source_ != Source::kEmulator) return false;
  ::syscall(SYS_lseek, descriptor_, static_cast<long>(GANTRY_COUNTER_OFFSET),
            static_cast<long>(GANTRY_COUNTER_WHENCE));
  return ::pread(descriptor_, &count, sizeof count, 0) == sizeof count;
}

bool InstructionCounter::counts() {
  // The first reads also bind functions that the program calls for the first time.
  uint64_t before = 0, after = 0;
  for (int i = 0; i < 3; ++i) {
    before = after;
    if (!read(after)) return false;
  }
  cost_ = after - before;
  return after > before;
}

}  // namespace gantry::runtime
