#include "host/codegen/serial_loops.h"

namespace gantry {

using llvm::Value;

void SerialLoops::emit(Value* low, Value* end, const Expr& var, const std::function<void()>& body) {
  const auto* node = var.as<VarNode>();
  auto* header = scope_.new_block(node->name);
  auto* after = scope_.new_block("after");
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(low, end), header, after);
  b_.SetInsertPoint(header);
  llvm::PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2, node->name);
  index->addIncoming(low, before);
  scope_.vars[node] = index;
  body();
  Value* next = b_.CreateAdd(index, b_.getInt64(1), "", signs_.is_non_negative(var), true);
  index->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), header, after);
  b_.SetInsertPoint(after);
  scope_.vars.erase(node);
}

}  // namespace gantry
