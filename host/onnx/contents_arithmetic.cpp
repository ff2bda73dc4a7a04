#include <algorithm>
#include <functional>

#include "host/graph/dim_at_least.h"
#include "host/onnx/contents_rules.h"
#include "host/onnx/node_import.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

/// `like` with other elements, a vector's any number of them.
Contents with_dims(const Contents& like, Shape dims) {
  if (!like.is_scalar()) return Contents::vector(std::move(dims), like.dtype);
  return {std::move(dims), {}, like.dtype};
}

ContentsResult cast(NodeImport& n) {
  auto c = n.elements(0);
  if (!c) return std::nullopt;
  DType to = n.cast_target();
  if (!is_index_dtype(to)) return std::nullopt;
  for (Dim& d : c->dims) {
    if (d.is_constant())
      d = wrap_integer(to, d.value());
    else if (to == DType::kBool)
      return std::nullopt;
  }
  c->dtype = to;
  return c;
}

/// Elementwise with broadcasting of single elements.
ContentsResult zip(NodeImport& n, DType result_dtype,
                   const std::function<std::optional<Dim>(const Dim&, const Dim&)>& f) {
  auto a = n.contents(0), b = n.contents(1);
  if (!a || !b) return std::nullopt;
  size_t count = std::max(a->dims.size(), b->dims.size());
  if (a->dims.empty() || b->dims.empty()) count = 0;
  bool fits =
      (a->dims.size() == count || a->dims.size() == 1) && (b->dims.size() == count || b->dims.size() == 1);
  if (!fits) return std::nullopt;
  Shape dims;
  for (size_t i = 0; i < count; ++i) {
    auto d = f(a->dims[a->dims.size() == 1 ? 0 : i], b->dims[b->dims.size() == 1 ? 0 : i]);
    if (!d) return std::nullopt;
    dims.push_back(*d);
  }
  Contents result = with_dims(a->is_scalar() ? *b : *a, std::move(dims));
  result.dtype = result_dtype == DType::kBool ? result_dtype : a->dtype;
  return result;
}

/// Whether it is a number beyond all sizes, the end of its type say: of it and a size, sums and products may
/// wrap around, as no dimension does.
bool is_far_off(const Dim& d) {
  constexpr int64_t kFar = int64_t{1} << 48;
  const auto number = d.constant();
  return number && (*number > kFar || *number < -kFar);
}

/// The sum, difference, product or extremum of elements of that type. Known numbers are computed as kernels
/// do it, and wrap around where the type does not hold the result; sizes fit. Nothing where they may not.
std::optional<Dim> computed(BinaryOp op, const Dim& a, const Dim& b, DType dtype) {
  if (a.is_constant() && b.is_constant()) return fold_integers(op, dtype, a.value(), b.value()).value();
  const bool is_extremum = op == BinaryOp::kMax || op == BinaryOp::kMin;
  if (!is_extremum && (is_far_off(a) || is_far_off(b))) return std::nullopt;
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kMax:
      return max(a, b);
    default:
      return min(a, b);
  }
}

ContentsResult arithmetic(NodeImport& n, BinaryOp op) {
  return zip(n, DType::kI64,
             [op, dtype = n.type(0).dtype](const Dim& a, const Dim& b) { return computed(op, a, b, dtype); });
}

bool never_negative(const Dim& d) {
  auto low = d.lower_bound();
  return low && *low >= 0;
}

bool is_positive(const Dim& d) {
  const auto low = d.lower_bound();
  return low && *low > 0;
}

/// ONNX divides towards zero; that is floor where both sides are not negative.
std::optional<Dim> divide(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant() && b.value() != 0 && b.value() != -1)
    return Dim(a.value() / b.value());
  if (!is_positive(b) && b.is_constant()) return std::nullopt;
  return never_negative(a) && never_negative(b) ? std::optional(floordiv(a, b)) : std::nullopt;
}

/// With the sign of b, as a dimension's.
std::optional<Dim> remainder(const Dim& a, const Dim& b) {
  const bool same_in_both = never_negative(a) && never_negative(b) && !(b.is_constant() && b.value() == 0);
  return is_positive(b) || same_in_both ? std::optional(mod(a, b)) : std::nullopt;
}

/// With the sign of a.
std::optional<Dim> truncated_remainder(const Dim& a, const Dim& b) {
  return never_negative(a) ? remainder(a, b) : std::nullopt;
}

/// a < b, if that is certain for all symbol values.
std::optional<Dim> certainly_less(const Dim& a, const Dim& b) {
  const auto forward = least_difference(b, a), backward = least_difference(a, b);
  if (forward && *forward > 0) return Dim(1);
  if (backward && *backward >= 0) return Dim(0);
  return std::nullopt;
}

std::optional<Dim> certainly_equal(const Dim& a, const Dim& b) {
  if (a == b) return Dim(1);
  auto less = certainly_less(a, b), greater = certainly_less(b, a);
  bool different = provably_different(a, b) || (less && *less == Dim(1)) || (greater && *greater == Dim(1));
  return different ? std::optional(Dim(0)) : std::nullopt;
}

