#include "host/codegen/tile_statements.h"

#include "host/support/error.h"

namespace gantry {

void TileStatements::emit(const TileNode& node) {
  if (node.op == TileNode::Op::kConfigure) instruction_ = tile_instruction(target_, node.unit);
  internal_check(instruction_ != nullptr, "kernel {}: tile registers in code for {}", kernel_, target_.name);
  expressions_.forget();
  instruction_->emit(emitter_, node);
}

}  // namespace gantry
