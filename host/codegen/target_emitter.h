// What a target's folder writes its own instructions with. LLVM's headers stay in host/codegen and
// host/targets.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>

#include "host/codegen/value_types.h"

namespace gantry {

class Buffers;
class Expressions;
struct FunctionScope;

class TargetEmitter {
 public:
  TargetEmitter(llvm::IRBuilder<>& builder, llvm::Module& llvm_module, const FunctionScope& scope,
                Expressions& expressions, const Buffers& buffers)
      : ir(builder), module(llvm_module), scope_(scope), expressions_(expressions), buffers_(buffers) {}

  llvm::IRBuilder<>& ir;
  llvm::Module& module;

  /// An index, in elements.
  llvm::Value* index(const Expr& e);
  llvm::Value* element_pointer(const BufferNode& buffer, llvm::Value* index);
  /// Says of a load or store which buffer's it is; returns it.
  template <typename Access>
  Access* annotated(Access* access, const BufferNode& buffer) {
    annotate(access, buffer);
    return access;
  }
  /// A tile that is a vector register: a variable of so many lanes of f32. LLVM allocates the registers and
  /// orders the loads between the products.
  llvm::Value* tile_variable(int number, int lanes);
  /// Tiles from here on hold weights; what kConfigure said in this function.
  int& first_weight_tile();

 private:
  struct Tiles {
    std::map<int, llvm::Value*> variables;
    int first_weight = 0;
  };

  void annotate(llvm::Instruction* access, const BufferNode& buffer);

  const FunctionScope& scope_;
  Expressions& expressions_;
  const Buffers& buffers_;
  std::map<const llvm::Function*, Tiles> tiles_;
};

}  // namespace gantry
