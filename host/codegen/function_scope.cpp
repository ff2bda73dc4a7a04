#include "host/codegen/function_scope.h"

namespace gantry {

llvm::BasicBlock* FunctionScope::new_block(const llvm::Twine& name) const {
  return llvm::BasicBlock::Create(function->getContext(), name, function);
}

llvm::AllocaInst* FunctionScope::on_stack(llvm::Type* type, const llvm::Twine& name) const {
  llvm::IRBuilder<> first(entry, entry->begin());
  return first.CreateAlloca(type, nullptr, name);
}

}  // namespace gantry
