// The cache of segments on the board's disk, without a server around it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "device_runtime/src/sha256.h"
#include "rpc/error.h"
#include "rpc/server/cache.h"
#include "rpc/server/held_segments.h"
#include "rpc/server/session_segments.h"
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

std::size_t files_in(const fs::path& directory) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

TEST_F(Cache, RefusedUploadLeavesNothing) {
  SegmentCache cache(path(), kMiB);
  EXPECT_THAT(error_of([&] { SegmentCache::Upload(cache, DigestBytes{1}, 2 * kMiB, 0); }),
              HasSubstr("--cache-size"));
  EXPECT_THAT(error_of([&] { SegmentCache::Upload(cache, DigestBytes{2}, 1000, 500); }), HasSubstr("gone"));
  const auto bytes = noise(1000);
  EXPECT_THAT(error_of([&] {
                SegmentCache::Upload upload(cache, DigestBytes{3}, bytes.size(), 0);
                put(upload, bytes);
                upload.finish();
              }),
              HasSubstr("damaged"));
  EXPECT_EQ(files_in(path() / "partial"), 0u);
}

TEST_F(Cache, WhatUploadsAnnounceIsKeptFreeForThem) {
  SegmentCache one(path(), 8 * kMiB), other(path(), 8 * kMiB);
  const auto first = noise(5 * kMiB, 1), second = noise(5 * kMiB, 2);
  {
    SegmentCache::Upload upload(one, runtime::sha256(first), first.size(), 0);
    EXPECT_THAT(error_of([&] { store(other, second); }), HasSubstr("in use"));
    put(upload, std::span(first).first(kMiB));
  }
  EXPECT_TRUE(store(other, second)) << "an upload that was cut off keeps no room";
}

TEST_F(Cache, UploadThatWasCutOffGoesOnWhereItStopped) {
  SegmentCache cache(path(), 8 * kMiB);
  const auto bytes = noise(3 * kMiB);
  const DigestBytes digest = runtime::sha256(bytes);
  {
    SegmentCache::Upload upload(cache, digest, bytes.size(), 0);
    put(upload, std::span(bytes).first(kMiB));
  }
  EXPECT_EQ(cache.partial_bytes(digest, bytes.size()), kMiB);
  SegmentCache::Upload upload(cache, digest, bytes.size(), kMiB);
  EXPECT_EQ(cache.partial_bytes(digest, bytes.size()), 0u) << "it is under way";
  put(upload, std::span(bytes).subspan(kMiB));
  EXPECT_TRUE(upload.finish());
  EXPECT_EQ(files_in(path() / "partial"), 0u);
}

TEST_F(Cache, WhatAnEarlierUploadLeftWrongIsNotBlamedOnTheModule) {
  SegmentCache cache(path(), 8 * kMiB);
  const auto bytes = noise(2 * kMiB);
  const DigestBytes digest = runtime::sha256(bytes);
  {
    SegmentCache::Upload upload(cache, digest, bytes.size(), 0);
    put(upload, noise(kMiB, 9));
  }
  SegmentCache::Upload upload(cache, digest, bytes.size(), kMiB);
  put(upload, std::span(bytes).subspan(kMiB));
  try {
    upload.finish();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRetry);
    EXPECT_THAT(error.what(), HasSubstr("an earlier upload"));
  }
  EXPECT_EQ(files_in(path() / "partial"), 0u);
  EXPECT_TRUE(store(cache, bytes));
}

TEST_F(Cache, HeldSegmentsAreNotEvictedByAnyoneAndReleasedOnesAre) {
  SegmentCache one(path(), 8 * kMiB), other(path(), 8 * kMiB);
  const auto held = noise(5 * kMiB, 1), incoming = noise(5 * kMiB, 2);
  const DigestBytes digest = runtime::sha256(held);
  store(one, held);
  one.hold(digest);
  EXPECT_THAT(error_of([&] { store(one, incoming); }), HasSubstr("in use"));
  EXPECT_THAT(error_of([&] { store(other, incoming); }), HasSubstr("in use"));
  one.release(digest);
  EXPECT_TRUE(store(other, incoming));
  EXPECT_FALSE(one.open(digest, held.size()));
}

