#include "host/onnx/term.h"

#include <algorithm>

#include "host/ops/builder.h"
#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/norm.h"
#include "host/ops/reduce.h"

namespace gantry {
namespace {

/// An axis that may count from the end of a tensor of that rank.
int64_t normal(const Term& x, int64_t axis, int extra = 0) {
  return x.node().axis(axis, x.rank() + extra);
}

std::shared_ptr<ReduceAttrs> reduce_attrs(const Term& x, std::vector<int64_t> axes, KeepAxes keep) {
  auto attrs = std::make_shared<ReduceAttrs>();
  attrs->keepdims = keep == KeepAxes::kYes;
  for (int64_t& axis : axes) axis = normal(x, axis);
  if (axes.empty()) axes = axes_from(x, 0);
  std::sort(axes.begin(), axes.end());
  attrs->axes = std::move(axes);
  return attrs;
}

Term reduced(const Op<ReduceAttrs>& op, const Term& x, std::vector<int64_t> axes, KeepAxes keep) {
  return {x.node(), x.node().add(op, {x}, reduce_attrs(x, std::move(axes), keep))};
}

}  // namespace

Term Term::range(NodeImport& n, const Dim& count, const Dim& start) {
  auto attrs = std::make_shared<ArangeAttrs>();
  attrs->start = start;
  attrs->step = 1;
  attrs->count = count;
  // Where it starts may be a dimension, which is no number yet: the importer must not evaluate that.
  if (!start.is_constant()) return {n, Builder(n.function(), {n.name()})(op::arange, {}, attrs)};
  return {n, n.add(op::arange, {}, attrs)};
}

Term Term::dimensions(NodeImport& n, const Shape& dims) {
  auto attrs = std::make_shared<DimsToTensorAttrs>();
  attrs->dims = dims;
  if (constant_shape(dims)) return {n, n.add(op::dims_to_tensor, {}, attrs)};
  return {n, Builder(n.function(), {n.name()})(op::dims_to_tensor, {}, attrs)};  // no numbers yet
}

const Dim& Term::dim(int64_t axis) const {
  return shape()[static_cast<size_t>(normal(*this, axis))];
}

Term Term::widened() const {
  return dtype() == DType::kF16 || dtype() == DType::kBF16 ? cast(DType::kF32) : *this;
}

Term Term::sliced(int64_t axis, const Dim& begin, const Dim& end) const {
  if (begin == Dim(0) && end == dim(axis)) return *this;
  return {*n_, n_->slice(value_, normal(*this, axis), begin, end)};
}

Term Term::sliced_inside(int64_t axis, const Dim& begin, const Dim& end) const {
  if (begin == Dim(0) && end == dim(axis)) return *this;
  return {*n_, n_->slice_inside(value_, normal(*this, axis), begin, end)};
}

Term Term::strided(int64_t axis, const Dim& begin, const Dim& end, int64_t stride) const {
  return {*n_, n_->slice(value_, normal(*this, axis), begin, end, stride)};
}

Term Term::unsqueezed(int64_t axis) const {
  Shape wider = shape();
  wider.insert(wider.begin() + normal(*this, axis, 1), 1);
  return reshaped(std::move(wider));
}

Term Term::squeezed(int64_t axis) const {
  Shape narrower = shape();
  narrower.erase(narrower.begin() + normal(*this, axis));
  return reshaped(std::move(narrower));
}

Term operator+(const Term& a, const Term& b) {
  return a.apply(op::add, b);
}
Term operator-(const Term& a, const Term& b) {
  return a.apply(op::subtract, b);
}
Term operator*(const Term& a, const Term& b) {
  return a.apply(op::multiply, b);
}
Term operator/(const Term& a, const Term& b) {
  return a.apply(op::divide, b);
}
Term operator+(const Term& a, double b) {
  return b == 0 ? a : a + a.number_like(b);
}
Term operator-(const Term& a, double b) {
  return b == 0 ? a : a - a.number_like(b);
}
Term operator*(const Term& a, double b) {
  return b == 1 ? a : a * a.number_like(b);
}
Term operator/(const Term& a, double b) {
  return b == 1 ? a : a / a.number_like(b);
}
Term operator-(double a, const Term& b) {
  return b.number_like(a) - b;
}
Term operator-(const Term& a) {
  return a.apply(op::negative);
}

Term exp(const Term& x) {
  return x.apply(op::exp);
}
Term log(const Term& x) {
  return x.apply(op::log);
}
Term sqrt(const Term& x) {
  return x.apply(op::sqrt);
}
Term tanh(const Term& x) {
  return x.apply(op::tanh);
}
Term abs(const Term& x) {
  return x.apply(op::abs);
}
Term floor(const Term& x) {
  return x.apply(op::floor);
}
Term ceil(const Term& x) {
  return x.apply(op::ceil);
}
Term cos(const Term& x) {
  return x.apply(op::cos);
}
Term sin(const Term& x) {
  return x.apply(op::sin);
}
Term sigmoid(const Term& x) {
  return x.apply(op::sigmoid);
}
Term square(const Term& x) {
  return x * x;
}
Term maximum(const Term& a, const Term& b) {
  return a.apply(op::maximum, b);
}
Term minimum(const Term& a, const Term& b) {
  return a.apply(op::minimum, b);
}
Term maximum(const Term& a, double b) {
  return maximum(a, a.number_like(b));
}
Term minimum(const Term& a, double b) {
  return minimum(a, a.number_like(b));
}

Term equal(const Term& a, const Term& b) {
  return a.apply(op::equal, b);
}
Term not_equal(const Term& a, const Term& b) {
  return a.apply(op::not_equal, b);
}
Term less(const Term& a, const Term& b) {
  return a.apply(op::less, b);
}
Term less_equal(const Term& a, const Term& b) {
  return a.apply(op::less_equal, b);
}
Term greater_equal(const Term& a, const Term& b) {
  return a.apply(op::greater_equal, b);
}
Term both(const Term& a, const Term& b) {
  return a.apply(op::logical_and, b);
}
Term either(const Term& a, const Term& b) {
  return a.apply(op::logical_or, b);
}
Term negation(const Term& a) {
  return a.apply(op::logical_not);
}
Term where(const Term& condition, const Term& a, const Term& b) {
  return {a.node(), a.node().add(op::where, {condition, a, b})};
}
Term where(const Term& condition, const Term& a, double b) {
  return where(condition, a, a.number_like(b));
}
Term where(const Term& condition, double a, const Term& b) {
  return where(condition, b.number_like(a), b);
}

Term sum(const Term& x, std::vector<int64_t> axes, KeepAxes keep) {
  return reduced(op::sum, x, std::move(axes), keep);
}
Term mean(const Term& x, std::vector<int64_t> axes, KeepAxes keep) {
  return reduced(op::mean, x, std::move(axes), keep);
}
Term largest(const Term& x, std::vector<int64_t> axes, KeepAxes keep) {
  return reduced(op::max, x, std::move(axes), keep);
}
std::vector<int64_t> axes_from(const Term& x, int64_t first) {
  std::vector<int64_t> axes;
  for (int64_t axis = first; axis < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

Term matmul(const Term& a, const Term& b) {
  return {a.node(), a.node().add(op::matmul, {a, b})};
}
Term matmul_transposed(const Term& a, const Term& b) {
  auto attrs = std::make_shared<MatmulAttrs>();
  attrs->transpose_b = true;
  return {a.node(), a.node().add(op::matmul, {a, b}, attrs)};
}
Term softmax(const Term& x, int64_t axis) {
  auto attrs = std::make_shared<SoftmaxAttrs>();
  attrs->axis = normal(x, axis);
  return {x.node(), x.node().add(nn::softmax, {x}, attrs)};
}
Term log_softmax(const Term& x, int64_t axis) {
  auto attrs = std::make_shared<SoftmaxAttrs>();
  attrs->axis = normal(x, axis);
  return {x.node(), x.node().add(nn::log_softmax, {x}, attrs)};
}
Term concatenated(const std::vector<Term>& parts, int64_t axis) {
  auto attrs = std::make_shared<AxisAttrs>();
  attrs->axis = normal(parts.front(), axis);
  return {parts.front().node(),
          parts.front().node().add(op::concatenate, {parts.begin(), parts.end()}, attrs)};
}
Term gather(const Term& x, const Term& indices, int64_t axis) {
  auto attrs = std::make_shared<AxisAttrs>();
  attrs->axis = normal(x, axis);
  return {x.node(), x.node().add(op::gather, {x, indices}, attrs)};
}
Term gather_elements(const Term& x, const Term& indices, int64_t axis) {
  auto attrs = std::make_shared<AxisAttrs>();
  attrs->axis = normal(x, axis);
  return {x.node(), x.node().add(op::gather_elements, {x, indices}, attrs)};
}
Term gather_nd(const Term& x, const Term& indices, int64_t batch_dims) {
  auto attrs = std::make_shared<GatherNdAttrs>();
  attrs->batch_dims = batch_dims;
  return {x.node(), x.node().add(op::gather_nd, {x, indices}, attrs)};
}

}  // namespace gantry
