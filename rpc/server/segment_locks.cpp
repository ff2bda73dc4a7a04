#include "rpc/server/segment_locks.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

namespace gantry::rpc {
namespace {

constexpr std::int64_t kRoom = 0;

/// Two digests that meet in one byte, which chance does not bring about, share its lock.
std::int64_t byte_of(const DigestBytes& digest) {
  std::uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return static_cast<std::int64_t>(number >> 2) + 1;
}

/// False if another process has a lock that forbids it.
bool lock(int file, std::int64_t byte, short type, bool wait) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  for (;;) {
    if (::fcntl(file, wait ? F_OFD_SETLKW : F_OFD_SETLK, &range) == 0) return true;
    if (errno == EAGAIN || errno == EACCES) return false;
    if (errno != EINTR) return true;  // there are no such locks here
  }
}

UniqueFd open_lock_file(int directory) {
  UniqueFd file(::openat(directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file)
    throw Error(ErrorKind::kRequest, std::string("the cache's file 'lock' cannot be opened: ") +
                                         std::strerror(errno) + "; give another cache with --cache");
  return file;
}

}  // namespace

SegmentLocks::SegmentLocks(int directory)
    : held_(open_lock_file(directory)), other_(open_lock_file(directory)) {}

void SegmentLocks::hold(const DigestBytes& digest) const {
  (void)lock(held_.get(), byte_of(digest), F_RDLCK, true);
}

void SegmentLocks::release(const DigestBytes& digest) const {
  (void)lock(held_.get(), byte_of(digest), F_UNLCK, false);
}

SegmentLocks::Exclusive::Exclusive(int file, std::int64_t byte, bool wait)
    : file_(file), byte_(byte), locked_(lock(file, byte, F_WRLCK, wait)) {}

SegmentLocks::Exclusive::~Exclusive() {
  if (locked_) (void)lock(file_, byte_, F_UNLCK, false);
}

SegmentLocks::Exclusive SegmentLocks::try_alone(const DigestBytes& digest) const {
  return Exclusive(other_.get(), byte_of(digest), false);
}

SegmentLocks::Exclusive SegmentLocks::room() const {
  return Exclusive(other_.get(), kRoom, true);
}

}  // namespace gantry::rpc