wire::RequestT load_of(std::vector<DigestBytes> digests) {
  wire::LoadModuleT load;
  for (const DigestBytes& digest : digests) {
    load.segments.push_back(std::make_unique<wire::SegmentNameT>());
    load.segments.back()->digest = to_wire(digest);
    load.segments.back()->size = kMiB;
  }
  return make_request(std::move(load));
}

wire::ResponseT loaded_as(std::uint32_t handle) {
  wire::ModuleLoadedT loaded;
  loaded.handle = handle;
  return make_response(std::move(loaded));
}

TEST_F(Cache, SegmentsAreHeldFromTheQueryUntilTheirLastModuleIsUnloaded) {
  SegmentCache cache(path(), 100 * kMiB);
  HeldSegments held(cache);
  const DigestBytes a{1}, b{2};
  held.begin_query();
  held.expect(a, kMiB);
  held.expect(b, kMiB);
  held.note(load_of({a, b}), loaded_as(1));
  held.note(load_of({a}), loaded_as(2));
  EXPECT_EQ(held.size(), 2u);
  wire::UnloadModuleT unload;
  unload.handle = 1;
  held.note(make_request(unload), make_response(wire::DoneT{}));
  EXPECT_EQ(held.size(), 1u) << "the second module still uses one of them";
  held.forget_loaded();
  EXPECT_EQ(held.size(), 0u);
}

TEST_F(Cache, OfSegmentsThatNobodyLoadsTheNewestHalfACacheIsHeld) {
  SegmentCache cache(path(), 100 * kMiB);
  HeldSegments held(cache);
  const auto ask = [&](std::uint8_t first, int count) {
    held.begin_query();
    for (int i = 0; i < count; ++i)
      held.expect(DigestBytes{first, static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i >> 8)}, kMiB);
  };
  ask(1, 40);
  ask(2, 40);
  EXPECT_EQ(held.size(), 50u);
  ask(3, 80);
  EXPECT_EQ(held.size(), 80u) << "the newest query is held whole";
  ask(4, 2 * kMaxSegments);
  EXPECT_EQ(held.size(), kMaxSegments);
}

/// As a module could that had found the file: not its owner's times nor its rights remain to tell.
void alter_secretly(const fs::path& file, off_t at) {
  struct stat before {};
  ASSERT_EQ(::stat(file.c_str(), &before), 0);
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  {
    const UniqueFd open(::open(file.c_str(), O_RDWR | O_CLOEXEC));
    unsigned char byte = 0;
    ASSERT_EQ(::pread(open.get(), &byte, 1, at), 1);
    byte ^= 1;
    ASSERT_EQ(::pwrite(open.get(), &byte, 1, at), 1);
  }
  ASSERT_EQ(::chmod(file.c_str(), before.st_mode), 0);
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
}

TEST_F(Cache, AlteredSegmentIsNeverOpenedAgainAndIsDeleted) {
  SegmentCache cache(path(), 8 * kMiB);
  const auto bytes = noise(3 * kMiB);
  const DigestBytes digest = runtime::sha256(bytes);
  ASSERT_TRUE(store(cache, bytes));
  ASSERT_TRUE(cache.open(digest, bytes.size()));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the clock of the file system's times ticks
  alter_secretly(segment_path(bytes), 2 * kMiB);
  EXPECT_FALSE(cache.open(digest, bytes.size()));
  EXPECT_FALSE(fs::exists(segment_path(bytes)));
  EXPECT_THAT(cache.take_damage(), ::testing::ElementsAre(HasSubstr(to_hex(digest))));
  EXPECT_TRUE(store(cache, bytes)) << "it can be sent again";
  EXPECT_TRUE(cache.open(digest, bytes.size()));
}

TEST_F(Cache, SegmentsOfAnEarlierServerAreVerifiedBeforeTheyAreUsed) {
  const auto good = noise(3 * kMiB, 1), altered = noise(kMiB, 2), cut = noise(kMiB, 3);
  {
    SegmentCache cache(path(), 8 * kMiB);
    for (const auto& bytes : {good, altered, cut}) ASSERT_TRUE(store(cache, bytes));
  }
  alter_secretly(segment_path(altered), 0);
  fs::permissions(segment_path(cut), fs::perms(0600));
  fs::resize_file(segment_path(cut), 1000);
  SegmentCache cache(path(), 8 * kMiB);
  EXPECT_TRUE(cache.open(runtime::sha256(good), good.size()));
  EXPECT_FALSE(cache.open(runtime::sha256(altered), altered.size()));
  EXPECT_FALSE(cache.open(runtime::sha256(cut), cut.size()));
  EXPECT_EQ(files_in(path() / "segments"), 1u);
}

