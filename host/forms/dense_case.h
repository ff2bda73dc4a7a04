// Products with constant weights, as their forms see them.
#pragma once

#include "host/forms/form.h"
#include "host/graph/shape_guess.h"
#include "host/ops/dense.h"

namespace gantry::forms {

struct DenseCase {
  const DenseAttrs& attrs;
  const TensorType& data;  ///< (…, K)
  /// f32 of known depth.
  bool known() const { return data.dtype == DType::kF32 && !data.shape.empty() && data.shape.back().is_constant(); }
  int64_t depth() const { return data.shape.empty() ? 1 : guess::extent(data.shape.back(), guess::Extent::kDepth); }
};

DenseCase dense_case(const FormQuestion& question);
/// With constant weights in the model's layout.
bool is_dense(const FormQuestion& question, const FormContext& context);

}  // namespace gantry::forms
