// How long a loop may be that runs at once or is written out, so many times too: schedules and loop nests by hand may
// ask for any length, of which LLVM would make code for hours.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "host/tensor/loop_kinds.h"

namespace gantry {

/// Lanes of a vectorized loop: one for each byte that the vector registers of the widest target hold, 32 of
/// 64 bytes. Of more, LLVM would make as many pieces in memory, in time that grows faster than they do.
inline constexpr int64_t kMaxLanes = 32 * 64;
/// Iterations of an unrolled loop: four times as many as any target's rules write out. LLVM's time grows with
/// the square of straight code, which is slower besides once it is longer than the cache of instructions.
inline constexpr int64_t kMaxUnrolled = 1024;

/// Rows of a tile of which there is a version for every number that may be left, where that is known only when the
/// kernel runs (host/loops/partition_guards.cpp). Such versions take half as much code again as the tile for every
/// row; of more rows, the sums of a few take as long as those of many.
inline constexpr int64_t kMostRowVersions = 8;

/// Why a loop of that kind cannot have so many iterations, and what to do, to stand behind its name; empty:
/// it can.
inline std::string excess_of(LoopKind kind, int64_t extent) {
  if (kind == LoopKind::kVectorized && extent > kMaxLanes)
    return fmt::format("has {} lanes, at most {} are possible: split it and vectorize the inner loop", extent,
                       kMaxLanes);
  if (kind == LoopKind::kUnrolled && extent > kMaxUnrolled)
    return fmt::format(
        "writes out {} iterations, at most {} are possible: split it and unroll the inner loop", extent,
        kMaxUnrolled);
  return {};
}

}  // namespace gantry
