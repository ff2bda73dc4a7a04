// Flat buffers, which lowered expressions load from.
#pragma once

#include <memory>
#include <string>

#include "host/tensor/expr.h"

namespace gantry {

/// Where a buffer lives.
enum class BufferScope : uint8_t {
  kArgument,  ///< a pointer that the kernel receives
  kScratch,   ///< workspace that the plan provides to this kernel, shared by its threads
  kLocal,     ///< stack of the thread; promoted to registers where every index is constant
  kShared,    ///< GPU: on-chip memory that the threads of a block share; lives while its block runs
  kThread,    ///< CPU: as kLocal, but too large for a stack: memory that the host keeps for each thread
};
struct BufferNode {
  std::string name;
  DType dtype = DType::kF32;
  Expr element_count;
  BufferScope scope = BufferScope::kArgument;
  int alignment = 4;  ///< bytes known
};
using Buffer = std::shared_ptr<const BufferNode>;

}  // namespace gantry
