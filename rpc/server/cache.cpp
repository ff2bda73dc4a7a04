#include "rpc/server/cache.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <map>

namespace gantry::rpc {
namespace fs = std::filesystem;
namespace {

std::optional<DigestBytes> digest_of(const std::string& name) {
  DigestBytes digest{};
  if (name.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const char* at = name.data() + 2 * i;
    if (std::from_chars(at, at + 2, digest[i], 16).ptr != at + 2) return std::nullopt;
  }
  return digest;
}

std::uint64_t file_bytes(const DirectoryEntry& entry) {
  return static_cast<std::uint64_t>(entry.status.st_size);
}

UniqueFd open_entry(const DirectoryEntry& entry) {
  return UniqueFd(::openat(entry.directory, entry.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
}

/// Of a file that is being uploaded all that was announced, which its name says; else what has arrived.
std::uint64_t partial_room(const DirectoryEntry& entry) {
  const UniqueFd file = open_entry(entry);
  const std::size_t dot = entry.name.find('.');
  if (!file || dot == std::string::npos || ::flock(file.get(), LOCK_SH | LOCK_NB) == 0)
    return file_bytes(entry);
  return std::max<std::uint64_t>(file_bytes(entry), std::strtoull(entry.name.c_str() + dot + 1, nullptr, 10));
}

/// Of the disk that the file is on; none: it does not tell, like one in memory that has no bound.
std::optional<std::uint64_t> free_bytes(int file) {
  struct statvfs status {};
  if (::fstatvfs(file, &status) != 0 || status.f_blocks == 0) return std::nullopt;
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

bool same_state(const struct stat& a, const struct stat& b) {
  const auto same_time = [](const timespec& x, const timespec& y) {
    return x.tv_sec == y.tv_sec && x.tv_nsec == y.tv_nsec;
  };
  return a.st_size == b.st_size && same_time(a.st_mtim, b.st_mtim) && same_time(a.st_ctim, b.st_ctim);
}

/// A change of such a file shows in its times: it would not in the tick of the clock in which they were set.
bool is_settled(const struct stat& status) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec < status.st_ctim.tv_sec || now.tv_sec - status.st_ctim.tv_sec > 1;
}

std::optional<DigestBytes> digest_of(int file) {
  const std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!hash || EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  std::vector<std::byte> buffer(1 << 20);
  for (off_t offset = 0;;) {
    const ssize_t count = ::pread(file, buffer.data(), buffer.size(), offset);
    if (count < 0) return std::nullopt;  // a broken disk
    if (count == 0) break;
    EVP_DigestUpdate(hash.get(), buffer.data(), static_cast<std::size_t>(count));
    offset += count;
  }
  DigestBytes digest{};
  EVP_DigestFinal_ex(hash.get(), digest.data(), nullptr);
  return digest;
}

}  // namespace

SegmentCache::SegmentCache(fs::path directory, std::uint64_t capacity_bytes, VerifiedSegments* verified,
                           Disk* disk)
    : directory_(std::move(directory)),
      capacity_(capacity_bytes),
      top_(open_cache_directory(directory_)),
      segments_(open_cache_subdirectory(top_.get(), "segments", directory_)),
      partial_(open_cache_subdirectory(top_.get(), "partial", directory_)),
      used_(open_cache_subdirectory(top_.get(), "used", directory_)),
      locks_(top_.get()),
      own_verified_(verified ? nullptr : std::make_unique<VerifiedSegments>()),
      verified_(verified ? verified : own_verified_.get()),
      sync_(disk ? *disk : own_disk_, segments_) {}

/// The lock is for servers of older versions, which know no other.
UniqueFd SegmentCache::open_file(const DigestBytes& digest, struct stat& status) const {
  UniqueFd file(::openat(segments_.get(), to_hex(digest).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file || ::flock(file.get(), LOCK_SH) != 0 || ::fstat(file.get(), &status) != 0 ||
      !S_ISREG(status.st_mode) || status.st_nlink == 0)
    return UniqueFd();
  return file;
}

UniqueFd SegmentCache::find(const DigestBytes& digest, std::uint64_t size) const {
  struct stat status {};
  UniqueFd file = open_file(digest, status);
  return static_cast<std::uint64_t>(status.st_size) == size ? std::move(file) : UniqueFd();
}

UniqueFd SegmentCache::open(const DigestBytes& digest, std::uint64_t size) const {
  struct stat status {};
  UniqueFd file = open_file(digest, status);
  if (!file) return file;
  if (!verified_->contains(digest, status) && !verify(file.get(), digest, status)) return UniqueFd();
  // The digest is right: another size than the client's is the client's mistake.
  if (static_cast<std::uint64_t>(status.st_size) != size) return UniqueFd();
  touch(digest);
  return file;
}

bool SegmentCache::verify(int file, const DigestBytes& digest, const struct stat& status) const {
  const bool settled = is_settled(status);
  const std::optional<DigestBytes> actual = digest_of(file);
  struct stat after {};
  if (::fstat(file, &after) != 0 || !same_state(status, after)) return false;  // whoever changes it may go on
  if (actual != digest) {
    discard(digest, status);
    return false;
  }
  if (settled) verified_->add(digest, status);
  return true;
}

void SegmentCache::discard(const DigestBytes& digest, const struct stat& status) const {
  damage_.push_back("segment " + to_hex(digest) + " in the cache " + directory_.string() +
                    " is damaged: it was deleted, clients send it again");
  const auto room = locks_.room();  // nobody puts a better one in its place meanwhile
  struct stat now {};
  if (::fstatat(segments_.get(), to_hex(digest).c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 &&
      now.st_ino == status.st_ino) {
    ::unlinkat(segments_.get(), to_hex(digest).c_str(), 0);
    ::unlinkat(used_.get(), to_hex(digest).c_str(), 0);
  }
}

void SegmentCache::touch(const DigestBytes& digest) const {
  const UniqueFd stamp(
      ::openat(used_.get(), to_hex(digest).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (stamp) ::futimens(stamp.get(), nullptr);
}

std::uint64_t SegmentCache::partial_bytes(const DigestBytes& digest, std::uint64_t size) const {
  const auto room = locks_.room();  // whoever looks for a lock on a file has one for a moment
  const UniqueFd file(
      ::openat(partial_.get(), partial_name(digest, size).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  // One that is being uploaded right now cannot be resumed: this session sends its own.
  if (!file || ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 || ::fstat(file.get(), &status) != 0) return 0;
  return std::min<std::uint64_t>(static_cast<std::uint64_t>(status.st_size), size);
}

std::string SegmentCache::partial_name(const DigestBytes& digest, std::uint64_t size) {
  return to_hex(digest) + "." + std::to_string(size);
}

/// Removes the file unless a process holds it, or has it open under a lock.
bool SegmentCache::evict(const DirectoryEntry& entry) const {
  const auto remove = [&] {
    const UniqueFd file = open_entry(entry);
    if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 ||
        ::unlinkat(entry.directory, entry.name.c_str(), 0) != 0)
      return false;
    ::unlinkat(used_.get(), entry.name.c_str(), 0);
    return true;
  };
  const auto digest = entry.directory == segments_.get() ? digest_of(entry.name) : std::nullopt;
  if (!digest) return remove();
  const auto alone = locks_.try_alone(*digest);
  return alone && remove();
}

/// With the right to the cache's room: finds it for a file of the directory of partial ones that is going to
/// have `incoming` bytes. Whether the disk, which others use too, has as many, only writing tells.
void SegmentCache::make_room(std::uint64_t incoming, const std::string& own_name) const {
  const auto full = [&](ErrorKind kind, const std::string& why) {
    return Error(kind, "a segment of " + std::to_string(incoming >> 20) +
                           " MiB does not fit into the board's cache " + directory_.string() + " of " +
                           std::to_string(capacity_ >> 20) + " MiB" + why +
                           "; start gantry-device with a larger --cache-size");
  };
  if (incoming > capacity_) throw full(ErrorKind::kBoard, "");
  struct Candidate {
    DirectoryEntry entry;
    std::uint64_t bytes;
  };
  std::vector<Candidate> candidates;
  std::uint64_t used = 0, stored = 0;  // with all that others announced; on the disk
  const auto count = [&](const DirectoryEntry& entry, std::uint64_t bytes) {
    stored += file_bytes(entry);
    if (entry.name == own_name) return;
    used += bytes;
    candidates.push_back({entry, bytes});
  };
  for (const DirectoryEntry& entry : list_files(segments_.get())) count(entry, file_bytes(entry));
  for (const DirectoryEntry& entry : list_files(partial_.get())) count(entry, partial_room(entry));
  const std::optional<std::uint64_t> spare = free_bytes(partial_.get());
  const std::uint64_t disk = spare ? *spare + stored : capacity_;
  // Where the disk is too small without any other segment, none is evicted for its sake.
  const std::uint64_t most = disk < incoming ? capacity_ : std::min(capacity_, disk);
  if (used + incoming <= most) return;
  std::map<std::string, timespec> uses;
  for (const DirectoryEntry& entry : list_files(used_.get())) uses.emplace(entry.name, entry.status.st_mtim);
  const auto last_use = [&](const Candidate& candidate) {
    const auto use = uses.find(candidate.entry.name);
    const timespec& time = use == uses.end() ? candidate.entry.status.st_mtim : use->second;
    return std::pair(time.tv_sec, time.tv_nsec);
  };
  std::sort(candidates.begin(), candidates.end(),
            [&](const Candidate& a, const Candidate& b) { return last_use(a) < last_use(b); });
  for (const Candidate& candidate : candidates) {
    if (used + incoming <= most) return;
    if (evict(candidate.entry)) used -= candidate.bytes;
  }
  if (used + incoming > capacity_) throw full(ErrorKind::kRetry, ", the rest of which is in use");
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
