// Ops that choose rows and say how many.
#include <limits>

#include "host/onnx/converters.h"
#include "host/onnx/data_axes.h"
#include "host/onnx/term.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/selection.h"
#include "host/ops/sort.h"
#include "host/ops/text.h"

namespace gantry {
namespace {

/// Best first, or least first: values and positions along the last axis.
std::vector<Value*> sorted(NodeImport& n, Value* x, bool largest) {
  auto attrs = std::make_shared<TopKAttrs>();
  attrs->axis = x->type.rank() - 1;
  attrs->k = x->type.shape.back();
  attrs->largest = largest;
  return n.add_many(op::topk, {x}, attrs);
}

/// An optional limit as a vector of one element.
template <typename T>
Value* limit(NodeImport& n, size_t i, DType dtype, T otherwise) {
  if (!n.has(i)) return n.constant_value(make_constant({dtype, {1}}, &otherwise), "limit");
  return n.cast(n.reshape(n.input(i), {1}), dtype);
}

void convert_nms(NodeImport& n) {
  auto attrs = std::make_shared<NmsAttrs>();
  attrs->centred = n.integer("center_point_box", 0) != 0;
  if (n.rank(0) != 3 || n.rank(1) != 3)
    n.fail("its boxes {} and scores {} should have 3 dimensions", n.type(0).str(), n.type(1).str());
  const std::vector<Value*> best = sorted(n, n.input(1), true);
  Value* most = limit<int64_t>(n, 2, DType::kI64, 0);
  Value* overlap = limit<float>(n, 3, DType::kF32, 0);
  Value* least = limit<float>(n, 4, DType::kF32, -std::numeric_limits<float>::infinity());
  const std::vector<Value*> taken =
      n.add_many(op::non_max_suppression, {n.input(0), best[1], best[0], most, overlap, least}, attrs);
  n.set(0, n.slice_inside(taken[0], 0, 0, n.bind(taken[1], "count")[0]));
}

Value* gather(NodeImport& n, Value* x, Value* at, int64_t axis = 0) {
  return gantry::gather(Term(n, x), Term(n, at), axis);
}

/// The tensor as a matrix with a row for each position on the axis.
Value* rows_along(NodeImport& n, Value* x, int64_t axis) {
  std::vector<int64_t> axes{axis};
  for (int64_t a = 0; a < x->type.rank(); ++a) {
    if (a != axis) axes.push_back(a);
  }
  Dim rest = 1;
  for (int64_t a = 0; a < x->type.rank(); ++a) {
    if (a != axis) rest = rest * x->type.shape[static_cast<size_t>(a)];
  }
  return n.reshape(n.transpose(x, axes), {x->type.shape[static_cast<size_t>(axis)], rest});
}

/// What differs on an axis: where each occurs first, how often it occurs, and which one is at each position.
struct Distinct {
  Value *first, *members, *inverse;
};

/// In ascending order. `of_rows` says that slices are compared and not numbers.
Distinct distinct_along(NodeImport& n, Value* x, int64_t axis, bool of_rows) {
  // What strings compare by are their ranks.
  Value* compared = x->type.dtype == DType::kString ? n.add(text::ranks, {x}) : x;
  if (x->type.dtype == DType::kBool) compared = n.cast(x, DType::kU8);
  Value* rows = rows_along(n, compared, axis);
  Value* order = of_rows ? n.add(op::row_order, {rows}) : sorted(n, compared, false)[1];
  const std::vector<Value*> groups = n.add_many(op::row_groups, {rows, order}, nullptr);
  const Dim count = n.bind(groups[3], "count")[0];
  return {n.slice_inside(groups[0], 0, 0, count), n.slice_inside(groups[1], 0, 0, count), groups[2]};
}

/// The same by where they occur first.
Distinct by_place(NodeImport& n, const Distinct& given) {
  const std::vector<Value*> places = sorted(n, given.first, false);
  return {places[0], gather(n, given.members, places[1]),
          gather(n, sorted(n, places[1], false)[1], given.inverse)};
}

void convert_unique(NodeImport& n) {
  Value* x = n.input(0);
  int64_t axis = 0;
  const bool of_rows = n.has_attribute("axis");
  if (of_rows)
    axis = n.axis(n.integer("axis", 0), x->type.rank());
  else
    x = n.reshape(x, {element_count(x->type.shape)});
  Distinct found = distinct_along(n, x, axis, of_rows);
  if (n.integer("sorted", 1) == 0) found = by_place(n, found);
  n.set(0, gather(n, x, found.first, axis));
  if (n.wants(1)) n.set(1, found.first);
  if (n.wants(2)) n.set(2, found.inverse);
  if (n.wants(3)) n.set(3, found.members);
}

/// Of a vector, by where its numbers occur first; without those places among the results.
void convert_microsoft_unique(NodeImport& n) {
  Value* x = n.input(0);
  if (x->type.rank() != 1) n.fail("its data {} should be a vector", x->type.str());
  const Distinct found = by_place(n, distinct_along(n, x, 0, false));
  n.set(0, gather(n, x, found.first));
  n.set(1, found.inverse);
  n.set(2, found.members);
}

}  // namespace

void add_selection_converters(ConverterTable& table) {
  table.push_back({"NonMaxSuppression", 10, convert_nms});
  table.push_back({"Unique", 11, convert_unique});
  table.push_back({"Unique", 1, convert_microsoft_unique, kMicrosoft});
}

}  // namespace gantry
