// The function that is being written, and what loop IR's names stand for in it.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <map>
#include <string>

#include "host/tensor/expr.h"

namespace gantry {

struct FunctionScope {
  llvm::Function* function = nullptr;
  llvm::BasicBlock* entry = nullptr;  ///< allocas and what every path needs
  llvm::Value* host = nullptr;        ///< the table of the host's functions (GantryKernelHost); null on GPUs
  std::map<const VarNode*, llvm::Value*> vars;
  std::map<std::string, llvm::Value*> symbols;
  std::map<const BufferNode*, llvm::Value*> buffers;

  /// At the function's end.
  llvm::BasicBlock* new_block(const llvm::Twine& name) const;
  /// Memory of the function's stack, from its entry on.
  llvm::AllocaInst* on_stack(llvm::Type* type, const llvm::Twine& name) const;
};

}  // namespace gantry
