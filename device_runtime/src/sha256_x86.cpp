// SHA-256 with the SHA extensions of x86-64.
#include "device_runtime/src/sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include "device_runtime/src/sha256_constants.h"

namespace gantry::runtime {
namespace {

// The instructions keep the state as two registers, (a b e f) and (c d g h), highest word first.
[[gnu::target("sha,ssse3,sse4.1")]] void sha256_blocks_x86(uint32_t* state, const uint8_t* data,
                                                           size_t blocks) {
  const __m128i byte_order = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(state)), 0xb1);
  __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4)), 0x1b);
  __m128i abef = _mm_alignr_epi8(badc, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, badc, 0xf0);
  for (; blocks > 0; --blocks, data += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
#pragma GCC unroll 16
    for (int group = 0; group < 16; ++group) {
      __m128i& current = w[group % 4];
      if (group < 4) {
        __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + 16 * group));
        current = _mm_shuffle_epi8(words, byte_order);
      } else {
        const __m128i &next = w[(group + 1) % 4], &third = w[(group + 2) % 4], &last = w[(group + 3) % 4];
        __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(current, next), _mm_alignr_epi8(last, third, 4));
        current = _mm_sha256msg2_epu32(sum, last);
      }
      const auto* rounds = reinterpret_cast<const __m128i*>(kSha256Rounds + 4 * group);
      __m128i message = _mm_add_epi32(current, _mm_load_si128(rounds));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, message);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(message, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
  const bool ssse3_and_sse41 = (c >> 9 & 1) && (c >> 19 & 1);
  if (!ssse3_and_sse41 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  return b >> 29 & 1;
}

}  // namespace

Sha256Blocks sha256_best_blocks() {
  static const Sha256Blocks best = has_sha_instructions() ? sha256_blocks_x86 : sha256_blocks_portable;
  return best;
}

}  // namespace gantry::runtime
#endif
