// Kernels of a GPU: each launch becomes an entry function; its parameters are a pointer for each buffer of
// the kernel, its symbols and the iteration of the loop around it. Defined in the GPUs' folder of
// host/targets.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <functional>

#include "host/codegen/buffers.h"
#include "host/codegen/expressions.h"
#include "host/codegen/function_scope.h"
#include "host/codegen/narrow_indices.h"
#include "host/loops/stmt.h"
#include "host/machine/target.h"

namespace gantry {

class Launches {
 public:
  /// `body` emits what the threads of a launch do.
  Launches(llvm::IRBuilder<>& builder, llvm::Module& module, const LoopKernel& kernel, const Target& target,
           FunctionScope& scope, Expressions& expressions, Buffers& buffers, NarrowIndices& narrow,
           std::function<void(const Stmt&)> body);

  /// The launches of the kernel, of which one loop may be around some.
  void emit(const Stmt& s, const ForNode* loop = nullptr);

 private:
  void emit_launch(const LaunchNode& launch, const ForNode* loop);
  llvm::Function* make_entry(const LaunchNode& launch, const ForNode* loop);
  /// Names the parameters and makes them what the scope's names stand for; those of buffers that the body
  /// does not store to are read only.
  void bind_parameters(const Stmt& body, const ForNode* loop);
  /// A variable that is a special register, in [0, limit).
  void bind_index(const Expr& var, llvm::Intrinsic::ID special_register, int64_t limit);
  /// What the driver must know of an entry with so many threads in a block.
  void annotate(llvm::Function* entry, int64_t threads);

  llvm::IRBuilder<>& b_;
  llvm::Module& module_;
  const LoopKernel& kernel_;
  const Target& target_;
  FunctionScope& scope_;
  Expressions& expressions_;
  Buffers& buffers_;
  NarrowIndices& narrow_;
  std::function<void(const Stmt&)> body_;
  int count_ = 0;
};

}  // namespace gantry
