#include "host/onnx/contents.h"

#include <algorithm>
#include <string_view>

#include "host/onnx/node_import.h"
#include "host/support/error.h"

namespace gantry {
namespace {

constexpr size_t kLongest = 1024;  // elements; longer vectors are data, not shapes

bool is_index_dtype(DType dtype) {
  return dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kBool;
}

template <typename T>
Shape to_dims(const ConstantData& c) {
  const T* values = c.as<T>();
  Shape dims;
  for (size_t i = 0; i < c.size / sizeof(T); ++i) dims.push_back(static_cast<int64_t>(values[i]));
  return dims;
}

template <typename T>
ConstantPtr from_dims(const Contents& contents, const std::vector<int64_t>& values) {
  std::unique_ptr<T[]> data(new T[std::max<size_t>(values.size(), 1)]);
  for (size_t i = 0; i < values.size(); ++i) data[i] = static_cast<T>(values[i]);
  return make_constant(contents.type(), data.get());
}

}  // namespace

Contents Contents::vector(Shape dims, DType dtype) {
  const auto count = static_cast<int64_t>(dims.size());
  return {std::move(dims), {count}, dtype};
}

Contents Contents::scalar(Dim dim, DType dtype) {
  return {{std::move(dim)}, {}, dtype};
}

std::optional<Contents> contents_of(const ConstantData& c) {
  size_t count = c.size / static_cast<size_t>(byte_width(c.type.dtype));
  if (!is_index_dtype(c.type.dtype) || c.type.rank() > 1 || count > kLongest) return std::nullopt;
  Shape dims = c.type.dtype == DType::kI64   ? to_dims<int64_t>(c)
               : c.type.dtype == DType::kI32 ? to_dims<int32_t>(c)
                                             : to_dims<bool>(c);
  if (c.type.rank() == 1) return Contents::vector(std::move(dims), c.type.dtype);
  return Contents{std::move(dims), {}, c.type.dtype};
}

ConstantPtr constant_of(const Contents& contents) {
  auto values = constant_shape(contents.dims);
  if (!values) return nullptr;
  if (contents.dtype == DType::kI64) return from_dims<int64_t>(contents, *values);
  if (contents.dtype == DType::kI32) return from_dims<int32_t>(contents, *values);
  return from_dims<bool>(contents, *values);
}

namespace {

// Every rule returns the contents of the node's one result, or nothing if it cannot say. Those that only know of
// vectors and scalars read contents(), which has no others.
using Result = std::optional<Contents>;

Contents vector_of(Shape dims, DType dtype = DType::kI64) {
  return Contents::vector(std::move(dims), dtype);
}

/// `like` with other elements, a vector's any number of them.
Contents with_dims(const Contents& like, Shape dims) {
  if (!like.is_scalar()) return vector_of(std::move(dims), like.dtype);
  return {std::move(dims), {}, like.dtype};
}

/// A slice's bound, clamped into [low, extent + high_offset] for known values.
int64_t clamp_bound(int64_t value, int64_t extent, int64_t low, int64_t high) {
  if (value < 0) value = value < -extent ? low : value + extent;
  return std::clamp(value, low, high);
}

Result shape_of(NodeImport& n) {
  Shape shape = n.type(0).shape;
  int64_t rank = static_cast<int64_t>(shape.size());
  auto bound = [&](const char* name, int64_t otherwise) {
    return clamp_bound(n.integer(name, otherwise), rank, 0, rank);
  };
  int64_t start = bound("start", 0), end = bound("end", rank);
  if (start >= end) return vector_of({});
  return vector_of({shape.begin() + start, shape.begin() + end});
}

Result size_of(NodeImport& n) {
  return Contents::scalar(element_count(n.type(0).shape));
}

Result gather(NodeImport& n) {
  auto data = n.contents(0), at = n.contents(1);
  if (!data || !at || data->is_scalar()) return std::nullopt;
  Shape chosen;
  int64_t count = static_cast<int64_t>(data->dims.size());
  for (const Dim& d : at->dims) {
    if (!d.is_constant()) return std::nullopt;
    int64_t i = d.value() < 0 ? d.value() + count : d.value();
    if (i < 0 || i >= count) n.fail("index {} is outside a vector of {}", d.value(), count);
    chosen.push_back(data->dims[static_cast<size_t>(i)]);
  }
  return Contents{std::move(chosen), at->shape, data->dtype};
}

/// The elements at these positions along an axis.
Contents at_positions(const Contents& data, size_t axis, const std::vector<int64_t>& positions) {
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < data.shape.size(); ++i) {
    if (i != axis) (i < axis ? outer : inner) *= data.shape[i];
  }
  Contents result{{}, data.shape, data.dtype};
  result.shape[axis] = static_cast<int64_t>(positions.size());
  for (int64_t o = 0; o < outer; ++o) {
    for (const int64_t position : positions) {
      const auto begin = data.dims.begin() + (o * data.shape[axis] + position) * inner;
      result.dims.insert(result.dims.end(), begin, begin + inner);
    }
  }
  return result;
}

/// Of one axis.
Result slice_along(NodeImport& n, const std::vector<int64_t>& axes, const std::vector<int64_t>& starts,
                   const std::vector<int64_t>& ends, int64_t step) {
  const auto data = n.elements(0);
  if (!data || data->is_scalar() || starts.size() != 1 || ends.size() != 1 || axes.size() > 1 || step == 0)
    return std::nullopt;
  const auto rank = static_cast<int>(data->shape.size());
  const auto axis = static_cast<size_t>(n.axis(axes.empty() ? 0 : axes.front(), rank));
  const int64_t count = data->shape[axis];
  std::vector<int64_t> positions;
  if (count == 0) return at_positions(*data, axis, positions);
  // Before the first element a slice can end, but not start.
  int64_t high = step > 0 ? count : count - 1;
  int64_t i = clamp_bound(starts[0], count, 0, high);
  int64_t end = clamp_bound(ends[0], count, step > 0 ? 0 : -1, high);
  // A step beyond the vector takes one element; bounding it keeps the sum from overflowing.
  step = std::clamp<int64_t>(step, -count - 1, count + 1);
  for (; step > 0 ? i < end : i > end; i += step) positions.push_back(i);
  return at_positions(*data, axis, positions);
}

Result slice(NodeImport& n) {
  if (n.opset() < 10)
    return slice_along(n, n.integer_list("axes"), n.integer_list("starts"), n.integer_list("ends"), 1);
  auto known = [&](size_t i) -> std::optional<std::vector<int64_t>> {
    auto c = n.contents(i);
    return c ? constant_shape(c->dims) : std::nullopt;
  };
  auto starts = known(1), ends = known(2);
  auto axes = n.has(3) ? known(3) : std::vector<int64_t>{};
  auto steps = n.has(4) ? known(4) : std::vector<int64_t>{1};
  if (!starts || !ends || !axes || !steps || steps->size() != 1) return std::nullopt;
  return slice_along(n, *axes, *starts, *ends, steps->front());
}

Result concat(NodeImport& n) {
  Shape dims;
  DType dtype = DType::kI64;
  for (size_t i = 0; i < n.input_count(); ++i) {
    auto part = n.contents(i);
    if (!part || part->is_scalar()) return std::nullopt;
    dtype = part->dtype;
    dims.insert(dims.end(), part->dims.begin(), part->dims.end());
  }
  return vector_of(std::move(dims), dtype);
}

Result pass_through(NodeImport& n) {
  return n.elements(0);
}

Result unsqueeze(NodeImport& n) {
  auto c = n.contents(0);
  if (!c || !c->is_scalar()) return std::nullopt;
  if (n.opset() >= 13 && !n.contents(1)) return std::nullopt;
  auto axes = n.opset() < 13 ? n.integer_list("axes") : n.integers(1, "axes");
  if (axes.size() != 1) return std::nullopt;
  return vector_of(std::move(c->dims), c->dtype);
}

Result squeeze(NodeImport& n) {
  auto c = n.contents(0);
  if (!c || c->dims.size() != 1) return std::nullopt;
  return Contents::scalar(c->dims.front(), c->dtype);
}

/// The sizes that a constant shape means for so many elements; nothing where it does not fit them.
std::optional<std::vector<int64_t>> reshaped(const Contents& data, std::vector<int64_t> sizes, bool zero_copies) {
  int64_t known = 1, *rest = nullptr;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t& size = sizes[i];
    if (size == 0 && zero_copies) {
      if (i >= data.shape.size()) return std::nullopt;
      size = data.shape[i];
    }
    if (size < -1 || size > static_cast<int64_t>(kLongest) || (size == -1 && rest != nullptr)) return std::nullopt;
    if (size == -1) {
      rest = &size;
    } else if (__builtin_mul_overflow(known, size, &known)) {
      return std::nullopt;
    }
  }
  const auto count = static_cast<int64_t>(data.dims.size());
  if (rest != nullptr) {
    if (known == 0 || count % known != 0) return std::nullopt;
    *rest = count / known;
    return sizes;
  }
  return known == count ? std::optional(std::move(sizes)) : std::nullopt;
}

