#include "host/support/spill_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/support/cleanup.h"

namespace gantry {
namespace {

uint64_t whole_pages(uint64_t bytes) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

int open_without_name(const std::filesystem::path& folder) {
  int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0) return descriptor;
  // Not every file system has files without names.
  std::string name = (folder / "gantry-spill-XXXXXX").string();
  const cleanup::Section section;  // while it has one, no signal ends the process
  descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor >= 0) ::unlink(name.c_str());
  return descriptor;
}

/// Takes the whole pages among the bytes out of memory.
void drop_pages(const void* bytes, size_t size) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(bytes);
  const uintptr_t begin = (first + page - 1) / page * page, end = (first + size) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // NOLINT
}

/// Of bytes of a mapped file, by which they are known again.
struct PartOfFile {
  std::shared_ptr<const void> file;
  size_t size = 0;
  void operator()(const std::byte* bytes) const { drop_pages(bytes, size); }
};

/// Of a mapping of a spill file, by which it is known again.
struct Unmapper {
  std::shared_ptr<const void> file;
  int descriptor = -1;
  uint64_t offset = 0;
  size_t size = 0;
  void operator()(const std::byte* bytes) const {
    ::munmap(const_cast<std::byte*>(bytes), size);
    // Where the file system cannot give the room back, it is kept until the end.
    ::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(whole_pages(size)));
  }
};

}  // namespace

struct SpillFile::Descriptor {
  explicit Descriptor(int opened) : number(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(number); }
  const int number;
};

bool SpillFile::open() {
  if (descriptor_ != nullptr || failed_) return !failed_;
  const int opened = open_without_name(folder_);
  failed_ = opened < 0;
  if (!failed_) descriptor_ = std::make_shared<const Descriptor>(opened);
  return !failed_;
}

bool SpillFile::write(std::span<const std::byte> bytes, uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_->number, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return true;
}

std::shared_ptr<const std::byte> SpillFile::map(size_t size) {
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_->number, static_cast<off_t>(end_));
  if (mapped == MAP_FAILED) return nullptr;
  const uint64_t offset = end_;
  end_ += whole_pages(size);
  return {static_cast<const std::byte*>(mapped), Unmapper{descriptor_, descriptor_->number, offset, size}};
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

std::shared_ptr<const void> part_of_file(std::shared_ptr<const void> file, std::span<const std::byte> bytes) {
  return std::shared_ptr<const std::byte>(bytes.data(), PartOfFile{std::move(file), bytes.size()});
}

bool is_on_disk(const std::shared_ptr<const void>& owner) {
  return is_spilled(owner) || std::get_deleter<PartOfFile>(owner) != nullptr;
}

void release_pages(const std::shared_ptr<const void>& owner) {
  const Unmapper* mapping = std::get_deleter<Unmapper>(owner);
  if (mapping != nullptr) ::madvise(const_cast<void*>(owner.get()), mapping->size, MADV_DONTNEED);
  const PartOfFile* part = std::get_deleter<PartOfFile>(owner);
  if (part != nullptr) drop_pages(owner.get(), part->size);
}

}  // namespace gantry
