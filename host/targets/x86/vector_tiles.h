// Tiles of one row, in AVX-512's vector registers: what the instructions that multiply such have in common.
#pragma once

#include "host/codegen/target_emitter.h"
#include "host/loops/stmt.h"

namespace gantry::x86 {

class VectorTiles {
 public:
  /// Registers of so many lanes of 32 bits; `lane`: what a sum is.
  VectorTiles(TargetEmitter& emitter, llvm::Type* lane, int lanes);

  llvm::Value* read(int number) const;
  void write(int number, llvm::Value* value) const;
  /// All ops but kDot. `spread`: of a load, that every lane has the same 4 bytes, else the buffer has all
  /// lanes.
  void emit(const TileNode& node, bool spread) const;

 private:
  TargetEmitter& emitter_;
  int lanes_;
  llvm::Type *lane_, *sums_, *variable_;
};

}  // namespace gantry::x86
