#include "tests/random_graphs/enclosed_node.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "host/ops/norm.h"
#include "host/ops/op.h"
#include "host/ops/reduce.h"
#include "host/ops/sort.h"
#include "host/tensor/element.h"
#include "tests/random_graphs/wide_node.h"

namespace gantry::random_graphs {
namespace {

using Inputs = std::vector<const Elements*>;

void forget(Elements& elements) {
  for (Element& e : elements.of) {
    e.number = Interval::anything(e.number.value);
    e.known = false;
  }
}

bool all_finite(const Inputs& inputs) {
  const auto finite = [](const Element& e) { return std::isfinite(e.number.size()); };
  return std::ranges::all_of(
      inputs, [&](const Elements* in) { return in == nullptr || std::ranges::all_of(in->of, finite); });
}

// --- sums

void allow_other_algorithms(const Node& node, double product_unit, double largest_sum, Elements& result) {
  const DType dtype = result.type.dtype;
  const double unit = dtype == DType::kF32 ? product_unit : unit_of(dtype);
  const double growth = 1 + std::sqrt(static_cast<double>(terms_of_product(node).value_or(1)));
  for (Element& e : result.of) e.number = rounded(e.number, dtype, kUnits * growth * unit * largest_sum);
}

// --- which element is the largest

/// Elements along an axis: (outer, extent, inner).
struct Rows {
  int64_t outer = 1, extent = 1, inner = 1;
  Rows(const Shape& shape, int64_t axis) {
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t& part = static_cast<int64_t>(i) < axis ? outer : static_cast<int64_t>(i) == axis ? extent : inner;
      part *= shape[i].value();
    }
  }
  int64_t place(int64_t row, int64_t at, int64_t of) const { return (row / inner * of + at) * inner + row % inner; }
};

/// Roundings do not change which of them comes first.
bool apart(const Element& a, const Element& b, DType dtype) {
  if (!is_float(dtype)) return a.known && b.known;
  const Interval &x = a.number, &y = b.number;
  return (x.is_point() && y.is_point()) || x.high < y.low || y.high < x.low;
}

bool is_apart(const Elements& data, const Rows& rows, int64_t row, int64_t at) {
  const Element& element = data.of[static_cast<size_t>(rows.place(row, at, rows.extent))];
  for (int64_t other = 0; other < rows.extent; ++other) {
    const Element& o = data.of[static_cast<size_t>(rows.place(row, other, rows.extent))];
    if (other != at && !apart(element, o, data.type.dtype)) return false;
  }
  return true;
}

/// Positions along an axis are known where what stands there is apart from all others.
void know_positions(const Elements& data, int64_t axis, Elements& positions) {
  const Rows rows(data.type.shape, axis);
  const int64_t count = static_cast<int64_t>(positions.of.size()) / (rows.outer * rows.inner);
  for (int64_t row = 0; row < rows.outer * rows.inner; ++row) {
    for (int64_t i = 0; i < count; ++i) {
      Element& position = positions.of[static_cast<size_t>(rows.place(row, i, count))];
      const bool inside = position.whole >= 0 && position.whole < rows.extent;
      position.known = inside && is_apart(data, rows, row, position.whole);
    }
  }
}

/// One where the largest element stands, else 0.
void know_largest(const Elements& data, int64_t axis, Elements& result) {
  const Rows rows(data.type.shape, axis);
  for (int64_t row = 0; row < rows.outer * rows.inner; ++row) {
    const auto at = [&](int64_t i) -> Element& { return result.of[static_cast<size_t>(rows.place(row, i, rows.extent))]; };
    int64_t largest = 0;
    while (largest + 1 < rows.extent && at(largest).number.value == 0) ++largest;
    if (!is_apart(data, rows, row, largest)) continue;
    for (int64_t i = 0; i < rows.extent; ++i) at(i).number = Interval::point(at(i).number.value);
  }
}

void know_selections(const Node& node, const Inputs& inputs, std::vector<Elements>& results) {
  if (const auto* attrs = node.match(op::topk)) return know_positions(*inputs[0], attrs->axis, results[1]);
  if (const auto* attrs = node.match(op::argmax)) return know_positions(*inputs[0], attrs->axis, results[0]);
  if (const auto* attrs = node.match(op::argmin)) return know_positions(*inputs[0], attrs->axis, results[0]);
  if (const auto* attrs = node.match(nn::hardmax)) know_largest(*inputs[0], attrs->axis, results[0]);
}

// --- loop nests written by hand

constexpr int kCorners = 6;
/// How far beyond the results of so few corners others may be.
constexpr double kBeyondCorners = 4;

/// Elements as data, floats as f64.
ConstantPtr as_data(const Elements& elements, const std::function<double(const Interval&)>& choose) {
  const DType dtype = is_float(elements.type.dtype) ? DType::kF64 : elements.type.dtype;
  std::byte* bytes = nullptr;
  auto data = allocate_constant({dtype, elements.type.shape}, &bytes);
  for (const Element& e : elements.of) {
    if (is_float(dtype)) {
      write_float(dtype, bytes, choose(e.number));
    } else {
      write_integer(dtype, bytes, e.whole);
    }
    bytes += byte_width(dtype);
  }
  return data;
}

std::vector<Elements> run_corner(const Node& node, const Inputs& inputs,
                                 const std::function<double(const Interval&)>& choose) {
  std::vector<ConstantPtr> data;
  for (const Elements* input : inputs) data.push_back(input ? as_data(*input, choose) : nullptr);
  std::vector<Elements> results;
  for (const ConstantPtr& result : run_wide(node, data)) results.push_back(exactly(*result));
  return results;
}

/// The result of the middle, with that of a corner in its range.
void widen(Element& e, const Element& corner) {
  e.known = e.known && e.whole == corner.whole;
  e.number = hull(e.number, corner.number);
}

std::vector<Elements> run_corners(const Node& node, const Inputs& inputs, double product_unit, Choices& choices) {
  const double growth = other_growth(node) + 1;
  const auto moved = [&](const Interval& x, bool up) {
    const double end = up ? x.high : x.low;
    if (!std::isfinite(end) || !computes(node)) return end;
    const double unit = node.results[0]->type.dtype == DType::kF32 ? product_unit : unit_of(node.results[0]->type.dtype);
    return end + (up ? 1 : -1) * kUnits * unit * growth * std::fabs(end);
  };
  std::vector<Elements> results = run_corner(node, inputs, [](const Interval& x) { return x.value; });
  for (int corner = 0; corner < kCorners; ++corner) {
    const auto choose = [&](const Interval& x) { return moved(x, corner < 2 ? corner == 1 : choices.chance(0.5)); };
    const std::vector<Elements> others = run_corner(node, inputs, choose);
    for (size_t i = 0; i < results.size(); ++i) {
      for (size_t k = 0; k < results[i].of.size(); ++k) widen(results[i].of[k], others[i].of[k]);
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const DType dtype = node.results[i]->type.dtype;
    results[i].type.dtype = dtype;
    if (!is_float(dtype)) continue;
    for (Element& e : results[i].of) {
      Interval& x = e.number;
      if (!std::isfinite(x.size())) continue;
      x = {x.value, x.value - kBeyondCorners * (x.value - x.low), x.value + kBeyondCorners * (x.high - x.value)};
      if (computes(node)) x = rounded(x, dtype, kUnits * unit_of(dtype) * x.size());
    }
  }
  return results;
}

std::vector<Elements> run_loops(const Node& node, const Inputs& inputs, double product_unit, Choices& choices) {
  std::vector<Elements> results = run_corners(node, inputs, product_unit, choices);
  const auto unknown = [](const Element& e) { return !e.known || e.number.is_anything(); };
  const auto has_unknown = [&](const Elements* in) { return in != nullptr && std::ranges::any_of(in->of, unknown); };
  if (std::ranges::any_of(inputs, has_unknown)) std::ranges::for_each(results, forget);
  return results;
}

}  // namespace

std::vector<Elements> enclosed(const Node& node, const Inputs& inputs, double product_unit, Choices& choices) {
  std::vector<Tensor> tensors;
  std::map<const OperationNode*, const Elements*> data;
  for (const Elements* input : inputs) {
    tensors.push_back(input ? placeholder(to_exprs(input->type.shape), input->type.dtype, "x") : Tensor());
    if (input != nullptr) data[tensors.back().op().get()] = input;
  }
  Enclosed computed = enclose(op_def(node).compute(node, tensors), data);
  std::vector<Elements> results = std::move(computed.results);
  if (results.empty()) results = run_loops(node, inputs, product_unit, choices);
  const bool is_product = terms_of_product(node).has_value();
  if (is_product) allow_other_algorithms(node, product_unit, computed.largest_sum, results[0]);
  const bool is_sum = is_product || terms_of_sum(node).has_value();
  if (is_sum && is_float(results[0].type.dtype) && !all_finite(inputs)) forget(results[0]);
  know_selections(node, inputs, results);
  return results;
}

}  // namespace gantry::random_graphs
