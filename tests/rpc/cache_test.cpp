// The cache of segments on the board's disk, without a server around it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "device_runtime/src/sha256.h"
#include "rpc/error.h"
#include "rpc/server/cache.h"
#include "tests/support/server_process.h"

namespace gantry::rpc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::uint64_t kMiB = 1u << 20;

std::vector<std::byte> noise(std::uint64_t size, unsigned char seed = 1) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(seed + i * 7 + i / 251);
  return bytes;
}

void put(SegmentCache::Upload& upload, std::span<const std::byte> bytes) {
  const auto piece = upload.next(bytes.size());
  std::memcpy(piece.data(), bytes.data(), bytes.size());
  upload.put();
}

UniqueFd store(SegmentCache& cache, std::span<const std::byte> bytes) {
  SegmentCache::Upload upload(cache, runtime::sha256(bytes), bytes.size(), 0);
  put(upload, bytes);
  return upload.finish();
}

template <typename Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class Cache : public ::testing::Test {
 protected:
  fs::path path() const { return folder_.path() / "cache"; }
  fs::path segment_path(std::span<const std::byte> bytes) const {
    return path() / "segments" / to_hex(runtime::sha256(bytes));
  }

  testing::TemporaryDirectory folder_;
};

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  ::stat(path.c_str(), &status);
  return status.st_mode & 07777;
}

TEST_F(Cache, OwnLinkToAnotherDiskIsTheCache) {
  fs::create_directory(folder_.path() / "disk");
  fs::create_directory_symlink(folder_.path() / "disk", path());
  SegmentCache cache(path(), kMiB);
  const auto bytes = noise(100);
  EXPECT_TRUE(store(cache, bytes));
  EXPECT_TRUE(fs::exists(folder_.path() / "disk" / "segments" / to_hex(runtime::sha256(bytes))));
  EXPECT_EQ(mode_of(folder_.path() / "disk"), 0700u);
}

TEST_F(Cache, LinkInPlaceOfASubdirectoryIsRefusedAndLeftAlone) {
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::create_directories(elsewhere);
  fs::permissions(elsewhere, fs::perms(0755));
  fs::create_directory(path());
  fs::create_directory_symlink(elsewhere, path() / "segments");
  EXPECT_THAT(error_of([&] { SegmentCache(path(), kMiB); }), HasSubstr("segments is not a directory"));
  EXPECT_EQ(mode_of(elsewhere), 0755u);
}

TEST_F(Cache, LinkThatAnotherUserMadeIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a link of another user";
  fs::create_directory(folder_.path() / "mine");
  fs::create_directory_symlink(folder_.path() / "mine", path());
  ASSERT_EQ(::lchown(path().c_str(), 65534, 65534), 0);
  EXPECT_THAT(error_of([&] { SegmentCache(path(), kMiB); }), HasSubstr("another user"));
}

TEST_F(Cache, FilesBehindLinksCountNeitherAsSegmentsNorForRoom) {
  SegmentCache cache(path(), kMiB);
  const auto bytes = noise(100);
  const fs::path large = folder_.path() / "large";
  std::ofstream(large) << "elsewhere";
  fs::resize_file(large, 100 * kMiB);
  fs::create_symlink(large, segment_path(bytes));
  const UniqueFd used(::open(large.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(used.get(), LOCK_SH), 0);
  EXPECT_FALSE(cache.open(runtime::sha256(bytes), 100 * kMiB));
  EXPECT_TRUE(store(cache, noise(1000, 2)));
}

TEST_F(Cache, DirectoryThatIsReplacedByALinkLaterIsNotFollowed) {
  SegmentCache cache(path(), kMiB);
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::create_directory(elsewhere);
  for (const char* name : {"segments", "partial"}) {
    fs::rename(path() / name, path() / (std::string(name) + ".old"));
    fs::create_directory_symlink(elsewhere, path() / name);
  }
  EXPECT_TRUE(store(cache, noise(1000)));
  EXPECT_TRUE(fs::is_empty(elsewhere));
}

}  // namespace
}  // namespace gantry::rpc