Result reshape(NodeImport& n) {
  auto c = n.elements(0);
  if (!c) return std::nullopt;
  auto shape = n.opset() < 5 ? std::optional(vector_of([&] {
    auto list = n.integer_list("shape");
    return Shape(list.begin(), list.end());
  }()))
                             : n.contents(1);
  const auto given = shape ? constant_shape(shape->dims) : std::nullopt;
  auto sizes = given ? reshaped(*c, *given, n.integer("allowzero", 0) == 0) : std::nullopt;
  if (!sizes) return std::nullopt;
  c->shape = std::move(*sizes);
  return c;
}

Result transpose(NodeImport& n) {
  const auto c = n.elements(0);
  if (!c) return std::nullopt;
  const size_t rank = c->shape.size();
  std::vector<int64_t> order = n.integer_list("perm");
  if (order.empty()) {
    for (size_t i = rank; i-- > 0;) order.push_back(static_cast<int64_t>(i));
  }
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted.size() != rank || sorted[i] != static_cast<int64_t>(i)) return std::nullopt;
  }
  std::vector<int64_t> strides(rank, 1);
  for (size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * c->shape[i];
  Contents result{{}, {}, c->dtype};
  for (const int64_t axis : order) result.shape.push_back(c->shape[static_cast<size_t>(axis)]);
  for (size_t flat = 0; flat < c->dims.size(); ++flat) {
    int64_t from = 0, rest = static_cast<int64_t>(flat);
    for (size_t i = rank; i-- > 0;) {
      from += rest % result.shape[i] * strides[static_cast<size_t>(order[i])];
      rest /= result.shape[i];
    }
    result.dims.push_back(c->dims[static_cast<size_t>(from)]);
  }
  return result;
}