/// A file of zeros under a digest that it has not, as a disk may leave it.
void put_wrong_segment(const fs::path& cache, const DigestBytes& digest, std::uint64_t size) {
  const fs::path file = cache / "segments" / to_hex(digest);
  std::ofstream(file) << "";
  fs::resize_file(file, size);  // takes no room on the disk
}

std::unique_ptr<wire::SegmentNameT> name_of(const DigestBytes& digest, std::uint64_t size) {
  auto name = std::make_unique<wire::SegmentNameT>();
  name->digest = to_wire(digest);
  name->size = size;
  return name;
}

TEST_F(Cache, LargeSegmentsAreVerifiedWhenTheyAreLoadedAndNotWhileAQueryWaits) {
  constexpr std::uint64_t kMost = SessionSegments::kQueryBytes;
  ServeOptions options;
  options.cache = path();
  Log log(LogLevel::kError);
  SessionSegments segments(options, nullptr, log);
  const DigestBytes small{1}, large{2};
  put_wrong_segment(path(), small, 1000);
  put_wrong_segment(path(), large, kMost + 1);
  wire::QuerySegmentsT query;
  query.segments.push_back(name_of(small, 1000));
  query.segments.push_back(name_of(large, kMost + 1));
  EXPECT_THAT(segments.states_of(query).held, ::testing::ElementsAre(0u, kMost + 1));
  wire::LoadModuleT load;
  load.segments.push_back(name_of(large, kMost + 1));
  Attachments attachments;
  try {
    segments.attach(load, attachments);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRetry);
  }
  EXPECT_EQ(files_in(path() / "segments"), 0u) << "it is sent again";
}

TEST_F(Cache, WrongSizeOfAClientDoesNoHarmToASegment) {
  SegmentCache cache(path(), 8 * kMiB);
  const auto bytes = noise(1000);
  ASSERT_TRUE(store(cache, bytes));
  EXPECT_FALSE(cache.open(runtime::sha256(bytes), 999));
  EXPECT_TRUE(cache.open(runtime::sha256(bytes), 1000));
}

