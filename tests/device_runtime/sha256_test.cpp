#include "device_runtime/src/sha256.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace gantry::runtime {
namespace {

std::string hash_text(const std::string& text) {
  return to_hex(sha256(std::as_bytes(std::span(text))));
}

// Expected values: the examples that NIST publishes with FIPS 180-4.
TEST(Sha256, AgreesWithTheStandardsExamples) {
  EXPECT_EQ(hash_text(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_text("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_text(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, IsTheSameByInstructionsAndPortably) {
  std::mt19937 random(1);
  for (size_t size = 0; size < 400; ++size) {
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    Sha256 portable(sha256_blocks_portable);
    portable.update(bytes);
    ASSERT_EQ(portable.finish(), sha256(bytes)) << size << " bytes";
  }
}

TEST(Sha256, DoesNotDependOnHowTheBytesArrive) {
  std::vector<std::byte> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  for (size_t piece : {1, 3, 63, 64, 65, 200}) {
    Sha256 hash;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      hash.update(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    }
    EXPECT_EQ(hash.finish(), sha256(bytes)) << "pieces of " << piece;
  }
}

}  // namespace
}  // namespace gantry::runtime
