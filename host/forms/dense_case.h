// Products with constant weights, as their forms see them.
#pragma once

#include "host/forms/form.h"
#include "host/forms/product.h"
#include "host/graph/shape_guess.h"
#include "host/ops/dense.h"

namespace gantry::forms {

struct DenseCase {
  const DenseAttrs& attrs;
  const TensorType& data;  ///< (…, K)
  DType weight;
  /// Integers that a row of the table of products has.
  bool of_integers() const { return multiplies_as_they_are(data.dtype, weight); }
  /// f32 or such integers, of known depth.
  bool known() const {
    return (data.dtype == DType::kF32 || of_integers()) && !data.shape.empty() &&
           data.shape.back().is_constant();
  }
  int64_t depth() const { return data.shape.empty() ? 1 : guess::extent(data.shape.back(), guess::Extent::kDepth); }
};

DenseCase dense_case(const FormQuestion& question);
/// With constant weights in the model's layout, of the data's type.
bool is_dense(const FormQuestion& question, const FormContext& context);
/// With such weights of integers that a row of the table of products has with the data's.
bool is_dense_of_integers(const FormQuestion& question);

}  // namespace gantry::forms
