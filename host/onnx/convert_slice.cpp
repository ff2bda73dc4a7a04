// Slice, Split and Pad.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "host/onnx/converters.h"
#include "host/onnx/data_axes.h"
#include "host/onnx/dim_bounds.h"
#include "host/onnx/one_number.h"
#include "host/onnx/required_dims.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/shape_data.h"

namespace gantry {
namespace {

/// Where a bound as written stands: negative ones count from the end, so those that are negative for some
/// symbol values have the extent added only there.
Dim counted_from_begin(const Dim& given, const Dim& extent, const Dim& low) {
  if (certainly_at_most(0, given)) return given;
  if (certainly_at_most(given, -1)) return extent + given;
  // Where this is negative it stays below `low` with the extent added too.
  if (certainly_at_most(extent - given, low + 2)) return given;
  return given + extent * min(1, max(0, -1 * given));
}

constexpr int64_t kBeyondAnyAxis = int64_t{1} << 40;

/// Whether a bound as written lies behind all elements, or before all. Of an open axis that is said of the
/// ends of i32 too, by which exporters mean those of any axis.
bool is_behind_all(const Dim& given, const Dim& extent) {
  const auto bound = given.constant(), count = extent.constant();
  if (!bound) return false;
  if (count) return *bound >= *count;
  return *bound >= kBeyondAnyAxis || *bound == std::numeric_limits<int32_t>::max();
}
bool is_before_all(const Dim& given, const Dim& extent) {
  const auto bound = given.constant(), count = extent.constant();
  if (!bound) return false;
  if (count) return *bound < -*count;
  return *bound <= -kBeyondAnyAxis || *bound == std::numeric_limits<int32_t>::min();
}

/// A bound as written -> a position: clamped to [low, high], or high if that is the lower one.
Dim position(const Dim& given, const Dim& extent, const Dim& low, const Dim& high) {
  if (is_behind_all(given, extent)) return high;
  const Dim counted = is_before_all(given, extent) ? low : counted_from_begin(given, extent, low);
  if (certainly_at_most(high, counted)) return high;
  const Dim inside = larger(low, smaller(counted, high));
  return certainly_at_most(low, high) ? inside : smaller(inside, high);
}

void slice(NodeImport& n, const Shape& starts, const Shape& ends, std::vector<int64_t> axes,
           std::vector<int64_t> steps) {
  Value* x = n.input(0);
  const Shape& shape = x->type.shape;
  if (axes.empty()) {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    n.fail("starts, ends, axes and steps differ in length");
  }
  auto attrs = std::make_shared<StridedSliceAttrs>();
  attrs->begin.assign(shape.size(), 0);
  attrs->end = shape;
  attrs->strides.assign(shape.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) {
    auto axis = static_cast<size_t>(n.axis(axes[i], x->type.rank()));
    const Dim& extent = shape[axis];
    int64_t step = steps[i];
    if (step == 0) n.fail("a step is 0");
    // Steps beyond any extent mean the same as these.
    step = std::clamp<int64_t>(step, -(int64_t{1} << 40), int64_t{1} << 40);
    Dim high = step > 0 ? extent : extent - 1;
    attrs->strides[axis] = step;
    // Before the first element a range can end, but not begin.
    attrs->begin[axis] = position(starts[i], extent, 0, high);
    attrs->end[axis] = position(ends[i], extent, step > 0 ? 0 : -1, high);
    // A range that is empty keeps its bounds in order.
    if (step > 0 && !certainly_at_most(attrs->begin[axis], attrs->end[axis])) {
      attrs->end[axis] = larger(attrs->end[axis], attrs->begin[axis]);
    }
  }
  n.set(0, n.add(op::strided_slice, {x}, attrs));
}

Shape as_dims(const std::vector<int64_t>& v) {
  return {v.begin(), v.end()};
}

void convert_slice_1(NodeImport& n) {
  slice(n, as_dims(n.integer_list("starts")), as_dims(n.integer_list("ends")), n.integer_list("axes"), {});
}
void convert_slice_10(NodeImport& n) {
  // From which end a bound counts must be known too.
  const auto is_open = [&](size_t i) {
    const auto bounds = n.contents(i);
    return !bounds || std::ranges::any_of(bounds->dims, [&](const Dim& d) { return n.may_be_negative(d); });
  };
  const bool by_data =
      is_open(1) || is_open(2) || (n.has(3) && !is_known_list(n, 3)) || (n.has(4) && !is_known_list(n, 4));
  if (by_data) return n.set(0, slice_by_data(n, n.input(0)));
  std::vector<int64_t> axes, steps;
  if (n.has(3)) axes = n.integers(3, "axes");
  if (n.has(4)) steps = n.integers(4, "steps");
  slice(n, n.dims(1, "starts"), n.dims(2, "ends"), axes, steps);
}

// --- Split

/// The sizes of that many equal parts; `uneven`: of parts that make the extent whatever it is, the last of
/// which may be smaller or empty. These are differences of where parts end: what is left behind one, by which
/// the next was known, would be an expression twice as long each time.
Shape part_sizes(const Dim& extent, int64_t count, bool uneven) {
  if (!uneven) return Shape(static_cast<size_t>(count), floordiv(extent, count));
  const Dim chunk = ceildiv(extent, count);
  Shape parts;
  Dim begin = 0;
  for (int64_t i = 1; i <= count; ++i) {
    const Dim end = i == count ? extent : smaller(chunk * i, extent);
    parts.push_back(end - begin);
    begin = end;
  }
  return parts;
}

void split(NodeImport& n, const Shape& sizes) {
  Value* x = n.input(0);
  int64_t axis = n.axis(n.integer("axis", 0), x->type.rank());
  const Dim& extent = x->type.shape[static_cast<size_t>(axis)];
  Shape parts = sizes;
  if (parts.empty()) {
    auto count = static_cast<int64_t>(n.output_count());
    if (count == 0) n.fail("has no outputs");
    bool uneven = n.has_attribute("num_outputs");
    if (uneven && n.integer("num_outputs", count) != count)
      n.fail("its num_outputs is {}, but it has {} outputs", n.integer("num_outputs", count), count);
    if (!uneven && provably_different(mod(extent, count), 0))
      n.fail("{} does not split into {} equal parts", x->type.str(), count);
    // Equal parts make the extent only where it is a multiple of their number, which is asked for below.
    parts = part_sizes(extent, count, uneven);
  }
  if (parts.size() < n.output_count()) n.fail("has {} outputs, but {} parts", n.output_count(), parts.size());
  Shape ends{0};
  for (const Dim& part : parts) {
    if (part.is_constant() && part.value() < 0) n.fail("a part has a negative size");
    ends.push_back(ends.back() + part);
  }
  // Nothing may read beyond the data, whatever sizes the running model computes.
  require_equal(n, ends.back(), extent, "its parts make {}, not the {} of {}", ends.back().str(),
                extent.str(), x->type.str());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (n.wants(i)) n.set(i, n.slice(x, axis, ends[i], ends[i + 1]));
  }
}

void convert_split_1(NodeImport& n) {
  n.assume_length(1, static_cast<int64_t>(n.output_count()));
  if (n.has(1)) return split(n, n.dims(1, "split"));
  split(n, as_dims(n.integer_list("split")));
}
void convert_split_13(NodeImport& n) {
  n.assume_length(1, static_cast<int64_t>(n.output_count()));
  split(n, n.has(1) ? n.dims(1, "split") : Shape{});
}

// --- Pad

PadMode pad_mode(NodeImport& n) {
  std::string mode = n.text("mode", "constant");
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "edge") return PadMode::kEdge;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "wrap") return PadMode::kWrap;
  n.unsupported(UnsupportedKind::kAttribute, "mode '{}'", mode);
}

