// GPU kernels that run on a CPU and report what they do (see GantryGpuChecker): the calls of the checker.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <map>
#include <vector>

#include "host/codegen/buffers.h"
#include "host/codegen/function_scope.h"
#include "host/loops/stmt.h"
#include "host/machine/target.h"

namespace gantry {

/// True if the kernel tells a checker of its accesses: it was made of launches, for a target with gpu_checks.
bool reports_accesses(const LoopKernel& kernel, const Target& target);

class AccessReports {
 public:
  /// `active`: without, reports of accesses do nothing, and nothing else may be called.
  AccessReports(llvm::IRBuilder<>& builder, const FunctionScope& scope, bool active);
  bool active() const { return active_; }

  /// Where the function begins: finds the host's checker, without which the kernel ends, and introduces the
  /// kernel's buffers to it. `size` emits a number of elements.
  void begin(const LoopKernel& kernel, const Buffers& buffers,
             const std::function<llvm::Value*(const Expr&)>& size);
  void barrier();
  /// Around a loop over blocks or threads, and where each of its iterations begins.
  void enter(const ForNode& loop);
  void begin_iteration(const ForNode& loop);
  void leave(const ForNode& loop);

  /// Reports `count` elements from `index` on, where the predicate (may be null) is true.
  void access(const BufferNode& buffer, bool store, llvm::Value* index, int64_t stride, int count,
              llvm::Value* predicate);
  /// Reports adjacent elements, those whose lane is set in the mask (may be null).
  void lanes(const BufferNode& buffer, bool store, llvm::Value* first, int lanes, llvm::Value* mask);

 private:
  void introduce(const LoopKernel& kernel, const Buffers& written,
                 const std::function<llvm::Value*(const Expr&)>& size, llvm::Value* begin_kernel,
                 llvm::Value* add_buffer);
  /// Calls a function of the checker; the kernel ends if it objects.
  void call(llvm::Value* function, std::vector<llvm::Value*> arguments);

  llvm::IRBuilder<>& b_;
  const FunctionScope& scope_;
  bool active_;
  llvm::Value *context_ = nullptr, *begin_launch_ = nullptr, *begin_block_ = nullptr, *barrier_ = nullptr,
              *access_ = nullptr;
  llvm::BasicBlock* failed_ = nullptr;
  std::map<const BufferNode*, uint32_t> ids_;
  std::vector<const VarNode*> blocks_;  ///< of the loops around: z, y, x
  const VarNode* thread_ = nullptr;     ///< of the loop around; null: the block does it
};

}  // namespace gantry
