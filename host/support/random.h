// Random numbers that are the same on every platform: integer arithmetic and exact IEEE operations only.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace gantry {

/// xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021), its state
/// filled by SplitMix64 (Steele, Lea and Flood, 2014).
class Random {
 public:
  /// `stream` gives each tensor numbers of its own, so that a network's weights do not depend on their order.
  Random(uint64_t seed, std::string_view stream) {
    uint64_t x = seed;
    for (char c : stream) x = (x ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    for (uint64_t& word : state_) word = split_mix(x);
  }

  uint64_t next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// Mean 0, standard deviation 1: the sum of eight 16-bit uniforms, which needs no libm and so has the same
  /// bits everywhere. Its tails end at 4.9.
  double normal() {
    int64_t sum = 0;
    for (int word = 0; word < 2; ++word) {
      const uint64_t bits = next();
      for (int part = 0; part < 64; part += 16) sum += static_cast<int64_t>((bits >> part) & 0xffff);
    }
    // Centre 8 * 65535 / 2; variance 8 * (2^32 - 1) / 12.
    constexpr double kInverseDeviation = 1.0 / 53509.91992145008;
    return static_cast<double>(sum - 262140) * kInverseDeviation;
  }

 private:
  static uint64_t split_mix(uint64_t& x) {
    uint64_t z = (x += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  uint64_t state_[4];
};

}  // namespace gantry