/// Positive amounts become a pad, negative ones a slice. Where they are data, what they make of an axis has a
/// name: products of such sums have more terms than anything could hold.
Value* padded(NodeImport& n, Value* x, const Shape& before, const Shape& after, PadAttrs attrs) {
  const auto cut = [&](const Dim& d) {
    return certainly_at_most(0, d) ? Dim(0) : n.positive_part(Dim(0) - d);
  };
  for (size_t i = 0; i < before.size(); ++i) {
    const Dim begin = cut(before[i]), end = cut(after[i]);
    const bool by_data = n.may_be_negative(before[i]) || n.may_be_negative(after[i]);
    const auto size = [&](const Dim& d) { return by_data ? n.named({d}, "padded")[0] : d; };
    if (!(begin == Dim(0) && end == Dim(0)))  // what is left of the axis is in it
      x = n.slice_inside(x, static_cast<int64_t>(i), begin, begin + size(x->type.shape[i] - begin - end));
    const Dim front = begin == Dim(0) ? before[i] : n.positive_part(before[i]);
    const Dim back = end == Dim(0) ? after[i] : n.positive_part(after[i]), extent = x->type.shape[i];
    attrs.before.push_back(front);
    attrs.after.push_back(size(extent + front + back) - extent - front);
  }
  return n.add(op::pad, {x}, std::make_shared<PadAttrs>(std::move(attrs)));
}

