#include "host/codegen/target_emitter.h"

#include "host/codegen/buffers.h"
#include "host/codegen/expressions.h"
#include "host/codegen/function_scope.h"

namespace gantry {

using llvm::Value;

Value* TargetEmitter::index(const Expr& e) {
  return expressions_.emit_index(e);
}

Value* TargetEmitter::element_pointer(const BufferNode& buffer, Value* index) {
  return buffers_.element(buffer, index);
}

void TargetEmitter::annotate(llvm::Instruction* access, const BufferNode& buffer) {
  buffers_.annotate(access, buffer);
}

Value* TargetEmitter::tile_variable(int number, int lanes) {
  Value*& variable = tiles_[scope_.function].variables[number];
  if (!variable) variable = scope_.on_stack(with_lanes(ir.getFloatTy(), lanes), "tile");
  return variable;
}

int& TargetEmitter::first_weight_tile() {
  return tiles_[scope_.function].first_weight;
}

}  // namespace gantry
