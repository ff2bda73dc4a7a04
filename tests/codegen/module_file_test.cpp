#include "host/codegen/module_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>
#include <sys/resource.h>

#include <csignal>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "device_runtime/src/module_format.h"
#include "host/support/error.h"
#include "host/support/spill_file.h"
#include "host/support/temporary.h"

namespace gantry {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

SegmentData segment_of(std::string text, uint64_t offset, uint64_t size) {
  auto owner = std::make_shared<std::string>(std::move(text));
  SegmentData data;
  data.size = size;
  data.pieces.push_back({offset, std::as_bytes(std::span(*owner)), owner});
  return data;
}

ModuleFile small_module() {
  ModuleFile module;
  module.manifest.model_name = "small";
  module.segment_kinds = {module_format::SegmentKind::Code, module_format::SegmentKind::Weights};
  module.segments.push_back(segment_of("the code", 0, 8));
  module.segments.push_back(segment_of("weights", 100, 5000));
  return module;
}

std::string sha256(std::span<const std::byte> bytes) {
  std::string digest(32, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

TEST(ModuleFile, HasAHeaderThatDescribesItAndChecksItself) {
  ModuleFile module = small_module();
  const std::vector<std::byte> file = serialize_module(module);
  module_format::FileHeader header;
  ASSERT_GE(file.size(), sizeof header);
  std::memcpy(&header, file.data(), sizeof header);
  EXPECT_EQ(std::memcmp(header.magic, module_format::kMagic, 8), 0);
  EXPECT_EQ(header.file_size, file.size());
  EXPECT_EQ(header.manifest_offset % module_format::kManifestAlignment, 0u);
  const std::span<const std::byte> all(file);
  EXPECT_EQ(sha256(all.first(96)), std::string(reinterpret_cast<char*>(header.checksum), 32));
  EXPECT_EQ(sha256(all.subspan(header.manifest_offset, header.manifest_size)),
            std::string(reinterpret_cast<char*>(header.manifest_digest), 32));
}

TEST(ModuleFile, PlacesSegmentsAtPagesWithTheirDigests) {
  ModuleFile module = small_module();
  const std::vector<std::byte> file = serialize_module(module);
  const std::span<const std::byte> all(file);
  module_format::FileHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  const auto* manifest = module_format::GetManifest(file.data() + header.manifest_offset);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(file.data()) + header.manifest_offset,
                                 header.manifest_size);
  ASSERT_TRUE(module_format::VerifyManifestBuffer(verifier));
  ASSERT_EQ(manifest->segments()->size(), 2u);
  for (const module_format::Segment* segment : *manifest->segments()) {
    EXPECT_EQ(segment->offset() % module_format::kSegmentAlignment, 0u);
    const auto bytes = all.subspan(segment->offset(), segment->size());
    EXPECT_EQ(sha256(bytes),
              std::string(reinterpret_cast<const char*>(segment->digest().bytes()->Data()), 32));
  }
  const auto weights = all.subspan(manifest->segments()->Get(1)->offset());
  EXPECT_EQ(std::memcmp(weights.data() + 100, "weights", 7), 0);
  EXPECT_EQ(weights[99], std::byte{0});
  EXPECT_EQ(weights.size(), 5000u);
}

TEST(ModuleFile, HasAllOfPiecesThatWaitOnTheDisk) {
  std::vector<std::byte> weights((size_t{17} << 20) + 5);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<std::byte>(i * 2654435761U >> 24);
  const TemporaryFolder folder("test");
  SpillFile spill(folder.path());
  const std::shared_ptr<const std::byte> kept = spill.keep(weights);
  ASSERT_TRUE(kept);
  ModuleFile module = small_module();
  module.segments[1].pieces.push_back({4096, {kept.get(), weights.size()}, kept});
  module.segments[1].size = 4096 + weights.size();
  const std::vector<std::byte> file = serialize_module(module);
  ASSERT_GE(file.size(), weights.size());
  EXPECT_TRUE(
      std::equal(weights.begin(), weights.end(), file.end() - static_cast<std::ptrdiff_t>(weights.size())));
}

TEST(ModuleFile, OnDiskIsTheSameAsInMemory) {
  const TemporaryFolder folder("test");
  ModuleFile module = small_module();
  const std::vector<std::byte> expected = serialize_module(module);
  write_module(module, folder.path() / "m.gmod");
  std::ifstream stream(folder.path() / "m.gmod", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  ASSERT_EQ(bytes.size(), expected.size());
  EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), bytes.size()), 0);
}

TEST(ModuleFile, AFullDiskLeavesNothingAndNamesThePath) {
  const TemporaryFolder folder("test");
  ModuleFile module = small_module();
  module.segments[1].size = 64 << 20;
  // A limit on the size of files fails writes as a full disk does.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small{1 << 20, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    write_module(module, folder.path() / "m.gmod");
  } catch (const Error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(message, HasSubstr("m.gmod"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(ModuleFile, AFolderThatDoesNotExistIsAUserError) {
  ModuleFile module = small_module();
  try {
    write_module(module, "/no/such/folder/m.gmod");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), HasSubstr("/no/such/folder/m.gmod"));
  }
}

}  // namespace
}  // namespace gantry
