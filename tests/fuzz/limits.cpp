#include "tests/fuzz/limits.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace gantry::fuzz {
namespace {

constexpr unsigned kSeconds = 20;
constexpr rlim_t kMemory = rlim_t{2} << 30;

const char *watched = "", *failure = "";

void on_death(int number) {
  if (FILE* file = std::fopen(failure, "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
  }
  std::fprintf(stderr, "%s: signal %d; what it was fed is in %s\n", watched, number, failure);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

}  // namespace

std::string current;

void watch(const char* name, const char* file) {
  watched = name;
  failure = file;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  std::ifstream status("/proc/self/statm");
  rlim_t pages = 0;
  status >> pages;
  const rlimit limit{pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kMemory, RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &limit);
#endif
  for (int number : {SIGXCPU, SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS}) ::signal(number, on_death);
}

void limit_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const rlimit limit{static_cast<rlim_t>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + kSeconds,
                     RLIM_INFINITY};
  ::setrlimit(RLIMIT_CPU, &limit);
}

void die() {
  std::fflush(stdout);
  std::abort();
}

}  // namespace gantry::fuzz
