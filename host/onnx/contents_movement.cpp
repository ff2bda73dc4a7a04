#include <algorithm>
#include <vector>

#include "host/onnx/contents_rules.h"
#include "host/onnx/node_import.h"

namespace gantry {
namespace {

/// A slice's bound, clamped into [low, extent + high_offset] for known values.
int64_t clamp_bound(int64_t value, int64_t extent, int64_t low, int64_t high) {
  if (value < 0) value = value < -extent ? low : value + extent;
  return std::clamp(value, low, high);
}

ContentsResult shape_of(NodeImport& n) {
  Shape shape = n.type(0).shape;
  int64_t rank = static_cast<int64_t>(shape.size());
  auto bound = [&](const char* name, int64_t otherwise) {
    return clamp_bound(n.integer(name, otherwise), rank, 0, rank);
  };
  int64_t start = bound("start", 0), end = bound("end", rank);
  if (start >= end) return Contents::vector({});
  return Contents::vector({shape.begin() + start, shape.begin() + end});
}

ContentsResult size_of(NodeImport& n) {
  return Contents::scalar(element_count(n.type(0).shape));
}

ContentsResult gather(NodeImport& n) {
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
ContentsResult slice_along(NodeImport& n, const std::vector<int64_t>& axes,
                           const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
                           int64_t step) {
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

ContentsResult slice(NodeImport& n) {
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

ContentsResult concat(NodeImport& n) {
  Shape dims;
  DType dtype = DType::kI64;
  for (size_t i = 0; i < n.input_count(); ++i) {
    auto part = n.contents(i);
    if (!part || part->is_scalar()) return std::nullopt;
    dtype = part->dtype;
    dims.insert(dims.end(), part->dims.begin(), part->dims.end());
  }
  return Contents::vector(std::move(dims), dtype);
}

ContentsResult pass_through(NodeImport& n) {
  return n.elements(0);
}

ContentsResult unsqueeze(NodeImport& n) {
  auto c = n.contents(0);
  if (!c || !c->is_scalar()) return std::nullopt;
  if (n.opset() >= 13 && !n.contents(1)) return std::nullopt;
  auto axes = n.opset() < 13 ? n.integer_list("axes") : n.integers(1, "axes");
  if (axes.size() != 1) return std::nullopt;
  return Contents::vector(std::move(c->dims), c->dtype);
}

ContentsResult squeeze(NodeImport& n) {
  auto c = n.contents(0);
  if (!c || c->dims.size() != 1) return std::nullopt;
  return Contents::scalar(c->dims.front(), c->dtype);
}

/// The sizes that a constant shape means for so many elements; nothing where it does not fit them.
std::optional<std::vector<int64_t>> reshaped(const Contents& data, std::vector<int64_t> sizes,
                                             bool zero_copies) {
  int64_t known = 1, *rest = nullptr;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t& size = sizes[i];
    if (size == 0 && zero_copies) {
      if (i >= data.shape.size()) return std::nullopt;
      size = data.shape[i];
    }
    if (size < -1 || size > static_cast<int64_t>(kLongestContents) || (size == -1 && rest != nullptr))
      return std::nullopt;
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

ContentsResult reshape(NodeImport& n) {
  auto c = n.elements(0);
  if (!c) return std::nullopt;
  auto shape = n.opset() < 5 ? std::optional(Contents::vector([&] {
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

ContentsResult transpose(NodeImport& n) {
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

ContentsResult range(NodeImport& n) {
  auto start = n.contents(0), limit = n.contents(1), delta = n.contents(2);
  if (!start || !limit || !delta) return std::nullopt;
  bool known = start->dims.size() == 1 && limit->dims.size() == 1 && delta->dims.size() == 1 &&
               start->dims[0].is_constant() && limit->dims[0].is_constant() && delta->dims[0].is_constant();
  if (!known || delta->dims[0].value() == 0) return std::nullopt;
  int64_t first = start->dims[0].value(), last = limit->dims[0].value(), step = delta->dims[0].value();
  Shape dims;
  for (__int128 v = first; step > 0 ? v < last : v > last; v += step) {
    if (dims.size() == kLongestContents) return std::nullopt;
    dims.push_back(static_cast<int64_t>(v));
  }
  return Contents::vector(std::move(dims), start->dtype);
}

ContentsResult constant_of_shape(NodeImport& n) {
  auto shape = n.contents(0);
  if (!shape || shape->is_scalar() || shape->dims.size() > 1) return std::nullopt;
  ConstantPtr value = n.tensor("value");
  auto element = value ? contents_of(*value) : std::nullopt;
  if (!element || element->dims.size() != 1) return std::nullopt;
  if (shape->dims.empty()) return Contents::scalar(element->dims[0], element->dtype);
  const Dim& count = shape->dims[0];
  if (!count.is_constant() || count.value() < 0 || count.value() > static_cast<int64_t>(kLongestContents))
    return std::nullopt;
  return Contents::vector(Shape(static_cast<size_t>(count.value()), element->dims[0]), element->dtype);
}

ContentsResult expand(NodeImport& n) {
  auto c = n.contents(0), shape = n.contents(1);
  if (!c || !shape || shape->dims.size() != 1 || c->dims.size() != 1) return std::nullopt;
  const Dim& count = shape->dims[0];
  if (!count.is_constant() || count.value() < 1 || count.value() > static_cast<int64_t>(kLongestContents))
    return std::nullopt;
  return Contents::vector(Shape(static_cast<size_t>(count.value()), c->dims[0]), c->dtype);
}

/// Of constant indices and depth: PyTorch's exporter writes the repeats of a Tile so.
ContentsResult one_hot(NodeImport& n) {
  const auto indices = n.contents(0), depth = n.contents(1), values = n.contents(2);
  if (!indices || !depth || !values || depth->dims.size() != 1 || values->dims.size() != 2)
    return std::nullopt;
  const auto at = constant_shape(indices->dims);
  const auto count = depth->dims.front().constant();
  if (!at || !count || *count < 1 || *count > static_cast<int64_t>(kLongestContents) ||
      at->size() > kLongestContents)
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

constexpr ContentsRule kRules[] = {
    {"Shape", shape_of},      {"Size", size_of},    {"Gather", gather},
    {"Slice", slice},         {"Concat", concat},   {"Identity", pass_through},
    {"Unsqueeze", unsqueeze}, {"Squeeze", squeeze}, {"Reshape", reshape},
    {"Transpose", transpose}, {"Range", range},     {"ConstantOfShape", constant_of_shape},
    {"Expand", expand},       {"OneHot", one_hot},
};

}  // namespace

std::span<const ContentsRule> movement_contents_rules() {
  return kRules;
}

}  // namespace gantry
