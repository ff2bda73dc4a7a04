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

InputFile::InputFile(const std::filesystem::path& path)
    : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) cannot_read(path, errno);
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor_);
    user_error("cannot read {}: not a regular file", path.string());
  }
  size_ = static_cast<size_t>(info.st_size);
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

std::string InputFile::begin(size_t count) const {
  std::string bytes(count, '\0');
  bytes.resize(read(bytes, 0));
  return bytes;
}

size_t InputFile::read(std::span<char> bytes, uint64_t offset) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const InputFile file(path);
  if (file.size() == 0) return;
  void* mapped = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (mapped == MAP_FAILED) user_error("cannot map {}: {}", path.string(), std::strerror(errno));
  data_ = static_cast<const char*>(mapped);
  size_ = file.size();
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

DataFolder folder_of(const std::filesystem::path& file) {
  DataFolder folder(file.parent_path());
  std::error_code ignored;
  if (std::filesystem::is_symlink(file, ignored))
    folder.links = std::filesystem::canonical(file, ignored).parent_path();
  return folder;
}

std::optional<std::filesystem::path> path_inside(const DataFolder& folder, const std::string& location) {
  const std::filesystem::path relative = std::filesystem::path(location).lexically_normal();
  if (location.empty() || relative.is_absolute() || *relative.begin() == "..") return std::nullopt;
  std::error_code ignored;
  std::filesystem::path full = folder.path / relative;
  // A relative path of which no part is there would stay relative.
  const auto real = std::filesystem::weakly_canonical(std::filesystem::absolute(full, ignored), ignored);
  const auto root = std::filesystem::weakly_canonical(folder.path.empty() ? "." : folder.path, ignored);
  const auto holds = [&](const std::filesystem::path& in) {
    return std::mismatch(in.begin(), in.end(), real.begin(), real.end()).first == in.end();
  };
  if (holds(root) || (!folder.links.empty() && holds(folder.links))) return full;
  return std::nullopt;
}

}  // namespace gantry
