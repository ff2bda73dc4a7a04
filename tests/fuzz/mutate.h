// Mutations of byte strings for the fuzzers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace gantry::fuzz {

/// Changes one to eight places: a bit, a byte, or a number of 2, 4 or 8 bytes that tends to be an edge case.
inline void overwrite(std::span<std::byte> bytes, std::mt19937& random) {
  static constexpr uint64_t kEdges[] = {0,          1,          0x7f,       0xff,
                                        0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff,
                                        1ull << 63, ~0ull,      4096,       1ull << 32};
  if (bytes.empty()) return;
  const int places = 1 + static_cast<int>(random() % 8);
  for (int place = 0; place < places; ++place) {
    const size_t at = random() % bytes.size();
    if (random() % 2 == 0) {
      bytes[at] ^= static_cast<std::byte>(1u << random() % 8);
      continue;
    }
    const uint64_t value = random() % 4 == 0 ? random() : kEdges[random() % std::size(kEdges)];
    const size_t width = std::min(size_t{1} << random() % 4, bytes.size() - at);
    std::memcpy(bytes.data() + at, &value, width);
  }
}

/// As overwrite; sometimes also cuts the end off, removes a piece or repeats one.
inline void mutate(std::vector<std::byte>& bytes, std::mt19937& random) {
  overwrite(bytes, random);
  if (bytes.empty()) return;
  const size_t at = random() % bytes.size();
  const size_t count = std::min<size_t>(1 + random() % 64, bytes.size() - at);
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  const auto last = first + static_cast<std::ptrdiff_t>(count);
  switch (random() % 6) {
    case 0:
      bytes.resize(at);
      break;
    case 1:
      bytes.erase(first, last);
      break;
    case 2: {
      const std::vector<std::byte> piece(first, last);
      bytes.insert(first, piece.begin(), piece.end());
      break;
    }
    default:
      break;
  }
}

}  // namespace gantry::fuzz
