// What loads and the statements that touch memory are written with.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "host/codegen/access_reports.h"
#include "host/codegen/buffer_elements.h"
#include "host/codegen/buffers.h"
#include "host/codegen/conversions.h"
#include "host/codegen/expressions.h"
#include "host/codegen/vector_lanes.h"

namespace gantry {

struct MemoryParts {
  llvm::IRBuilder<>& builder;
  Expressions& expressions;
  VectorLanes& lanes;
  Conversions& conversions;
  const Buffers& buffers;
  BufferElements& elements;
  AccessReports& reports;
  bool gpu;  ///< the code is a GPU's, where an access that may not happen is a branch
};

}  // namespace gantry
