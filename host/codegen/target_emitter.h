// What a target's folder writes its own instructions with. LLVM's headers stay in host/codegen and
// host/targets.
#pragma once

#include "host/codegen/kernel_emitter.h"

namespace gantry {

class TargetEmitter {
 public:
  explicit TargetEmitter(KernelEmitter& emitter);

  llvm::IRBuilder<>& ir;
  llvm::Module& module;

  /// An index, in elements.
  llvm::Value* index(const Expr& e);
  llvm::Value* element_pointer(const BufferNode& buffer, llvm::Value* index);
  /// Says of a load or store which buffer's it is; returns it.
  template <typename Access>
  Access* annotated(Access* access, const BufferNode& buffer) {
    emitter_.buffers_.annotate(access, buffer);
    return access;
  }
  /// A tile that is a vector register: a variable of so many lanes of f32. LLVM allocates the registers and
  /// orders the loads between the products.
  llvm::Value* tile_variable(int number, int lanes);
  /// Tiles from here on hold weights; what kConfigure said.
  int& first_weight_tile();

 private:
  KernelEmitter& emitter_;
};

}  // namespace gantry
