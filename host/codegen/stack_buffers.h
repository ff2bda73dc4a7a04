// Local buffers: memory of the function's stack.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <map>
#include <string>

#include "host/codegen/function_scope.h"
#include "host/loops/stmt.h"
#include "host/machine/target.h"

namespace gantry {

class StackBuffers {
 public:
  /// `kernel`: the name, for errors.
  StackBuffers(llvm::IRBuilder<>& builder, FunctionScope& scope, const Target& target,
               const std::string& kernel);

  /// Before and after the body of an allocation. Errors: internal ones, where the size is not constant or all
  /// of the function's buffers at a time take too much.
  void open(const AllocateNode& node);
  void close(const AllocateNode& node);

 private:
  llvm::ArrayType* type_of(const AllocateNode& node) const;

  llvm::IRBuilder<>& b_;
  FunctionScope& scope_;
  int64_t most_bytes_;
  uint64_t alignment_;
  const std::string& kernel_;
  std::map<const llvm::Function*, int64_t> bytes_;  ///< that are in use
};

}  // namespace gantry