void pad(NodeImport& n, const Shape& before, const Shape& after, double value) {
  PadAttrs attrs;
  attrs.mode = pad_mode(n);
  attrs.value = value;
  n.set(0, padded(n, n.input(0), before, after, std::move(attrs)));
}

void convert_pad_1(NodeImport& n) {
  std::vector<int64_t> pads = n.integer_list(n.opset() < 2 ? "paddings" : "pads");
  auto rank = static_cast<size_t>(n.rank(0));
  if (pads.size() != 2 * rank) n.fail("its pads should have {} entries, not {}", 2 * rank, pads.size());
  auto middle = pads.begin() + static_cast<std::ptrdiff_t>(rank);
  pad(n, {pads.begin(), middle}, {middle, pads.end()}, n.number("value", 0));
}

/// The numbers of the input pads, which may be the row of a matrix in com.microsoft's.
Shape pad_list(NodeImport& n) {
  if (!n.has(1) || n.rank(1) < 2) return n.dims(1, "pads", Elements::kSigned);
  if (const auto known = n.elements(1)) return known->dims;
  if (!n.constant(1)) return n.bind(as_index_vector(n, 1), "pads", Elements::kSigned);
  Shape dims;
  for (const double amount : n.numbers(1, "pads")) dims.push_back(static_cast<int64_t>(amount));
  return dims;
}

/// Amounts in front of each axis, then behind.
Shape pad_amounts(NodeImport& n) {
  const auto rank = static_cast<size_t>(n.rank(0));
  if (n.has(3) && !is_known_list(n, 3)) {
    auto attrs = std::make_shared<ExtentsAttrs>();
    attrs->extents = n.type(0).shape;
    Value* amounts = n.add(op::pad_amounts, {as_index_vector(n, 1), as_index_vector(n, 3)}, attrs);
    return n.bind(amounts, "pads", Elements::kSigned);
  }
  if (!n.has(3)) n.assume_length(1, static_cast<int64_t>(2 * rank));
  const Shape pads = pad_list(n);
  std::vector<int64_t> axes;
  if (n.has(3)) {
    axes = n.integers(3, "axes");
  } else {
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (pads.size() != 2 * axes.size())
    n.fail("its pads should have {} entries, not {}", 2 * axes.size(), pads.size());
  Shape amounts(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = static_cast<size_t>(n.axis(axes[i], static_cast<int>(rank)));
    amounts[axis] = pads[i];
    amounts[rank + axis] = pads[axes.size() + i];
  }
  return amounts;
}

/// The padding value where it is known, and a double holds it.
std::optional<double> known_padding(NodeImport& n) {
  const DType dtype = n.type(0).dtype;
  if (!n.constant(2) || dtype == DType::kString) return std::nullopt;
  const double value = one_number(n, 2, "padding value");
  constexpr double kExact = 9007199254740992;  // 2^53
  return is_float(dtype) || std::abs(value) < kExact ? std::optional(value) : std::nullopt;
}

void convert_pad_11(NodeImport& n) {
  const Shape amounts = pad_amounts(n);
  const auto middle = amounts.begin() + n.rank(0);
  const Shape before(amounts.begin(), middle), after(middle, amounts.end());
  if (!n.has(2)) return pad(n, before, after, 0);
  if (const auto value = known_padding(n)) return pad(n, before, after, *value);
  Value* x = n.input(0);
  PadAttrs attrs;
  attrs.mode = pad_mode(n);
  Value* y = padded(n, x, before, after, attrs);
  if (attrs.mode != PadMode::kConstant) return n.set(0, y);
  // Where the padding is: around a tensor of ones.
  const bool one = true;
  Value* ones = n.broadcast(n.constant_value(make_constant({DType::kBool, {}}, &one), "inside"), x->type.shape);
  Value* inside = padded(n, ones, before, after, attrs);
  n.set(0, n.add(op::where, {inside, y, n.reshape(n.input(2), {})}));
}

}  // namespace

void add_slice_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"Slice", 1, convert_slice_1},          {"Slice", 10, convert_slice_10}, {"Split", 1, convert_split_1},
      {"Split", 13, convert_split_13},        {"Pad", 1, convert_pad_1},       {"Pad", 11, convert_pad_11},
      {"Pad", 1, convert_pad_11, kMicrosoft},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
