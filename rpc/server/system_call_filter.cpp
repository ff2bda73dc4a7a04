#include "rpc/server/system_call_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace gantry::rpc {
namespace {

#if defined(__x86_64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#else
constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#endif
constexpr unsigned kClone3 = 435;
/// Numbers from here on are those of x86-64's x32 ABI.
constexpr unsigned kOtherNumbers = 0x40000000;
/// Filters need not make memory slower by guarding against speculation, which they do before Linux 5.16: the
/// module itself is what the process is for.
constexpr unsigned kNoSpeculationGuard = 1u << 2;

constexpr sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset));
}
constexpr sock_filter fail(unsigned error) {
  return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
}
/// Skips the next instruction unless the loaded value is this one.
constexpr sock_filter if_equal(unsigned value) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
}

}  // namespace

int forbid_new_processes() {
  sock_filter program[] = {
    load(offsetof(seccomp_data, arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
    fail(EPERM),
    load(offsetof(seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kOtherNumbers, 0, 1),
    fail(EPERM),
#if defined(SYS_fork)
    if_equal(SYS_fork),
    fail(EAGAIN),
    if_equal(SYS_vfork),
    fail(EAGAIN),
#endif
    if_equal(SYS_execve),
    fail(EPERM),
    if_equal(SYS_execveat),
    fail(EPERM),
    // Its flags are in memory, where a filter cannot look; libraries use clone() where it is missing.
    if_equal(kClone3),
    fail(ENOSYS),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
    load(offsetof(seccomp_data, args[0])),  // the lower half: both architectures are little-endian
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
    fail(EAGAIN),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof program / sizeof *program, program};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kNoSpeculationGuard, &filter) == 0) return 0;
  // Before Linux 4.17 there is neither the flag nor the guard.
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0 ? 0 : errno;
}

}  // namespace gantry::rpc
