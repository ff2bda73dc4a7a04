// The host's functions, as code that runs sees them (GantryKernelHost).
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstddef>
#include <cstdint>

#include "host/codegen/function_scope.h"

namespace gantry {

class HostTable {
 public:
  HostTable(llvm::IRBuilder<>& builder, const FunctionScope& scope) : b_(builder), scope_(scope) {}

  /// True where a kernel was called without a host.
  llvm::Value* is_absent();
  /// True if the table is of this version of the ABI or a later one.
  llvm::Value* has_version(uint32_t version);
  /// A pointer in the table, by its offset.
  llvm::Value* member(size_t offset);

 private:
  llvm::IRBuilder<>& b_;
  const FunctionScope& scope_;
};

}  // namespace gantry
