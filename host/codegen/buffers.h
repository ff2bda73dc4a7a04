// Addresses in a kernel's buffers, and what LLVM is told of the accesses. Every buffer has an alias scope of
// its own, so that LLVM knows what loop IR promises: buffers are disjoint.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "host/codegen/function_scope.h"
#include "host/codegen/index_range.h"
#include "host/loops/stmt.h"

namespace gantry {

/// Bytes to which device buffers, a block's shared memory and a thread's local buffers are aligned at least;
/// the widest access of one thread.
inline constexpr uint64_t kDeviceAlignment = 16;

class Buffers {
 public:
  /// `ranges`: what is known of indices, on GPUs, whose accesses must be aligned; null: an element's own
  /// alignment is good enough.
  Buffers(llvm::IRBuilder<>& builder, const llvm::Module& module, const FunctionScope& scope,
          const LoopKernel& kernel, IndexRanges* ranges);

  /// Of the first element. An internal error outside of the buffer's lifetime.
  llvm::Value* address(const BufferNode& buffer) const;
  llvm::Value* element(const BufferNode& buffer, llvm::Value* index) const;
  /// Of an element.
  llvm::Align alignment(const BufferNode& buffer) const;
  /// Of an access whose first lane is at `index`.
  llvm::Align alignment(const BufferNode& buffer, const Expr& index) const;
  /// Says of a load or store which buffer's it is.
  void annotate(llvm::Instruction* access, const BufferNode& buffer) const;

  /// True if a store of the kernel writes it, or what set_written() said in its place.
  bool is_written(const BufferNode& buffer) const { return written_.contains(&buffer); }
  void set_written(std::set<const BufferNode*> written) { written_ = std::move(written); }

 private:
  llvm::IRBuilder<>& b_;
  const llvm::Module& module_;
  const FunctionScope& scope_;
  const std::string& kernel_;  ///< its name, for errors
  IndexRanges* ranges_;
  std::map<const BufferNode*, std::pair<llvm::MDNode*, llvm::MDNode*>>
      alias_scopes_;  ///< (alias.scope, noalias)
  std::set<const BufferNode*> written_;
};

}  // namespace gantry
