// Products by a lane of a register. Private to host/codegen.
#pragma once

namespace llvm {
class PassBuilder;
}

namespace gantry {

/// For targets whose multiply-add takes one operand from any lane of a register (NEON): reductions that
/// broadcast one scalar after another are unrolled by the lanes of a register, and the scalars, which are
/// neighbours, loaded as one vector. An in-order core is then not kept waiting by a load in front of every
/// product, and others have a third fewer instructions to execute.
void add_lane_operand_passes(llvm::PassBuilder& builder);

}  // namespace gantry
