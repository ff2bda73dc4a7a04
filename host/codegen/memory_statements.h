// Statements that touch memory: stores, transposes through registers, prefetches.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <string>

#include "host/codegen/memory_parts.h"
#include "host/loops/stmt.h"

namespace gantry {

class MemoryStatements {
 public:
  /// `kernel`: the name, for errors.
  MemoryStatements(const MemoryParts& parts, const std::string& kernel)
      : b_(parts.builder), parts_(parts), kernel_(kernel) {}

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
  const MemoryParts& parts_;
  const std::string& kernel_;
};

}  // namespace gantry