Result cast(NodeImport& n) {
  auto c = n.elements(0);
  if (!c) return std::nullopt;
  DType to = n.cast_target();
  if (!is_index_dtype(to)) return std::nullopt;
  if (to == DType::kBool) {
    for (Dim& d : c->dims) {
      if (!d.is_constant()) return std::nullopt;
      d = d.value() != 0 ? 1 : 0;
    }
  }
  c->dtype = to;
  return c;
}

/// Elementwise with broadcasting of single elements.
Result zip(NodeImport& n, DType result_dtype,
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
  auto forward = (b - a).lower_bound(), backward = (a - b).lower_bound();
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

Result add(NodeImport& n) {
  return zip(n, DType::kI64, [](const Dim& a, const Dim& b) { return std::optional(a + b); });
}
Result subtract(NodeImport& n) {
  return zip(n, DType::kI64, [](const Dim& a, const Dim& b) { return std::optional(a - b); });
}
Result multiply(NodeImport& n) {
  return zip(n, DType::kI64, [](const Dim& a, const Dim& b) { return std::optional(a * b); });
}
Result divide_all(NodeImport& n) {
  return zip(n, DType::kI64, divide);
}
Result mod_all(NodeImport& n) {
  return zip(n, DType::kI64, n.integer("fmod", 0) != 0 ? truncated_remainder : remainder);
}
Result maximum(NodeImport& n) {
  if (n.input_count() != 2) return std::nullopt;
  return zip(n, DType::kI64, [](const Dim& a, const Dim& b) { return std::optional(max(a, b)); });
}
Result minimum(NodeImport& n) {
  if (n.input_count() != 2) return std::nullopt;
  return zip(n, DType::kI64, [](const Dim& a, const Dim& b) { return std::optional(min(a, b)); });
}
Result equal(NodeImport& n) {
  return zip(n, DType::kBool, certainly_equal);
}
Result less(NodeImport& n) {
  return zip(n, DType::kBool, certainly_less);
}
Result greater(NodeImport& n) {
  return zip(n, DType::kBool, [](const Dim& a, const Dim& b) { return certainly_less(b, a); });
}

Result where(NodeImport& n) {
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
  return is_scalar ? Contents::scalar(dims.front(), a->dtype) : vector_of(std::move(dims), a->dtype);
}

Result negative(NodeImport& n) {
  auto c = n.elements(0);
  if (!c) return std::nullopt;
  for (Dim& d : c->dims) d = Dim(0) - d;
  return c;
}

Result logical_not(NodeImport& n) {
  auto c = n.contents(0);
  if (!c || !constant_shape(c->dims)) return std::nullopt;
  for (Dim& d : c->dims) d = d.value() != 0 ? 0 : 1;
  return c;
}

/// ReduceProd, ReduceSum, ReduceMax, ReduceMin of a whole vector.
Result reduce(NodeImport& n, const std::function<Dim(const Dim&, const Dim&)>& f) {
  auto c = n.contents(0);
  if (!c || c->is_scalar() || c->dims.empty()) return std::nullopt;
  Dim total = c->dims[0];
  for (size_t i = 1; i < c->dims.size(); ++i) total = f(total, c->dims[i]);
  return n.integer("keepdims", 1) == 0 ? Contents::scalar(total, c->dtype) : vector_of({total}, c->dtype);
}
Result reduce_prod(NodeImport& n) {
  return reduce(n, [](const Dim& a, const Dim& b) { return a * b; });
}
Result reduce_sum(NodeImport& n) {
  return reduce(n, [](const Dim& a, const Dim& b) { return a + b; });
}
Result reduce_max(NodeImport& n) {
  return reduce(n, [](const Dim& a, const Dim& b) { return max(a, b); });
}
Result reduce_min(NodeImport& n) {
  return reduce(n, [](const Dim& a, const Dim& b) { return min(a, b); });
}

Result range(NodeImport& n) {
  auto start = n.contents(0), limit = n.contents(1), delta = n.contents(2);
  if (!start || !limit || !delta) return std::nullopt;
  bool known = start->dims.size() == 1 && limit->dims.size() == 1 && delta->dims.size() == 1 &&
               start->dims[0].is_constant() && limit->dims[0].is_constant() && delta->dims[0].is_constant();
  if (!known || delta->dims[0].value() == 0) return std::nullopt;
  int64_t first = start->dims[0].value(), last = limit->dims[0].value(), step = delta->dims[0].value();
  Shape dims;
  for (__int128 v = first; step > 0 ? v < last : v > last; v += step) {
    if (dims.size() == kLongest) return std::nullopt;
    dims.push_back(static_cast<int64_t>(v));
  }
  return vector_of(std::move(dims), start->dtype);
}

Result constant_of_shape(NodeImport& n) {
  auto shape = n.contents(0);
  if (!shape || shape->is_scalar() || shape->dims.size() > 1) return std::nullopt;
  ConstantPtr value = n.tensor("value");
  auto element = value ? contents_of(*value) : std::nullopt;
  if (!element || element->dims.size() != 1) return std::nullopt;
  if (shape->dims.empty()) return Contents::scalar(element->dims[0], element->dtype);
  const Dim& count = shape->dims[0];
  if (!count.is_constant() || count.value() < 0 || count.value() > static_cast<int64_t>(kLongest))
    return std::nullopt;
  return vector_of(Shape(static_cast<size_t>(count.value()), element->dims[0]), element->dtype);
}

Result expand(NodeImport& n) {
  auto c = n.contents(0), shape = n.contents(1);
  if (!c || !shape || shape->dims.size() != 1 || c->dims.size() != 1) return std::nullopt;
  const Dim& count = shape->dims[0];
  if (!count.is_constant() || count.value() < 1 || count.value() > static_cast<int64_t>(kLongest))
    return std::nullopt;
  return vector_of(Shape(static_cast<size_t>(count.value()), c->dims[0]), c->dtype);
}

/// Of constant indices and depth: PyTorch's exporter writes the repeats of a Tile so.
Result one_hot(NodeImport& n) {
  const auto indices = n.contents(0), depth = n.contents(1), values = n.contents(2);
  if (!indices || !depth || !values || depth->dims.size() != 1 || values->dims.size() != 2) return std::nullopt;
  const auto at = constant_shape(indices->dims);
  const auto count = depth->dims.front().constant();
  if (!at || !count || *count < 1 || *count > static_cast<int64_t>(kLongest) || at->size() > kLongest)
    return std::nullopt;
  const auto length = static_cast<int64_t>(at->size());
  const auto axis = n.axis(n.integer("axis", -1), static_cast<int>(indices->shape.size()) + 1);
  Contents result{{}, indices->shape, values->dtype};
  result.shape.insert(result.shape.begin() + axis, *count);
  const bool rows_are_classes = axis == 0 && !indices->is_scalar();
  for (int64_t i = 0; i < length * *count; ++i) {
    const int64_t position = rows_are_classes ? i % length : i / *count;
    const int64_t label = rows_are_classes ? i / length : i % *count;
    const int64_t index = (*at)[static_cast<size_t>(position)];
    result.dims.push_back(values->dims[index == label || index + *count == label ? 1 : 0]);
  }
  return result;
}

struct Rule {
  std::string_view op;
  Result (*evaluate)(NodeImport&);
};
constexpr Rule kRules[] = {
    {"Shape", shape_of},
    {"Size", size_of},
    {"Gather", gather},
    {"Slice", slice},
    {"Concat", concat},
    {"Identity", pass_through},
    {"Unsqueeze", unsqueeze},
    {"Squeeze", squeeze},
    {"Reshape", reshape},
    {"Transpose", transpose},
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
    {"Range", range},
    {"ConstantOfShape", constant_of_shape},
    {"Expand", expand},
    {"OneHot", one_hot},
};

}  // namespace

bool evaluate_contents(NodeImport& node) {
  auto rule = std::find_if(std::begin(kRules), std::end(kRules),
                           [&](const Rule& r) { return r.op == node.op_type(); });
  if (rule == std::end(kRules)) return false;
  Result result = rule->evaluate(node);
  if (!result || result->dims.size() > kLongest) return false;
  node.set_contents(0, std::move(*result));
  return true;
}

}  // namespace gantry
