#include "rpc/server/cache.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "rpc/server/cache_directory.h"

namespace gantry::rpc {
namespace fs = std::filesystem;
namespace {

std::string reason() {
  return std::strerror(errno);
}

/// Removes the file unless a process holds it open under a lock.
bool evict(const DirectoryEntry& entry) {
  const UniqueFd file(::openat(entry.directory, entry.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
         ::unlinkat(entry.directory, entry.name.c_str(), 0) == 0;
}

}  // namespace

SegmentCache::SegmentCache(fs::path directory, std::uint64_t capacity_bytes)
    : directory_(std::move(directory)), capacity_(capacity_bytes) {
  const UniqueFd top = open_cache_directory(directory_);
  segments_ = open_cache_subdirectory(top.get(), "segments", directory_);
  partial_ = open_cache_subdirectory(top.get(), "partial", directory_);
}

UniqueFd SegmentCache::open(const DigestBytes& digest, std::uint64_t size) const {
  UniqueFd file(::openat(segments_.get(), to_hex(digest).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  if (!file || ::flock(file.get(), LOCK_SH) != 0 || ::fstat(file.get(), &status) != 0 ||
      status.st_nlink == 0 || static_cast<std::uint64_t>(status.st_size) != size)
    return UniqueFd();
  ::futimens(file.get(), nullptr);  // used now
  return file;
}

std::uint64_t SegmentCache::partial_bytes(const DigestBytes& digest, std::uint64_t size) const {
  const UniqueFd file(::openat(partial_.get(), to_hex(digest).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  // One that is being uploaded right now cannot be resumed: this session sends its own.
  if (!file || ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 || ::fstat(file.get(), &status) != 0) return 0;
  return std::min<std::uint64_t>(static_cast<std::uint64_t>(status.st_size), size);
}

void SegmentCache::make_room(std::uint64_t incoming) {
  const auto full = [&](const std::string& why) {
    return Error(ErrorKind::kBoard, "a segment of " + std::to_string(incoming >> 20) +
                                        " MiB does not fit into the board's cache " + directory_.string() +
                                        " of " + std::to_string(capacity_ >> 20) + " MiB" + why +
                                        "; start gantry-device with a larger --cache-size");
  };
  if (incoming > capacity_) throw full("");
  std::vector<DirectoryEntry> entries = list_files(segments_.get());
  const std::vector<DirectoryEntry> partial = list_files(partial_.get());
  entries.insert(entries.end(), partial.begin(), partial.end());
  const auto bytes_of = [](const DirectoryEntry& entry) {
    return static_cast<std::uint64_t>(entry.status.st_size);
  };
  const auto used = [](const DirectoryEntry& entry) {
    return std::pair(entry.status.st_mtim.tv_sec, entry.status.st_mtim.tv_nsec);
  };
  std::uint64_t held = 0;
  for (const DirectoryEntry& entry : entries) held += bytes_of(entry);
  std::sort(entries.begin(), entries.end(),
            [&](const DirectoryEntry& a, const DirectoryEntry& b) { return used(a) < used(b); });
  for (const DirectoryEntry& entry : entries) {
    if (held + incoming <= capacity_) return;
    if (evict(entry)) held -= bytes_of(entry);
  }
  if (held + incoming > capacity_) throw full(", the rest of which is in use");
}

SegmentCache::Upload::Upload(SegmentCache& cache, const DigestBytes& digest, std::uint64_t size,
                             std::uint64_t offset)
    : cache_(cache), digest_(digest), size_(size), name_(to_hex(digest)) {
  file_.reset(::openat(cache.partial_.get(), name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file_ && ::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (offset > 0)
      throw Error(ErrorKind::kRetry, "another session uploads the same segment; try again in a moment");
    shared_ = true;
    name_ += "." + std::to_string(::getpid());
    file_.reset(::openat(cache.partial_.get(), name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file_) ::flock(file_.get(), LOCK_EX | LOCK_NB);
  }
  if (!file_)
    throw Error(ErrorKind::kBoard,
                "the board cannot write to its cache " + cache.directory().string() + ": " + reason());
  hash_ = EVP_MD_CTX_new();
  if (!hash_ || EVP_DigestInit_ex(hash_, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  struct stat status {};
  ::fstat(file_.get(), &status);
  if (offset > static_cast<std::uint64_t>(status.st_size)) {
    EVP_MD_CTX_free(hash_);
    hash_ = nullptr;
    throw Error(ErrorKind::kRetry, "the part of the upload that arrived earlier is gone; try again");
  }
  try {
    if (::ftruncate(file_.get(), static_cast<off_t>(offset)) != 0)
      throw Error(ErrorKind::kBoard, "the board cannot write to its cache: " + reason());
    cache.make_room(size - offset);
    hash_existing(offset);
    writer_ = std::make_unique<PieceWriter>(file_.get(), hash_);
  } catch (...) {
    EVP_MD_CTX_free(hash_);
    throw;
  }
}

SegmentCache::Upload::~Upload() {
  writer_.reset();  // what arrived is stored, for a resumption
  EVP_MD_CTX_free(hash_);
  if (!file_) return;
  struct stat status {};
  if (shared_ || (::fstat(file_.get(), &status) == 0 && status.st_size == 0)) ::unlinkat(cache_.partial_.get(), name_.c_str(), 0);
}

void SegmentCache::Upload::hash_existing(std::uint64_t bytes) {
  std::vector<std::byte> buffer(1 << 20);
  while (bytes > 0) {
    const ssize_t count = ::read(file_.get(), buffer.data(), std::min<std::uint64_t>(bytes, buffer.size()));
    if (count <= 0) throw Error(ErrorKind::kBoard, "the board cannot read its cache: " + reason());
    EVP_DigestUpdate(hash_, buffer.data(), static_cast<std::size_t>(count));
    bytes -= static_cast<std::uint64_t>(count);
  }
}

void SegmentCache::Upload::put() {
  if (const int error = writer_->put()) give_up(error);
}

void SegmentCache::Upload::give_up(int error) {
  const std::string why = error == ENOSPC || error == EDQUOT ? "its disk is full" : std::strerror(error);
  ::unlinkat(cache_.partial_.get(), name_.c_str(), 0);  // a disk that is full needs the space more than a resumption does
  writer_.reset();
  file_.reset();
  throw Error(ErrorKind::kBoard, "the board cannot store the module in " + cache_.directory().string() +
                                     ": " + why +
                                     "; free some space there, or start gantry-device with another --cache");
}

UniqueFd SegmentCache::Upload::finish() {
  if (const int error = writer_->drain()) give_up(error);
  DigestBytes actual{};
  EVP_DigestFinal_ex(hash_, actual.data(), nullptr);
  if (actual != digest_) {
    ::unlinkat(cache_.partial_.get(), name_.c_str(), 0);
    file_.reset();
    throw Error(ErrorKind::kRequest, "a segment's bytes do not have the digest that was announced (" +
                                         to_hex(digest_).substr(0, 16) +
                                         "…): the module file is damaged; compile it again");
  }
  ::fchmod(file_.get(), 0400);
  if (::renameat(cache_.partial_.get(), name_.c_str(), cache_.segments_.get(), to_hex(digest_).c_str()) != 0)
    throw Error(ErrorKind::kBoard, "the board cannot write to its cache: " + reason());
  file_.reset();
  shared_ = false;
  return cache_.open(digest_, size_);
}

fs::path default_cache_directory() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (const std::string own = variable("GANTRY_CACHE_DIR"); !own.empty()) return own;
  if (const std::string xdg = variable("XDG_CACHE_HOME"); xdg.starts_with('/'))
    return fs::path(xdg) / "gantry-device";
  if (const std::string home = variable("HOME"); home.starts_with('/') && ::access(home.c_str(), W_OK) == 0)
    return fs::path(home) / ".cache" / "gantry-device";
  return "/var/tmp/gantry-device-" + std::to_string(::geteuid());
}

}  // namespace gantry::rpc
