#include "host/support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "host/support/error.h"
#include "host/support/input_file.h"

namespace gantry {

MappedFile::MappedFile(const std::filesystem::path& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) cannot_read(path, errno);
  struct stat info {};
  bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  void* mapped = MAP_FAILED;
  if (regular && info.st_size > 0) {
    mapped = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  }
  ::close(fd);
  if (!regular) user_error("cannot read {}: not a regular file", path.string());
  if (info.st_size == 0) return;
  if (mapped == MAP_FAILED) user_error("cannot map {}: {}", path.string(), std::strerror(errno));
  data_ = static_cast<const char*>(mapped);
  size_ = static_cast<size_t>(info.st_size);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

std::optional<std::filesystem::path> path_inside(const std::filesystem::path& folder,
                                                 const std::string& location) {
  const std::filesystem::path relative = std::filesystem::path(location).lexically_normal();
  if (location.empty() || relative.is_absolute() || *relative.begin() == "..") return std::nullopt;
  std::error_code ignored;
  std::filesystem::path full = folder / relative;
  const auto real = std::filesystem::weakly_canonical(full, ignored);
  const auto root = std::filesystem::weakly_canonical(folder.empty() ? "." : folder, ignored);
  if (std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first != root.end())
    return std::nullopt;
  return full;
}

}  // namespace gantry
