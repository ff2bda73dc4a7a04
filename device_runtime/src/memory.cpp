#include "device_runtime/src/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "device_runtime/src/small_file.h"

namespace gantry::runtime {
namespace {

/// The number behind the name in text of lines "name number"; 0 if it is not there.
uint64_t number_of(const std::string& text, const std::string& name) {
  const size_t at = ("\n" + text).find("\n" + name);
  return at == std::string::npos ? 0 : strtoull(text.c_str() + at + name.size(), nullptr, 10);
}

/// How a version of Linux's control groups shows memory, in bytes.
struct GroupVersion {
  const char* controller;  ///< by which /proc/self/cgroup names the group; "" for version 2
  const char* mount;
  const char *limit, *used;    ///< files of a group, itself and those within it together
  const char *files, *shared;  ///< lines of its memory.stat: cached files, and shared memory among them
};
constexpr GroupVersion kGroupVersions[] = {
    {"", "/sys/fs/cgroup", "/memory.max", "/memory.current", "file ", "shmem "},
    {"memory", "/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_cache ",
     "total_shmem "},
};

struct GroupLimit {
  std::string folder;
  const GroupVersion* version;
  uint64_t bytes;
};

/// The group of that controller in the text of /proc/self/cgroup, lines "number:controllers:path", below its
/// mount: "/system.slice/x.service", "" for the root or where there is none.
std::string own_group(const std::string& text, std::string_view controller) {
  const std::string wanted = "," + std::string(controller) + ",";
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const size_t name = line.find(':') + 1, path = line.find(":/", name);
    if (name == 0 || path == std::string::npos) continue;
    const std::string controllers = "," + line.substr(name, path - name) + ",";
    if (controllers.find(wanted) == std::string::npos) continue;
    return path + 2 == line.size() ? "" : line.substr(path + 1);
  }
  return "";
}

/// Limits of this process's control groups and of those around them, up to what is mounted: in a container
/// with a namespace of its own, or where its own group is mounted as the root, that is all there is.
std::vector<GroupLimit> group_limits(const std::string& root) {
  std::vector<GroupLimit> limits;
  const std::string groups = read_small_file(root + "/proc/self/cgroup");
  for (const GroupVersion& version : kGroupVersions) {
    std::string path = own_group(groups, version.controller);
    for (bool more = true; more;) {
      std::string folder = root + version.mount + path;
      const auto limit = read_small_number(folder + version.limit);  // none where it is "max"
      if (limit && *limit > 0) limits.push_back({std::move(folder), &version, static_cast<uint64_t>(*limit)});
      more = !path.empty();
      if (more) path.erase(path.rfind('/'));
    }
  }
  return limits;
}

/// What the group may still take, in bytes.
uint64_t left_of(const GroupLimit& group) {
  const auto used = read_small_number(group.folder + group.version->used).value_or(0);
  // The group's use includes cached files, which give way; shared memory counts as a file, and does not.
  const std::string parts = read_small_file(group.folder + "/memory.stat");
  const uint64_t files = number_of(parts, group.version->files);
  const uint64_t shared = number_of(parts, group.version->shared);
  const auto held = static_cast<uint64_t>(std::max<int64_t>(used, 0));
  const uint64_t stays = held - std::min(held, files - std::min(files, shared));
  return group.bytes - std::min(group.bytes, stays);
}

struct Unmapper {
  void* address;
  size_t size;
  ~Unmapper() { munmap(address, size); }
};

}  // namespace

Result<SharedBytes> map_fd(int fd, const std::string& name) {
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return failure(GANTRY_IO_ERROR, "cannot read '%s': %s", name.c_str(), strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) return failure(GANTRY_IO_ERROR, "'%s' is not a regular file", name.c_str());
  if (info.st_size == 0) return SharedBytes{};
  const auto size = static_cast<size_t>(info.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) {
    return failure(errno == ENOMEM ? GANTRY_OUT_OF_MEMORY : GANTRY_IO_ERROR, "cannot map '%s': %s",
                   name.c_str(), strerror(errno));
  }
  SharedBytes result;
  result.bytes = {static_cast<const std::byte*>(address), size};
  result.owner = std::shared_ptr<const Unmapper>(new Unmapper{address, size});
  result.is_mapped = true;
  return result;
}

Result<SharedBytes> map_file(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failure(GANTRY_IO_ERROR, "cannot open '%s': %s", path.c_str(), strerror(errno));
  Result<SharedBytes> result = map_fd(fd, path);
  close(fd);
  return result;
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr) munmap(data_, capacity_);
}

Status AlignedBuffer::reserve(uint64_t bytes, const char* what) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes == 0) bytes = 1;
  if (data_ != nullptr && bytes <= capacity_) return Status();
  const uint64_t usable = usable_memory_bytes();
  if (bytes > UINT64_MAX - page || (usable > 0 && bytes > usable)) {
    return failure(
        GANTRY_OUT_OF_MEMORY, "%s needs %s, this machine has %s: use smaller inputs or a smaller model", what,
        byte_text(static_cast<double>(bytes)).c_str(), byte_text(static_cast<double>(usable)).c_str());
  }
  const uint64_t rounded = (bytes + page - 1) / page * page;
  AlignedBuffer().swap(*this);
  void* address = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return failure(GANTRY_OUT_OF_MEMORY, "%s needs %s, which the system refuses: %s", what,
                   byte_text(static_cast<double>(bytes)).c_str(), strerror(errno));
  }
  // Only advice: where the kernel has no huge pages, small ones do.
  if (rounded >= (2u << 20)) (void)madvise(address, rounded, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(address);
  capacity_ = rounded;
  return Status();
}

void AlignedBuffer::shrink(uint64_t bytes) {
  if (bytes >= capacity_) return;
  if (bytes == 0) {
    AlignedBuffer().swap(*this);
    return;
  }
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t rounded = (bytes + page - 1) / page * page;
  // Where the system refuses, all of it stays.
  if (rounded < capacity_ && munmap(data_ + rounded, capacity_ - rounded) == 0) capacity_ = rounded;
}

bool has_huge_pages() {
  const std::string modes = read_small_file("/sys/kernel/mm/transparent_hugepage/enabled");
  return modes.find("[always]") != std::string::npos || modes.find("[madvise]") != std::string::npos;
}

uint64_t usable_memory_bytes(const std::string& root) {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  uint64_t total = pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
  for (const GroupLimit& group : group_limits(root)) {
    if (total == 0 || group.bytes < total) total = group.bytes;
  }
  return total;
}

// Not getrusage(): its peak counts what the process was before exec(), too.
uint64_t peak_resident_memory_bytes() {
  const std::string text = read_small_file("/proc/self/status");
  constexpr char kField[] = "VmHWM:";
  const size_t at = text.find(kField);
  if (at == std::string::npos) return 0;
  return strtoull(text.c_str() + at + sizeof kField - 1, nullptr, 10) * 1024;
}

std::optional<uint64_t> available_memory_bytes(const std::string& root) {
  const std::string text = read_small_file(root + "/proc/meminfo");
  if (text.find("MemAvailable:") == std::string::npos) return std::nullopt;
  uint64_t bytes = number_of(text, "MemAvailable:") * 1024;
  for (const GroupLimit& group : group_limits(root)) bytes = std::min(bytes, left_of(group));
  return bytes;
}

}  // namespace gantry::runtime
