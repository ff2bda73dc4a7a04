#include "device_runtime/src/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "device_runtime/src/small_file.h"

namespace gantry::runtime {
namespace {

/// What stands behind the name in text of lines "name number"; 0 if it is not there.
uint64_t number_of(const std::string& text, const char* name) {
  const size_t length = strlen(name);
  for (const char* line = text.c_str(); line != nullptr; line = strchr(line, '\n')) {
    if (*line == '\n') ++line;
    if (strncmp(line, name, length) == 0) return strtoull(line + length, nullptr, 10);
  }
  return 0;
}

/// How a version of Linux's control groups shows memory, in bytes.
struct GroupVersion {
  char controller[8];  ///< by which /proc/self/cgroup names the group; "" for version 2
  char mount[24];
  char limit[24], used[24];    ///< files of a group, itself and those within it together
  char files[16], shared[16];  ///< lines of its memory.stat: cached files, and shared memory among them
};
constexpr GroupVersion kGroupVersions[] = {
    {"", "/sys/fs/cgroup", "memory.max", "memory.current", "file ", "shmem "},
    {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache ",
     "total_shmem "},
};

/// Whether the words, which commas part, have that one among them; none are one that is empty.
bool has_word(std::string_view words, std::string_view word) {
  for (;;) {
    const size_t comma = words.find(',');
    if (words.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) return false;
    words.remove_prefix(comma + 1);
  }
}

/// The group of that controller in the text of /proc/self/cgroup, lines "number:controllers:path", below its
/// mount: "/system.slice/x.service", "" for the root or where there is none.
std::string_view own_group(std::string_view text, std::string_view controller) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t name = line.find(':') + 1, path = line.find(":/", name);
    if (name == 0 || path == std::string_view::npos || !has_word(line.substr(name, path - name), controller)) continue;
    return path + 2 == line.size() ? std::string_view() : line.substr(path + 1);
  }
  return {};
}

/// The number in a file of a group.
std::optional<int64_t> group_number(const std::string& folder, const char* file) {
  return read_small_number(format_text("%s/%s", folder.c_str(), file));
}

/// What the group may still take of that limit, in bytes.
uint64_t left_of(const std::string& folder, const GroupVersion& version, uint64_t limit) {
  const int64_t used = group_number(folder, version.used).value_or(0);
  // The group's use includes cached files, which give way; shared memory counts as a file, and does not.
  const std::string parts = read_small_file(format_text("%s/memory.stat", folder.c_str()));
  const uint64_t files = number_of(parts, version.files), shared = number_of(parts, version.shared);
  const auto held = static_cast<uint64_t>(std::max<int64_t>(used, 0));
  const uint64_t stays = held - std::min(held, files - std::min(files, shared));
  return limit - std::min(limit, stays);
}

enum class Share { kAll, kLeft };

/// The least of `most` and what this process's control groups and those around them allow, up to what is
/// mounted: in a container with a namespace of its own, or where its own group is mounted as the root, that is
/// all there is. All of their limits, or what is left of them, in bytes.
uint64_t least_of_groups(const std::string& root, uint64_t most, Share share) {
  const std::string groups = read_small_file(format_text("%s/proc/self/cgroup", root.c_str()));
  for (const GroupVersion& version : kGroupVersions) {
    std::string_view path = own_group(groups, version.controller);
    for (bool more = true; more;) {
      const std::string folder =
          format_text("%s%s%.*s", root.c_str(), version.mount, static_cast<int>(path.size()), path.data());
      const int64_t limit = group_number(folder, version.limit).value_or(0);  // none where it is "max"
      const auto bytes = static_cast<uint64_t>(limit);
      if (limit > 0) most = std::min(most, share == Share::kAll ? bytes : left_of(folder, version, bytes));
      more = !path.empty();
      if (more) path = path.substr(0, path.rfind('/'));
    }
  }
  return most;
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
  // Linux says in a dozen files what there is, and may say less the next time: for a buffer of weight reading
  // them is little beside getting its pages, and a process that runs has as much as a small one.
  constexpr uint64_t kOfWeight = uint64_t{4} << 20;
  const uint64_t usable = bytes < kOfWeight ? 0 : usable_memory_bytes();
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
  const bool known = pages > 0 && page > 0;
  const uint64_t total = known ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : UINT64_MAX;
  const uint64_t least = least_of_groups(root, total, Share::kAll);
  return least == UINT64_MAX ? 0 : least;
}

// Not getrusage(): its peak counts what the process was before exec(), too.
uint64_t peak_resident_memory_bytes() {
  return number_of(read_small_file("/proc/self/status"), "VmHWM:") * 1024;
}

std::optional<uint64_t> available_memory_bytes(const std::string& root) {
  const std::string text = read_small_file(format_text("%s/proc/meminfo", root.c_str()));
  if (text.find("MemAvailable:") == std::string::npos) return std::nullopt;
  return least_of_groups(root, number_of(text, "MemAvailable:") * 1024, Share::kLeft);
}

}  // namespace gantry::runtime