TEST_F(Cache, SegmentThatWasUsedLastIsEvictedLast) {
  SegmentCache cache(path(), 2 * kMiB + kMiB / 2);
  const auto first = noise(kMiB, 1), second = noise(kMiB, 2);
  for (const auto& bytes : {first, second}) {
    ASSERT_TRUE(store(cache, bytes));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_TRUE(cache.open(runtime::sha256(first), kMiB));
  ASSERT_TRUE(store(cache, noise(kMiB, 3)));
  EXPECT_TRUE(cache.open(runtime::sha256(first), kMiB));
  EXPECT_FALSE(cache.open(runtime::sha256(second), kMiB));
  EXPECT_EQ(files_in(path() / "used"), 2u);
}

/// A disk of 4 MiB; none where this user may mount nothing.
class SmallDisk {
 public:
  explicit SmallDisk(fs::path path) : path_(std::move(path)) {
    fs::create_directory(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=4m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  explicit operator bool() const { return mounted_; }
  fs::path cache() const { return path_ / "cache"; }
  void fill() const { std::ofstream(path_ / "filler") << std::string(4 * kMiB, 'x'); }

 private:
  fs::path path_;
  bool mounted_ = false;
};

TEST_F(Cache, OnADiskSmallerThanTheBoundTheOldMakesRoomForTheNew) {
  const SmallDisk disk(folder_.path() / "disk");
  if (!disk) GTEST_SKIP() << "only root can mount a small disk";
  const auto first = noise(3 * kMiB, 1), second = noise(3 * kMiB, 2);
  ASSERT_TRUE(store(*std::make_unique<SegmentCache>(disk.cache(), 100 * kMiB), first));
  SegmentCache cache(disk.cache(), 100 * kMiB);
  EXPECT_TRUE(store(cache, second));
  EXPECT_TRUE(cache.open(runtime::sha256(second), second.size()));
  EXPECT_FALSE(cache.open(runtime::sha256(first), first.size()));
}

TEST_F(Cache, NothingIsEvictedForWhatTheDiskIsTooSmallFor) {
  const SmallDisk disk(folder_.path() / "disk");
  if (!disk) GTEST_SKIP() << "only root can mount a small disk";
  const auto first = noise(kMiB, 1);
  SegmentCache cache(disk.cache(), 100 * kMiB);
  ASSERT_TRUE(store(cache, first));
  EXPECT_THAT(error_of([&] { store(cache, noise(5 * kMiB, 2)); }), HasSubstr("disk is full"));
  EXPECT_TRUE(cache.open(runtime::sha256(first), first.size()));
}

TEST_F(Cache, AFullDiskAsksToTryAgainLater) {
  const SmallDisk disk(folder_.path() / "disk");
  if (!disk) GTEST_SKIP() << "only root can mount a small disk";
  SegmentCache cache(disk.cache(), 100 * kMiB);
  disk.fill();
  try {
    store(cache, noise(kMiB));
    ADD_FAILURE() << "it was stored";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRetry);
    EXPECT_THAT(error.what(), HasSubstr("its disk is full"));
  }
  EXPECT_EQ(files_in(disk.cache() / "partial"), 0u);
}

TEST_F(Cache, AnUploadThatFindsNoPlaceInTheEndLeavesNothingAndTheNextOneWorks) {
  SegmentCache cache(path(), 8 * kMiB);
  const auto bytes = noise(kMiB);
  fs::create_directory(segment_path(bytes));
  EXPECT_THAT(error_of([&] { store(cache, bytes); }), HasSubstr("cannot store the module"));
  EXPECT_EQ(files_in(path() / "partial"), 0u);
  fs::remove(segment_path(bytes));
  EXPECT_TRUE(store(cache, bytes));
}

TEST_F(Cache, WhatIsLeftOfAnUploadAndMayNotBeWrittenMakesWayForTheNext) {
  SegmentCache cache(path(), 8 * kMiB);
  const auto bytes = noise(kMiB);
  const std::string name = to_hex(runtime::sha256(bytes)) + "." + std::to_string(bytes.size());
  std::ofstream(path() / "partial" / name) << "left";
  fs::permissions(path() / "partial" / name, fs::perms::owner_read);
  EXPECT_TRUE(store(cache, bytes));
}

/// Writes down what is done to make a file last.
class WatchedDisk : public Disk {
 public:
  int sync(int file) override {
    struct stat status {};
    ::fstat(file, &status);
    done.push_back(S_ISDIR(status.st_mode) ? "directory" : "file of " + std::to_string(status.st_size));
    return broken ? ENOSPC : Disk::sync(file);
  }
  bool broken = false;
  std::vector<std::string> done;
};

TEST_F(Cache, SegmentsAreSyncedWithTheirDirectoryBeforeTheCacheIsLetGo) {
  WatchedDisk disk;
  {
    SegmentCache cache(path(), 8 * kMiB, nullptr, &disk);
    ASSERT_TRUE(store(cache, noise(kMiB)));
    ASSERT_TRUE(store(cache, noise(1000)));
  }
  EXPECT_THAT(disk.done, ::testing::ElementsAre("file of 1048576", "directory", "file of 1000", "directory"));
  disk.broken = true;
  { store(*std::make_unique<SegmentCache>(path(), 8 * kMiB, nullptr, &disk), noise(kMiB, 2)); }
  EXPECT_EQ(files_in(path() / "segments"), 2u) << "what the disk does not take is gone";
}

TEST(VerifiedSegments, KnowsAFileInOneStateOnly) {
  VerifiedSegments verified;
  struct stat state {};
  state.st_ino = 5;
  state.st_size = 100;
  state.st_ctim = {1000, 7};
  EXPECT_FALSE(verified.contains(DigestBytes{1}, state));
  verified.add(DigestBytes{1}, state);
  EXPECT_TRUE(verified.contains(DigestBytes{1}, state));
  EXPECT_FALSE(verified.contains(DigestBytes{2}, state));
  state.st_ctim.tv_nsec = 8;
  EXPECT_FALSE(verified.contains(DigestBytes{1}, state));
}

TEST(VerifiedSegments, RemembersTheNewestOfManyMoreThanFit) {
  VerifiedSegments verified;
  struct stat state {};
  for (ino_t i = 0; i < 100'000; ++i) {
    state.st_ino = i;
    verified.add(DigestBytes{}, state);
    EXPECT_TRUE(verified.contains(DigestBytes{}, state));
  }
}

}  // namespace
}  // namespace gantry::rpc
