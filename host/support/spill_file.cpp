#include "host/support/spill_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "host/support/cleanup.h"

namespace gantry {
namespace {

/// Of a mapping of a spill file, by which it is known again.
struct Unmapper {
  size_t size = 0;
  void operator()(const std::byte* bytes) const { ::munmap(const_cast<std::byte*>(bytes), size); }
};

uint64_t whole_pages(uint64_t bytes) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

SpillFile::~SpillFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool SpillFile::open() {
  if (descriptor_ >= 0 || failed_) return !failed_;
  descriptor_ = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor_ < 0) {  // not every file system has files without names
    std::string name = (folder_ / "gantry-spill-XXXXXX").string();
    const cleanup::Section section;  // while it has one, no signal ends the process
    descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ >= 0) ::unlink(name.c_str());
  }
  failed_ = descriptor_ < 0;
  return !failed_;
}

bool SpillFile::write(std::span<const std::byte> bytes, uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return true;
}

std::shared_ptr<const std::byte> SpillFile::map(size_t size) {
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_, static_cast<off_t>(end_));
  if (mapped == MAP_FAILED) return nullptr;
  end_ += whole_pages(size);
  return {static_cast<const std::byte*>(mapped), Unmapper{size}};
}

std::shared_ptr<const std::byte> SpillFile::keep(std::span<const std::byte> bytes) {
  if (bytes.empty() || !open()) return nullptr;
  failed_ = !write(bytes, end_);
  return failed_ ? nullptr : map(bytes.size());
}

std::shared_ptr<const std::byte> SpillFile::keep(
    size_t size, size_t part, const std::function<void(size_t offset, std::span<std::byte> bytes)>& fill) {
  if (size == 0 || part == 0 || !open()) return nullptr;
  std::vector<std::byte> buffer(std::min(size, part));
  for (size_t offset = 0; offset < size && !failed_; offset += buffer.size()) {
    const std::span<std::byte> bytes(buffer.data(), std::min(buffer.size(), size - offset));
    fill(offset, bytes);
    failed_ = !write(bytes, end_ + offset);
  }
  return failed_ ? nullptr : map(size);
}

bool is_spilled(const std::shared_ptr<const void>& owner) {
  return std::get_deleter<Unmapper>(owner) != nullptr;
}

void release_pages(const std::shared_ptr<const void>& owner) {
  const Unmapper* mapping = std::get_deleter<Unmapper>(owner);
  if (mapping != nullptr) ::madvise(const_cast<void*>(owner.get()), mapping->size, MADV_DONTNEED);
}

}  // namespace gantry
