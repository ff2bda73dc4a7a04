// Loads and stores of single elements, and accesses under a condition.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <map>

#include "host/codegen/access_reports.h"
#include "host/codegen/buffers.h"
#include "host/codegen/function_scope.h"

namespace gantry {

class BufferElements {
 public:
  /// `gpu`: the code is a GPU's, where a load that may not run is a branch.
  BufferElements(llvm::IRBuilder<>& builder, const FunctionScope& scope, const Buffers& buffers,
                 AccessReports& reports, bool gpu);

  /// In the form of memory; 0 where `predicate` (may be null) is false. `known`: the alignment of that
  /// element, where more is known than its type says.
  llvm::Value* load(const BufferNode& buffer, llvm::Value* index, llvm::Value* predicate,
                    llvm::MaybeAlign known = {});
  void store(const BufferNode& buffer, llvm::Value* index, llvm::Value* raw, llvm::Value* predicate,
             llvm::MaybeAlign known = {});
  /// A load or store that runs where `predicate` (a scalar) is true; the load is 0 elsewhere.
  llvm::Value* load_where(llvm::Value* predicate, llvm::Type* type,
                          const std::function<llvm::Value*()>& load);
  void store_where(llvm::Value* predicate, const std::function<void()>& store);

 private:
  /// Stack memory that lanes switched off read: 0.
  llvm::Value* blank_memory();

  llvm::IRBuilder<>& b_;
  const FunctionScope& scope_;
  const Buffers& buffers_;
  AccessReports& reports_;
  bool gpu_;
  std::map<const llvm::Function*, llvm::Value*> blank_;
};

}  // namespace gantry
