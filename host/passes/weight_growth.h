// How much larger than the model's weights what is made of them may be, where size counts.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gantry {

/// Bytes grow by no more than padding to whole blocks may cost: an eighth, or 8 KiB.
inline bool grows_little(int64_t before, int64_t after) {
  constexpr int64_t kShare = 8, kFreeBytes = int64_t{8} << 10;
  return after - before <= std::max(before / kShare, kFreeBytes);
}

}  // namespace gantry
