// Formulas over values in the notation of arithmetic, for converters that compose an op of others:
//
//   Term y = x * cosine - swap(x) * sine;
//   n.set(0, where(less(index, length), y, 0));
//
// Operands are broadcast as NumPy does; a number is a constant of the other operand's dtype.
#pragma once

#include <vector>

#include "host/onnx/node_import.h"

namespace gantry {

/// A value of the function that the converter adds to. As cheap to copy as a pointer.
class Term {
 public:
  Term(NodeImport& n, Value* value) : n_(&n), value_(value) {}
  /// Input i of the node.
  static Term input(NodeImport& n, size_t i) { return {n, n.input(i)}; }
  /// 0, 1, …, count - 1 as i64, from `start` on.
  static Term range(NodeImport& n, const Dim& count, const Dim& start = 0);
  /// The dimensions' values as a vector of i64.
  static Term dimensions(NodeImport& n, const Shape& dims);
  /// One element of that dtype.
  static Term number(NodeImport& n, DType dtype, double value) { return {n, n.scalar(dtype, value)}; }
  /// That number in every element.
  static Term filled(NodeImport& n, DType dtype, double value, Shape shape) {
    return {n, n.broadcast(n.scalar(dtype, value), std::move(shape))};
  }

  operator Value*() const { return value_; }  // NOLINT: what ops take
  NodeImport& node() const { return *n_; }
  DType dtype() const { return value_->type.dtype; }
  const Shape& shape() const { return value_->type.shape; }
  int rank() const { return value_->type.rank(); }
  /// The extent of an axis; negative ones count from the end.
  const Dim& dim(int64_t axis) const;

  Term cast(DType dtype) const { return {*n_, n_->cast(value_, dtype)}; }
  /// f16 and bf16 as f32.
  Term widened() const;
  Term reshaped(Shape shape) const { return {*n_, n_->reshape(value_, std::move(shape))}; }
  Term transposed(std::vector<int64_t> axes) const { return {*n_, n_->transpose(value_, std::move(axes))}; }
  Term broadcast(Shape shape) const { return {*n_, n_->broadcast(value_, std::move(shape))}; }
  /// Elements [begin, end) of an axis; negative axes count from the end. That there are these is a
  /// constraint where it is not certain (NodeImport::slice).
  Term sliced(int64_t axis, const Dim& begin, const Dim& end) const;
  /// The same of an axis that has them by what no dimension says (NodeImport::slice_inside).
  Term sliced_inside(int64_t axis, const Dim& begin, const Dim& end) const;
  /// Elements begin, begin + stride, … before `end`; a constraint as sliced() has one.
  Term strided(int64_t axis, const Dim& begin, const Dim& end, int64_t stride) const;
  /// With an axis of extent 1 at `axis` (of the result; negative ones count from its end).
  Term unsqueezed(int64_t axis) const;
  /// Without that axis, which has extent 1.
  Term squeezed(int64_t axis) const;
  /// The op of one operand.
  Term apply(const Op<NoAttrs>& op) const { return {*n_, n_->add(op, {value_})}; }
  /// The op of two operands.
  Term apply(const Op<NoAttrs>& op, const Term& b) const { return {*n_, n_->add(op, {value_, b.value_})}; }
  Term number_like(double value) const { return number(*n_, dtype(), value); }

 private:
  NodeImport* n_;
  Value* value_;
};

Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator+(const Term& a, double b);
Term operator-(const Term& a, double b);
Term operator*(const Term& a, double b);
Term operator/(const Term& a, double b);
Term operator-(double a, const Term& b);
Term operator-(const Term& a);

Term exp(const Term& x);
Term log(const Term& x);
Term sqrt(const Term& x);
Term tanh(const Term& x);
Term abs(const Term& x);
Term floor(const Term& x);
Term ceil(const Term& x);
Term cos(const Term& x);
Term sin(const Term& x);
Term sigmoid(const Term& x);
Term square(const Term& x);
Term maximum(const Term& a, const Term& b);
Term minimum(const Term& a, const Term& b);
Term maximum(const Term& a, double b);
Term minimum(const Term& a, double b);

// Comparisons and logic: bool results.
Term equal(const Term& a, const Term& b);
Term not_equal(const Term& a, const Term& b);
Term less(const Term& a, const Term& b);
Term less_equal(const Term& a, const Term& b);
Term greater_equal(const Term& a, const Term& b);
Term both(const Term& a, const Term& b);
Term either(const Term& a, const Term& b);
Term negation(const Term& a);
Term where(const Term& condition, const Term& a, const Term& b);
Term where(const Term& condition, const Term& a, double b);
Term where(const Term& condition, double a, const Term& b);

/// Over axes (negative ones count from the end; none: all), which stay with extent 1 or go.
enum class KeepAxes : bool { kNo, kYes };
Term sum(const Term& x, std::vector<int64_t> axes, KeepAxes keep = KeepAxes::kNo);
Term mean(const Term& x, std::vector<int64_t> axes, KeepAxes keep = KeepAxes::kNo);
Term largest(const Term& x, std::vector<int64_t> axes, KeepAxes keep = KeepAxes::kNo);
/// All axes from `first` to the last.
std::vector<int64_t> axes_from(const Term& x, int64_t first);

/// Matrix products over the last two axes; the axes before are broadcast.
Term matmul(const Term& a, const Term& b);
/// a times the transpose of b.
Term matmul_transposed(const Term& a, const Term& b);
Term softmax(const Term& x, int64_t axis);
Term log_softmax(const Term& x, int64_t axis);
Term concatenated(const std::vector<Term>& parts, int64_t axis);
/// Slices of x along an axis at those positions; those outside are brought to the nearest there is.
Term gather(const Term& x, const Term& indices, int64_t axis);
/// As ONNX's GatherElements and GatherND.
Term gather_elements(const Term& x, const Term& indices, int64_t axis);
Term gather_nd(const Term& x, const Term& indices, int64_t batch_dims);

}  // namespace gantry