ContentsResult add(NodeImport& n) {
  return arithmetic(n, BinaryOp::kAdd);
}
ContentsResult subtract(NodeImport& n) {
  return arithmetic(n, BinaryOp::kSub);
}
ContentsResult multiply(NodeImport& n) {
  return arithmetic(n, BinaryOp::kMul);
}
ContentsResult divide_all(NodeImport& n) {
  return zip(n, DType::kI64, divide);
}
ContentsResult mod_all(NodeImport& n) {
  return zip(n, DType::kI64, n.integer("fmod", 0) != 0 ? truncated_remainder : remainder);
}
ContentsResult maximum(NodeImport& n) {
  if (n.input_count() != 2) return std::nullopt;
  return arithmetic(n, BinaryOp::kMax);
}
ContentsResult minimum(NodeImport& n) {
  if (n.input_count() != 2) return std::nullopt;
  return arithmetic(n, BinaryOp::kMin);
}
ContentsResult equal(NodeImport& n) {
  return zip(n, DType::kBool, certainly_equal);
}
ContentsResult less(NodeImport& n) {
  return zip(n, DType::kBool, certainly_less);
}
ContentsResult greater(NodeImport& n) {
  return zip(n, DType::kBool, [](const Dim& a, const Dim& b) { return certainly_less(b, a); });
}

ContentsResult where(NodeImport& n) {
  auto condition = n.contents(0), a = n.contents(1), b = n.contents(2);
  if (!condition || !a || !b) return std::nullopt;
  size_t count = std::max({condition->dims.size(), a->dims.size(), b->dims.size()});
  auto at = [&](const Contents& c, size_t i) { return c.dims[c.dims.size() == 1 ? 0 : i]; };
  for (const Contents* c : {&*condition, &*a, &*b}) {
    if (c->dims.size() != count && c->dims.size() != 1) return std::nullopt;
  }
  Shape dims;
  for (size_t i = 0; i < count; ++i) {
    Dim chosen = at(*condition, i);
    if (!chosen.is_constant()) return std::nullopt;
    dims.push_back(chosen.value() != 0 ? at(*a, i) : at(*b, i));
  }
  const bool is_scalar = condition->is_scalar() && a->is_scalar() && b->is_scalar();
  return is_scalar ? Contents::scalar(dims.front(), a->dtype) : Contents::vector(std::move(dims), a->dtype);
}

ContentsResult negative(NodeImport& n) {
  auto c = n.elements(0);
  if (!c) return std::nullopt;
  for (Dim& d : c->dims) d = computed(BinaryOp::kSub, 0, d, c->dtype).value();
  return c;
}

ContentsResult logical_not(NodeImport& n) {
  auto c = n.contents(0);
  if (!c || !constant_shape(c->dims)) return std::nullopt;
  for (Dim& d : c->dims) d = d.value() != 0 ? 0 : 1;
  return c;
}

/// Whether a reduction leaves its data as they are: one that is told to do so where it has no axes. Nothing
/// where only the running model knows whether there are any.
std::optional<bool> reduces_nothing(NodeImport& n) {
  if (n.integer("noop_with_empty_axes", 0) == 0) return false;
  if (!n.has(1)) return n.integer_list("axes").empty();
  const auto axes = n.contents(1);
  return axes ? std::optional(axes->dims.empty()) : std::nullopt;
}

/// ReduceProd, ReduceSum, ReduceMax, ReduceMin of a whole vector.
ContentsResult reduce(NodeImport& n, BinaryOp op) {
  auto c = n.contents(0);
  if (!c || c->is_scalar() || c->dims.empty()) return std::nullopt;
  const std::optional<bool> nothing = reduces_nothing(n);
  if (!nothing) return std::nullopt;
  if (*nothing) return c;
  Dim total = c->dims[0];
  for (size_t i = 1; i < c->dims.size(); ++i) {
    const auto next = computed(op, total, c->dims[i], c->dtype);
    if (!next) return std::nullopt;
    total = *next;
  }
  return n.integer("keepdims", 1) == 0 ? Contents::scalar(total, c->dtype)
                                       : Contents::vector({total}, c->dtype);
}
ContentsResult reduce_prod(NodeImport& n) {
  return reduce(n, BinaryOp::kMul);
}
ContentsResult reduce_sum(NodeImport& n) {
  return reduce(n, BinaryOp::kAdd);
}
ContentsResult reduce_max(NodeImport& n) {
  return reduce(n, BinaryOp::kMax);
}
ContentsResult reduce_min(NodeImport& n) {
  return reduce(n, BinaryOp::kMin);
}

constexpr ContentsRule kRules[] = {
    {"Cast", cast},
    {"Add", add},
    {"Sub", subtract},
    {"Mul", multiply},
    {"Div", divide_all},
    {"Mod", mod_all},
    {"Max", maximum},
    {"Min", minimum},
    {"Equal", equal},
    {"Less", less},
    {"Greater", greater},
    {"Where", where},
    {"Neg", negative},
    {"Not", logical_not},
    {"ReduceProd", reduce_prod},
    {"ReduceSum", reduce_sum},
    {"ReduceMax", reduce_max},
    {"ReduceMin", reduce_min},
};

}  // namespace

std::span<const ContentsRule> arithmetic_contents_rules() {
  return kRules;
}

}  // namespace gantry
