// SHA-256 with the cryptography instructions of ARMv8.
#include "device_runtime/src/sha256.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "device_runtime/src/sha256_constants.h"

namespace gantry::runtime {
namespace {

// GCC offers these instructions only together with those for AES, which it does not use of its own accord.
[[gnu::target("+crypto")]] void sha256_blocks_arm(uint32_t* state, const uint8_t* data, size_t blocks) {
  uint32x4_t abcd = vld1q_u32(state);
  uint32x4_t efgh = vld1q_u32(state + 4);
  for (; blocks > 0; --blocks, data += 64) {
    const uint32x4_t abcd_before = abcd, efgh_before = efgh;
    uint32x4_t w[4];
#pragma GCC unroll 16
    for (int group = 0; group < 16; ++group) {
      uint32x4_t& current = w[group % 4];
      if (group < 4) {
        current = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data + 16 * group)));
      } else {
        const uint32x4_t &next = w[(group + 1) % 4], &third = w[(group + 2) % 4], &last = w[(group + 3) % 4];
        current = vsha256su1q_u32(vsha256su0q_u32(current, next), third, last);
      }
      const uint32x4_t message = vaddq_u32(current, vld1q_u32(kSha256Rounds + 4 * group));
      const uint32x4_t abcd_old = abcd;
      abcd = vsha256hq_u32(abcd, efgh, message);
      efgh = vsha256h2q_u32(efgh, abcd_old, message);
    }
    abcd = vaddq_u32(abcd, abcd_before);
    efgh = vaddq_u32(efgh, efgh_before);
  }
  vst1q_u32(state, abcd);
  vst1q_u32(state + 4, efgh);
}

}  // namespace

Sha256Blocks sha256_best_blocks() {
  static const Sha256Blocks best =
      (getauxval(AT_HWCAP) & HWCAP_SHA2) ? sha256_blocks_arm : sha256_blocks_portable;
  return best;
}

}  // namespace gantry::runtime
#endif
