#include "rpc/server/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rpc/error.h"

namespace gantry::rpc {

SharedMemory::SharedMemory(std::uint64_t size)
    : fd_(::memfd_create("gantry-data", MFD_CLOEXEC)), size_(size) {
  if (!fd_ || ::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0)
    throw Error(ErrorKind::kBoard, "the board has no memory for this data");
  map(PROT_READ | PROT_WRITE);
}

SharedMemory::SharedMemory(UniqueFd fd, std::uint64_t size) : fd_(std::move(fd)), size_(size) {
  if (size == 0) return;
  // The seals first: until they are there, whoever made it can make it smaller after its size was read.
  const int seals = fd_ ? ::fcntl(fd_.get(), F_GET_SEALS) : -1;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    throw Error(ErrorKind::kBoard, "the executor's data is not sealed against shrinking");
  const off_t actual = ::lseek(fd_.get(), 0, SEEK_END);
  if (actual < 0 || static_cast<std::uint64_t>(actual) < size)
    throw Error(ErrorKind::kBoard, "the executor's data has the wrong size");
  map(PROT_READ);
}

SharedMemory::~SharedMemory() {
  if (address_) ::munmap(address_, size_);
}

void SharedMemory::populate(std::uint64_t offset, std::uint64_t length, int advice) const {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)), first = offset / page * page;
  (void)::madvise(data() + first, offset + length - first,
                  advice);  // older kernels than 5.14 refuse: no harm
}

void SharedMemory::map(int protection) {
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, protection, MAP_SHARED, fd_.get(), 0);
  if (address == MAP_FAILED) throw Error(ErrorKind::kBoard, "the board has no memory for this data");
  address_ = address;
}

}  // namespace gantry::rpc
