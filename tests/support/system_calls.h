/// Code of test modules that calls the system: it has no libc.
#pragma once

#include <string>

namespace gantry::testing {

/// A body for TestModule in which `call(number, a, b, c, d, e, f)` makes a system call.
inline std::string with_system_calls(const std::string& body) {
#if defined(__x86_64__)
  const std::string call =
      "long call(long n, long a, long b, long c, long d, long e, long f) {"
      "  register long r10 __asm__(\"r10\") = d; register long r8 __asm__(\"r8\") = e;"
      "  register long r9 __asm__(\"r9\") = f; long result;"
      "  __asm__ volatile(\"syscall\" : \"=a\"(result)"
      "    : \"a\"(n), \"D\"(a), \"S\"(b), \"d\"(c), \"r\"(r10), \"r\"(r8), \"r\"(r9)"
      "    : \"rcx\", \"r11\", \"memory\"); return result; }";
#else
  const std::string call =
      "long call(long n, long a, long b, long c, long d, long e, long f) {"
      "  register long x8 __asm__(\"x8\") = n; register long x0 __asm__(\"x0\") = a;"
      "  register long x1 __asm__(\"x1\") = b; register long x2 __asm__(\"x2\") = c;"
      "  register long x3 __asm__(\"x3\") = d; register long x4 __asm__(\"x4\") = e;"
      "  register long x5 __asm__(\"x5\") = f;"
      "  __asm__ volatile(\"svc #0\" : \"+r\"(x0)"
      "    : \"r\"(x8), \"r\"(x1), \"r\"(x2), \"r\"(x3), \"r\"(x4), \"r\"(x5) : \"memory\"); return x0; }";
#endif
  return call + body;
}

}  // namespace gantry::testing
