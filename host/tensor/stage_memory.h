// Where the result of a stage lives, and which part of it is computed.
#pragma once

#include <cstdint>
#include <vector>

#include "host/tensor/tensor.h"

namespace gantry {

/// Kernel-wide scratch from the workspace, the stack/registers of the loop, a GPU block's shared memory, or a
/// matrix tile spread over the registers of a warp.
enum class StorageScope : uint8_t { kGlobal, kLocal, kShared, kFragment };

struct StageMemory {
  StorageScope scope = StorageScope::kGlobal;
  /// kShared: elements added to each row (all but the last dimension), so that columns fall into other banks.
  int64_t row_padding = 0;
  /// kShared stages attached to a serial loop: the next iteration's tile is fetched while this one is used.
  bool double_buffered = false;
};

struct StageRegion {
  bool bounded = false;             ///< see Stage::bound_to_reads
  std::vector<IterVarPtr> shifted;  ///< see Stage::shift_region
  Expr rows_end;                    ///< see Stage::read_rows_below; null: not said
};

}  // namespace gantry
