// Statements that touch memory: stores, transposes through registers, prefetches.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <string>

#include "host/codegen/access_reports.h"
#include "host/codegen/buffer_elements.h"
#include "host/codegen/buffers.h"
#include "host/codegen/conversions.h"
#include "host/codegen/expressions.h"
#include "host/codegen/vector_lanes.h"
#include "host/loops/stmt.h"

namespace gantry {

class MemoryStatements {
 public:
  /// `gpu`: the code is a GPU's, where a store that may not run is a branch. `kernel`: the name, for errors.
  MemoryStatements(llvm::IRBuilder<>& builder, Expressions& expressions, VectorLanes& lanes,
                   Conversions& conversions, const Buffers& buffers, BufferElements& elements,
                   AccessReports& reports, bool gpu, const std::string& kernel);

  void store(const StoreNode& node);
  void transpose(const TransposeNode& node);
  /// Nothing, on GPUs and in kernels that report their accesses.
  void prefetch(const PrefetchNode& node);

 private:
  /// Of more than one lane; `raw` and `predicate` (may be null) as they were emitted.
  void store_lanes(const StoreNode& node, llvm::Value* raw, llvm::Value* predicate, int lanes);
  void store_adjacent(const StoreNode& node, llvm::Value* first, llvm::Value* raw, llvm::Value* predicate,
                      int lanes);

  llvm::IRBuilder<>& b_;
  Expressions& expressions_;
  VectorLanes& lanes_;
  Conversions& conversions_;
  const Buffers& buffers_;
  BufferElements& elements_;
  AccessReports& reports_;
  bool gpu_;
  const std::string& kernel_;
};

}  // namespace gantry
