// Loops in a thread of a GPU: with 32-bit variables where they fit, unrolled where registers or short bodies
// ask for it.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>

#include "host/codegen/expressions.h"
#include "host/codegen/function_scope.h"
#include "host/codegen/index_range.h"
#include "host/codegen/narrow_indices.h"
#include "host/loops/stmt.h"

namespace gantry {

class DeviceLoops {
 public:
  DeviceLoops(llvm::IRBuilder<>& builder, FunctionScope& scope, Expressions& expressions,
              NarrowIndices& narrow, IndexRanges& ranges)
      : b_(builder), scope_(scope), expressions_(expressions), narrow_(narrow), ranges_(ranges) {}

  /// `body` emits an iteration, in which the variable is bound.
  void emit(const ForNode& loop, const std::function<void()>& body);

 private:
  llvm::IRBuilder<>& b_;
  FunctionScope& scope_;
  Expressions& expressions_;
  NarrowIndices& narrow_;
  IndexRanges& ranges_;
};

}  // namespace gantry
