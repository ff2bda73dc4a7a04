// Ops of one element of one operand, each declared by one constant: its name, what it takes, and its formula.
//
//   inline constexpr ElementwiseOp<NoAttrs> relu{"nn.relu", Takes::kAnything, formula::relu};
#pragma once

#include <string_view>

#include "host/graph/op_handle.h"
#include "host/tensor/expr.h"

namespace gantry {

/// Which dtypes an op takes.
enum class Takes : uint8_t { kFloat, kNumber, kInteger, kBool, kAnything };

namespace ops {
/// Throws Unsupported where the op does not take the dtype.
void require_taken(Takes takes, DType dtype);
}  // namespace ops

template <typename AttrsType>
class ElementwiseOp : public Op<AttrsType> {
 public:
  /// f16 and bf16 operands are f32 in the formula; what it gives is cast to the result's dtype.
  using Formula = Expr (*)(const AttrsType&, const Expr& x);
  /// The result's dtype; null: the operand's.
  using ResultType = DType (*)(const AttrsType&);

  constexpr ElementwiseOp(std::string_view name, Takes takes, Formula formula, ResultType result = nullptr)
      : Op<AttrsType>(name), takes(takes), formula(formula), result(result) {}

  Takes takes;
  Formula formula;
  ResultType result;
};

}  // namespace gantry
