#include "host/records/lock_holder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace gantry::records {
namespace {

/// As /proc/locks names a file: "08:01:1234".
std::string identity_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "";
  return fmt::format("{:02x}:{:02x}:{}", major(status.st_dev), minor(status.st_dev), status.st_ino);
}

std::string name_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

std::string lock_holder(const std::string& path) {
  const std::string file = identity_of(path);
  if (file.empty()) return "";
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // "1: POSIX  ADVISORY  WRITE 1234 08:01:5678 120 120"; of one that waits, "->" stands behind the number.
    std::istringstream words(line);
    std::string number, kind, advisory, access, identity;
    int pid = 0;
    if (!(words >> number >> kind >> advisory >> access >> pid >> identity)) continue;
    if (access != "WRITE" || identity != file || pid <= 0 || pid == ::getpid()) continue;
    const std::string name = name_of(pid);
    return fmt::format(" by process {}{}", pid, name.empty() ? "" : fmt::format(" ({})", name));
  }
  return "";
}

}  // namespace gantry::records
