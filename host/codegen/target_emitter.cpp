#include "host/codegen/target_emitter.h"

#include "host/codegen/cpu_family.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

TargetEmitter::TargetEmitter(KernelEmitter& emitter)
    : ir(emitter.b_), module(emitter.module_), emitter_(emitter) {}

Value* TargetEmitter::index(const Expr& e) {
  return emitter_.expressions_.emit_index(e);
}

Value* TargetEmitter::element_pointer(const BufferNode& buffer, Value* index) {
  return emitter_.buffers_.element(buffer, index);
}

Value* TargetEmitter::tile_variable(int number, int lanes) {
  Value*& variable = emitter_.scope_.tile_registers[number];
  if (!variable) {
    variable = emitter_.scope_.on_stack(with_lanes(ir.getFloatTy(), lanes), "tile");
  }
  return variable;
}

int& TargetEmitter::first_weight_tile() {
  return emitter_.scope_.first_weight_tile;
}

void KernelEmitter::emit_tile(const TileNode& node) {
  if (node.op == TileNode::Op::kConfigure) tile_instruction_ = tile_instruction(target_, node.unit);
  internal_check(tile_instruction_ != nullptr, "kernel {}: tile registers in code for {}", kernel_.name,
                 target_.name);
  expressions_.forget();
  TargetEmitter emitter(*this);
  tile_instruction_->emit(emitter, node);
}

}  // namespace gantry
