// Segments on their way into the cache.
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "rpc/server/cache.h"

namespace gantry::rpc {
namespace {

bool is_full(int error) {
  return error == ENOSPC || error == EDQUOT;
}

/// Of an errno. A disk that is full has room again some time: that says nothing of what is stored.
ErrorKind kind_of(int error) {
  return is_full(error) ? ErrorKind::kRetry : ErrorKind::kBoard;
}

std::string text_of(int error) {
  return is_full(error) ? "its disk is full" : std::strerror(error);
}

constexpr const char* kAdvice = "; free some space there, or start gantry-device with another --cache";

/// By the errno of now.
Error cannot_write(const std::filesystem::path& cache) {
  const int error = errno;
  const std::string why = text_of(error) + (is_full(error) ? kAdvice : "");
  return Error(kind_of(error), "the board cannot write to its cache " + cache.string() + ": " + why);
}

std::uint64_t size_of(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

}  // namespace

SegmentCache::Upload::Upload(SegmentCache& cache, const DigestBytes& digest, std::uint64_t size,
                             std::uint64_t offset)
    : cache_(cache),
      digest_(digest),
      size_(size),
      resumed_(offset > 0),
      name_(partial_name(digest, size)),
      hash_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  if (!hash_ || EVP_DigestInit_ex(hash_.get(), EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  reserve(offset);
  hash_existing(offset);
  writer_ = std::make_unique<PieceWriter>(file_.get(), hash_.get());
}

/// The file under its lock: from then on all that it announces counts.
void SegmentCache::Upload::reserve(std::uint64_t offset) {
  const auto room = cache_.locks_.room();
  open_file(offset);
  try {
    if (offset > size_of(file_.get()))
      throw Error(ErrorKind::kRetry, "the part of the upload that arrived earlier is gone; try again");
    cache_.make_room(size_, name_);
    if (::ftruncate(file_.get(), static_cast<off_t>(offset)) != 0) throw cannot_write(cache_.directory());
  } catch (...) {
    if (size_of(file_.get()) == 0) remove();
    throw;
  }
}

void SegmentCache::Upload::open_file(std::uint64_t offset) {
  const int directory = cache_.partial_.get();
  struct stat status {};
  bool is_locked = false;
  const auto open = [&] {
    return UniqueFd(::openat(directory, name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  };
  do {  // again if whoever held it has deleted it meanwhile
    file_ = open();
    // One that was cut off while it was published may not be written any more: it begins anew.
    if (!file_ && errno == EACCES && ::unlinkat(directory, name_.c_str(), 0) == 0) file_ = open();
    is_locked = file_ && ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0;
  } while (is_locked && ::fstat(file_.get(), &status) == 0 && status.st_nlink == 0);
  if (file_ && !is_locked) {
    if (offset > 0)
      throw Error(ErrorKind::kRetry, "another session uploads the same segment; try again in a moment");
    shared_ = true;
    name_ += "." + std::to_string(::getpid());
    file_.reset(::openat(directory, name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file_) ::flock(file_.get(), LOCK_EX | LOCK_NB);
  }
  if (!file_) throw cannot_write(cache_.directory());
}

SegmentCache::Upload::~Upload() {
  writer_.reset();  // what arrived is stored, for a resumption
  if (file_ && (shared_ || size_of(file_.get()) == 0)) remove();
}

void SegmentCache::Upload::remove() {
  ::unlinkat(cache_.partial_.get(), name_.c_str(), 0);
}

void SegmentCache::Upload::hash_existing(std::uint64_t bytes) {
  std::vector<std::byte> buffer(1 << 20);
  while (bytes > 0) {
    const ssize_t count = ::read(file_.get(), buffer.data(), std::min<std::uint64_t>(bytes, buffer.size()));
    if (count <= 0) throw Error(ErrorKind::kBoard, "the board cannot read its cache: " + text_of(errno));
    EVP_DigestUpdate(hash_.get(), buffer.data(), static_cast<std::size_t>(count));
    bytes -= static_cast<std::uint64_t>(count);
  }
}

void SegmentCache::Upload::put() {
  if (const int error = writer_->put()) give_up(error);
}

void SegmentCache::Upload::give_up(int error) {
  remove();  // a disk that is full needs the space more than a resumption does
  writer_.reset();
  file_.reset();
  throw Error(kind_of(error), "the board cannot store the module in " + cache_.directory().string() + ": " +
                                  text_of(error) + kAdvice);
}

UniqueFd SegmentCache::Upload::finish() {
  if (const int error = writer_->drain()) give_up(error);
  DigestBytes actual{};
  EVP_DigestFinal_ex(hash_.get(), actual.data(), nullptr);
  if (actual != digest_) {
    remove();
    file_.reset();
    const std::string name = to_hex(digest_).substr(0, 16) + "…";
    if (resumed_)
      throw Error(ErrorKind::kRetry, "what an earlier upload had left of segment " + name +
                                         " was damaged, and is deleted: upload the module again");
    throw Error(ErrorKind::kRequest, "a segment's bytes do not have the digest that was announced (" + name +
                                         "): the module file is damaged; compile it again");
  }
  publish();
  return cache_.open(digest_, size_);
}

/// It is on the disk a little later, which costs its client no time: after a power cut before, it has garbage
/// under its name, or none at all, and whoever uses it first finds that out.
void SegmentCache::Upload::publish() {
  {
    const auto room = cache_.locks_.room();  // whoever counts sees it once
    ::fchmod(file_.get(), 0400);
    // Its directory may want room for the name.
    if (::renameat(cache_.partial_.get(), name_.c_str(), cache_.segments_.get(), to_hex(digest_).c_str()) !=
        0)
      give_up(errno);
  }
  shared_ = false;
  struct stat status {};
  if (::fstat(file_.get(), &status) == 0) cache_.verified_->add(digest_, status);
  ::flock(file_.get(), LOCK_UN);
  cache_.sync_.add(std::move(file_), to_hex(digest_));
}

}  // namespace gantry::rpc
