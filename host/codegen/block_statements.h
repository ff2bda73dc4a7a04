// What the threads of a GPU's block share: memory, and barriers at which they meet. Defined in the GPUs'
// folder of host/targets.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <string>

#include "host/codegen/expressions.h"
#include "host/codegen/function_scope.h"
#include "host/loops/stmt.h"

namespace gantry {

class BlockStatements {
 public:
  /// `kernel`: the name, for errors.
  BlockStatements(llvm::IRBuilder<>& builder, llvm::Module& module, FunctionScope& scope,
                  Expressions& expressions, const std::string& kernel)
      : b_(builder), module_(module), scope_(scope), expressions_(expressions), kernel_(kernel) {}

  /// Before and after the body of an allocation of shared memory, which is named after the launch's entry.
  void open(const AllocateNode& node);
  void close(const AllocateNode& node);
  void barrier();

 private:
  llvm::IRBuilder<>& b_;
  llvm::Module& module_;
  FunctionScope& scope_;
  Expressions& expressions_;
  const std::string& kernel_;
};

}  // namespace gantry
