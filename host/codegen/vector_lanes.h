// Vector expressions by their lanes: indices that step evenly, and single lanes computed as scalars.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <optional>
#include <set>

#include "host/codegen/buffer_elements.h"
#include "host/codegen/conversions.h"
#include "host/codegen/expressions.h"
#include "host/codegen/integer_arithmetic.h"

namespace gantry {

/// Lane i of an index is base + i * stride.
struct Affine {
  llvm::Value* base;
  int64_t stride;
};

/// The one condition of all lanes; null if they may differ.
Expr scalar_predicate(const Expr& predicate);

class VectorLanes {
 public:
  VectorLanes(llvm::IRBuilder<>& builder, Expressions& expressions, IntegerArithmetic& integers,
              Conversions& conversions, BufferElements& elements);

  /// Of an integer expression; none where its lanes step otherwise.
  std::optional<Affine> affine(const Expr& index);
  /// One lane, computed as a scalar.
  llvm::Value* lane(const Expr& e, int i);
  /// Comparisons of ramps, as guards make them: `first + lane < bound` needs no vector of 64-bit indices,
  /// only the number of lanes before the bound. Null where the operands have another form.
  llvm::Value* compare(const BinaryNode& node);
  /// `var` stands for `value`: what is computed of data may be any number, where indices and sizes are small.
  void set_value(const VarNode* var, const Expr& value);

 private:
  bool may_be_far(const Expr& e) const;
  std::optional<Affine> compared(const Expr& e, bool is_far);

  llvm::IRBuilder<>& b_;
  Expressions& expressions_;
  IntegerArithmetic& integers_;
  Conversions& conversions_;
  BufferElements& elements_;
  std::set<const VarNode*> far_;  ///< variables that may be any number
};

}  // namespace gantry
