// SHA-256 (FIPS 180-4), streaming; uses the CPU's instructions for it where it has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gantry::runtime {

using Sha256Digest = std::array<uint8_t, 32>;

/// Feeds whole 64-byte blocks into a state of eight words.
using Sha256Blocks = void (*)(uint32_t* state, const uint8_t* data, size_t blocks);

/// The portable implementation, for tests.
void sha256_blocks_portable(uint32_t* state, const uint8_t* data, size_t blocks);
/// The fastest implementation that this CPU runs.
Sha256Blocks sha256_best_blocks();

/// A digest of bytes that arrive in pieces. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  explicit Sha256(Sha256Blocks blocks);
  void update(std::span<const std::byte> bytes);
  /// The digest of everything so far; the object must not be used further.
  Sha256Digest finish();

 private:
  Sha256Blocks blocks_;
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> pending_;
  size_t pending_size_ = 0;
  uint64_t total_ = 0;
};

Sha256Digest sha256(std::span<const std::byte> bytes);
/// 64 lower-case hexadecimal digits.
std::string to_hex(const Sha256Digest& digest);

}  // namespace gantry::runtime
