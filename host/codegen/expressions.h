// Expressions of loop IR as LLVM values. A scalar or vector expression is a value of its register type
// (host/codegen/value_types.h); each is emitted once in a statement and branch, however many trees share it.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <string>
#include <unordered_map>

#include "host/codegen/function_scope.h"
#include "host/tensor/expr.h"

namespace gantry {

class Conversions;
class FloatArithmetic;
class IntegerArithmetic;
class Loads;
class MathCalls;
class MultiplyAdds;
class NarrowIndices;
class VectorLanes;

class Expressions {
 public:
  /// What emits expressions of one kind; most of them ask for their operands here.
  struct Kinds {
    Conversions& conversions;
    IntegerArithmetic& integers;
    FloatArithmetic& floats;
    MultiplyAdds& multiply_adds;
    MathCalls& calls;
    VectorLanes& lanes;
    Loads& loads;
    NarrowIndices* narrow;  ///< null: 64 bits are as cheap
  };
  /// `kernel`: the name, for errors.
  Expressions(llvm::IRBuilder<>& builder, FunctionScope& scope, const std::string& kernel,
              const Kinds& kinds);

  llvm::Value* emit(const Expr& e);
  /// An index or bound.
  llvm::Value* emit_index(const Expr& e);
  /// In what is emitted from now on, `var` stands for `value`.
  void set_value(const VarNode* var, const Expr& value);
  /// A new statement begins, whose values are not those of the ones before.
  void forget() { cache_.clear(); }

  /// While one lives, what is emitted is part of an index or bound: its i64 arithmetic cannot overflow.
  class InIndex {
   public:
    explicit InIndex(Expressions& expressions) : depth_(expressions.index_depth_) { ++depth_; }
    ~InIndex() { --depth_; }
    InIndex(const InIndex&) = delete;
    InIndex& operator=(const InIndex&) = delete;

   private:
    int& depth_;
  };
  bool in_index() const { return index_depth_ > 0; }

 private:
  llvm::Value* emit_uncached(const Expr& e);
  llvm::Value* variable(const VarNode& node);
  llvm::Value* binary(const BinaryNode& node, const Expr& self);
  llvm::Value* let(const LetNode& node);
  llvm::Value* select(const Expr& condition, llvm::Value* if_true, llvm::Value* if_false);
  llvm::Value* if_then_else(const CallNode& node);

  llvm::IRBuilder<>& b_;
  FunctionScope& scope_;
  const std::string& kernel_;
  Kinds kinds_;
  std::unordered_map<const ExprNode*, llvm::Value*> cache_;
  int index_depth_ = 0;
};

}  // namespace gantry
