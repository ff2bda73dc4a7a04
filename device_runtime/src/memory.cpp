#include "device_runtime/src/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "device_runtime/src/small_file.h"

namespace gantry::runtime {
namespace {

/// The number behind the name in text of lines "name number"; 0 if it is not there.
uint64_t number_of(const std::string& text, const std::string& name) {
  const size_t at = ("\n" + text).find("\n" + name);
  return at == std::string::npos ? 0 : strtoull(text.c_str() + at + name.size(), nullptr, 10);
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

bool has_huge_pages() {
  const std::string modes = read_small_file("/sys/kernel/mm/transparent_hugepage/enabled");
  return modes.find("[always]") != std::string::npos || modes.find("[madvise]") != std::string::npos;
}

uint64_t usable_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  uint64_t total = pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const auto limit = read_small_number(path);
    if (limit && *limit > 0 && (total == 0 || static_cast<uint64_t>(*limit) < total)) {
      total = static_cast<uint64_t>(*limit);
    }
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

std::optional<uint64_t> available_memory_bytes() {
  const std::string text = read_small_file("/proc/meminfo");
  if (text.find("MemAvailable:") == std::string::npos) return std::nullopt;
  const uint64_t bytes = number_of(text, "MemAvailable:") * 1024;
  const auto limit = read_small_number("/sys/fs/cgroup/memory.max");
  const auto used = read_small_number("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return bytes;
  // The group's use includes cached files, which give way; shared memory counts as a file, and does not.
  const std::string parts = read_small_file("/sys/fs/cgroup/memory.stat");
  const uint64_t files = number_of(parts, "file "), shared = number_of(parts, "shmem ");
  const int64_t left = *limit - *used + static_cast<int64_t>(files - std::min(files, shared));
  return std::min<uint64_t>(bytes, static_cast<uint64_t>(std::max<int64_t>(left, 0)));
}

}  // namespace gantry::runtime
