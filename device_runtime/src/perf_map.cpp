#include "device_runtime/src/perf_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <string>

#include "device_runtime/src/small_file.h"

namespace gantry::runtime {
namespace {

bool is_wanted() {
  const char* value = secure_getenv("GANTRY_PERF_MAP");
  return value != nullptr && value[0] != 0 && strcmp(value, "0") != 0;
}

double seconds_of(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Seconds that this process has lived; 0 where the system does not say.
double age_of_process() {
  // The name of the program, in parentheses, may hold anything; the start is the 20th field behind it.
  const std::string text = read_small_file("/proc/self/stat");
  size_t at = text.rfind(')');
  for (int field = 0; field < 20 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  if (at == std::string::npos) return 0;
  const double started = static_cast<double>(strtoull(text.c_str() + at, nullptr, 10)) /
                         static_cast<double>(sysconf(_SC_CLK_TCK));
  return seconds_of(CLOCK_BOOTTIME) - started;
}

/// The file to append to, -1 and errno if there is none. Everyone may write to /tmp.
int open_map(const char* path) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int made = open(path, kFlags | O_CREAT | O_EXCL, 0600);
  if (made >= 0 || errno != EEXIST) return made;
  const int file = open(path, kFlags);
  if (file < 0) return -1;
  struct stat status {};
  const bool mine = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
                    status.st_nlink == 1 && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  // By an earlier image or another compiler of this process, or by a dead process of this number.
  constexpr double kTick = 0.05;
  const double age = seconds_of(CLOCK_REALTIME) - static_cast<double>(status.st_mtim.tv_sec) -
                     static_cast<double>(status.st_mtim.tv_nsec) * 1e-9;
  if (mine && (age <= age_of_process() + kTick || ftruncate(file, 0) == 0)) return file;
  close(file);
  errno = EPERM;
  return -1;
}

/// One line each, whatever a symbol's name holds.
std::string lines_of(std::span<const CodeRange> ranges) {
  std::string text;
  for (const CodeRange& range : ranges) {
    text += format_text("%llx %llx ", static_cast<unsigned long long>(range.address),
                        static_cast<unsigned long long>(range.bytes));
    for (const char* c = range.name; *c != 0; ++c)
      text += static_cast<unsigned char>(*c) > ' ' && *c != 0x7f ? *c : '_';
    text += '\n';
  }
  return text;
}

}  // namespace

void add_to_perf_map(std::span<const CodeRange> ranges) {
  if (!is_wanted() || ranges.empty()) return;
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%ld.map", static_cast<long>(getpid()));
  const std::string text = lines_of(ranges);
  const int file = open_map(path);
  // One write of a file that is appended to: images of several threads do not mix.
  const bool written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written) fprintf(stderr, "gantry: no names of kernels for perf: %s: %s\n", path, strerror(errno));
  if (file >= 0) close(file);
}

}  // namespace gantry::runtime
