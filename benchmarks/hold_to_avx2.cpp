// Loaded with LD_PRELOAD, makes a program believe that its CPU ends at AVX2: CPUID no longer names AVX-512,
// AMX and the other extensions past x86-64-v3. For libraries that choose their kernels by CPUID and have no
// switch of their own:
//
//   LD_PRELOAD=$PWD/build/lib/libhold_to_avx2.so python3 ...
//
// Linux lets a process make CPUID fault (arch_prctl(2), ARCH_SET_CPUID) where the CPU can; the fault arrives
// as SIGSEGV, whose handler executes the instruction and takes bits away. Threads inherit the setting, exec
// ends it and a preloaded library starts it again. The C library has chosen its own routines by then and
// keeps AVX-512 in memcpy. Where the CPU cannot fault the program ends with an error, lest a figure be taken
// for what it is not; where it can, HELD_TO_AVX2=1 stands in its environment. A program that handles SIGSEGV
// itself cannot be held. Leaves that describe the state of registers (0DH, 1DH, 1EH) are left as they are:
// what chooses kernels asks leaf 7 first. Bits: Intel SDM, volume 2A, CPUID, leaf 07H.
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

constexpr int kArchSetCpuid = 0x1012;
constexpr uint8_t kCpuidBytes[] = {0x0F, 0xA2};
constexpr greg_t kLow = 0xFFFFFFFF;

constexpr uint32_t bits(std::initializer_list<int> positions) {
  uint32_t mask = 0;
  for (const int position : positions) mask |= uint32_t{1} << position;
  return mask;
}

// Leaf 7, subleaf 0.
constexpr uint32_t kHiddenEbx = bits({16, 17, 21, 26, 27, 28, 30, 31});  // AVX512 F DQ IFMA PF ER CD BW VL
constexpr uint32_t kHiddenEcx = bits({1, 6, 8, 9, 10, 11, 12, 14});  // AVX512 VBMI VBMI2 VNNI .., GFNI, VAES
constexpr uint32_t kHiddenEdx = bits({2, 3, 8, 22, 23, 24, 25});     // AVX512 .., FP16, AMX BF16 TILE INT8
// Leaf 7, subleaf 1.
constexpr uint32_t kHiddenEax1 = bits({4, 5, 21, 23});  // AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA
constexpr uint32_t kHiddenEdx1 =
    bits({4, 5, 8, 10, 19});  // AVX-VNNI-INT8, NE-CONVERT, AMX-COMPLEX, .., AVX10

struct Registers {
  uint32_t eax, ebx, ecx, edx;
};

Registers masked_cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r{leaf, 0, subleaf, 0};
  asm volatile("cpuid" : "+a"(r.eax), "=b"(r.ebx), "+c"(r.ecx), "=d"(r.edx));
  if (leaf == 7 && subleaf == 0) {
    r.ebx &= ~kHiddenEbx;
    r.ecx &= ~kHiddenEcx;
    r.edx &= ~kHiddenEdx;
  } else if (leaf == 7 && subleaf == 1) {
    r.eax &= ~kHiddenEax1;
    r.edx &= ~kHiddenEdx1;
  }
  return r;
}

bool set_cpuid_enabled(bool enabled) {
  return syscall(SYS_arch_prctl, kArchSetCpuid, enabled ? 1 : 0) == 0;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (info->si_code <= 0) return;  // sent by a process: nothing faulted
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const void* instruction = reinterpret_cast<const void*>(registers[REG_RIP]);
  if (std::memcmp(instruction, kCpuidBytes, sizeof kCpuidBytes) != 0) {
    std::signal(signal, SIG_DFL);  // a fault of the program's own: it happens again, and ends it
    return;
  }
  set_cpuid_enabled(true);
  const Registers r = masked_cpuid(static_cast<uint32_t>(registers[REG_RAX] & kLow),
                                   static_cast<uint32_t>(registers[REG_RCX] & kLow));
  set_cpuid_enabled(false);
  registers[REG_RAX] = r.eax;
  registers[REG_RBX] = r.ebx;
  registers[REG_RCX] = r.ecx;
  registers[REG_RDX] = r.edx;
  registers[REG_RIP] += sizeof kCpuidBytes;
}

__attribute__((constructor)) void hold() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGSEGV, &action, nullptr) != 0 || !set_cpuid_enabled(false)) {
    std::fputs("hold_to_avx2: this CPU or kernel cannot make CPUID fault\n", stderr);
    std::_Exit(1);
  }
  setenv("HELD_TO_AVX2", "1", 1);
}

}  // namespace
