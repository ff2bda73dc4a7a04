#include "host/codegen/tile_statements.h"

#include "host/support/error.h"

namespace gantry {

void TileStatements::emit(const TileNode& node) {
  if (node.op == TileNode::Op::kConfigure) emit_ = tile_emission(target_, node.unit);
  internal_check(emit_ != nullptr, "kernel {}: tile registers in code for {}", kernel_, target_.name);
  expressions_.forget();
  emit_(emitter_, node);
}

}  // namespace gantry
