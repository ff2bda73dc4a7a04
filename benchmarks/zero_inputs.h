// Inputs of zeros for a module, through the C interface.
#pragma once

#include <cstddef>
#include <vector>

#include "gantry/runtime.h"

namespace gantry::benchmarks {

/// Gives every input zeros of its declared shape, 1 for sizes that are the caller's. The session copies them.
/// Returns the first status that is not GANTRY_OK.
inline GantryStatus set_zeros(const GantryModule* module, GantrySession* session) {
  for (int32_t i = 0; i < gantry_input_count(module); ++i) {
    GantryTensorDescription info;
    info.struct_size = sizeof info;
    if (const GantryStatus status = gantry_describe_input(module, i, &info); status != GANTRY_OK)
      return status;
    size_t size = static_cast<size_t>(info.dtype.bits + 7) / 8;
    for (int axis = 0; axis < info.rank; ++axis) {
      if (info.shape[axis] < 0) info.shape[axis] = 1;
      size *= static_cast<size_t>(info.shape[axis]);
    }
    std::vector<char> zeros(size, 0);
    DLTensor tensor{zeros.data(), {kDLCPU, 0}, info.rank, info.dtype, info.shape, nullptr, 0};
    if (const GantryStatus status = gantry_set_input(session, i, &tensor, 0); status != GANTRY_OK)
      return status;
  }
  return GANTRY_OK;
}

}  // namespace gantry::benchmarks
