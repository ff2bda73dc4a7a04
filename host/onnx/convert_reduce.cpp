// Reductions.
#include <algorithm>
#include <limits>
#include <optional>

#include "host/onnx/converters.h"
#include "host/onnx/data_axes.h"
#include "host/onnx/one_number.h"
#include "host/ops/elementwise.h"
#include "host/ops/reduce.h"

namespace gantry {
namespace {

/// Axes as an attribute or, later, as an input; none means all unless noop_with_empty_axes.
std::shared_ptr<ReduceAttrs> reduce_attrs(NodeImport& n) {
  auto attrs = std::make_shared<ReduceAttrs>();
  attrs->keepdims = n.integer("keepdims", 1) != 0;
  std::vector<int64_t> axes = n.has(1) ? n.integers(1, "axes") : n.integer_list("axes");
  int rank = n.rank(0);
  if (axes.empty() && n.integer("noop_with_empty_axes", 0) == 0) {
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  for (int64_t& axis : axes) axis = n.axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  attrs->axes = axes;
  return attrs;
}

Value* square(NodeImport& n, Value* x) {
  return n.add(op::multiply, {x, x});
}

/// Infinities become the largest numbers: what is subtracted from an infinity must not be one itself.
Value* within_finite_numbers(NodeImport& n, Value* x) {
  auto attrs = std::make_shared<ClipAttrs>();
  switch (x->type.dtype) {
    case DType::kF16:
      attrs->max = 0x1.FFCp15;
      break;
    case DType::kBF16:
      attrs->max = 0x1.FEp127;
      break;
    case DType::kF32:
      attrs->max = 0x1.FFFFFEp127;
      break;
    case DType::kF64:
      attrs->max = std::numeric_limits<double>::max();
      break;
    default:
      return x;
  }
  attrs->min = -attrs->max;
  return n.add(op::clip, {x}, attrs);
}

void convert_reduce(NodeImport& n) {
  Value* x = n.input(0);
  std::optional<AxesMatrix> by_data;
  std::shared_ptr<ReduceAttrs> attrs;
  if (n.has(1) && !is_known_list(n, 1)) {
    by_data = matrix_over_axes(n, x, as_index_list(n, 1),
                               {.keepdims = n.integer("keepdims", 1) != 0,
                                .all_if_empty = n.integer("noop_with_empty_axes", 0) == 0});
    x = by_data->matrix;
    attrs = std::make_shared<ReduceAttrs>();
    attrs->axes = {1};
    attrs->keepdims = false;
  } else {
    attrs = reduce_attrs(n);
  }
  auto reduced = [&](const Op<ReduceAttrs>& op, Value* v) { return n.add(op, {v}, attrs); };
  const std::string& kind = n.op_type();
  const DType dtype = x->type.dtype;
  bool boolean = dtype == DType::kBool;
  // Roots and logarithms of integers are computed as those of numbers, and cut off.
  if (!is_float(dtype) && (kind == "ReduceL2" || kind.starts_with("ReduceLog"))) x = n.cast(x, DType::kF64);
  Value* y = nullptr;
  if (kind == "ReduceSum") y = reduced(op::sum, x);
  if (kind == "ReduceMean") y = reduced(op::mean, x);
  if (kind == "ReduceMax") y = reduced(boolean ? op::any : op::max, x);
  if (kind == "ReduceMin") y = reduced(boolean ? op::all : op::min, x);
  if (kind == "ReduceProd") y = reduced(op::prod, x);
  if (kind == "ReduceL1") y = reduced(op::sum, n.add(op::abs, {x}));
  if (kind == "ReduceL2") y = n.add(op::sqrt, {reduced(op::sum, square(n, x))});
  if (kind == "ReduceSumSquare") y = reduced(op::sum, square(n, x));
  if (kind == "ReduceLogSum") y = n.add(op::log, {reduced(op::sum, x)});
  if (kind == "ReduceLogSumExp") {
    // Shifted by the largest element, so that nothing overflows.
    auto kept = std::make_shared<ReduceAttrs>(*attrs);
    kept->keepdims = true;
    Value* top = within_finite_numbers(n, n.add(op::max, {x}, kept));
    Value* total = n.add(op::sum, {n.add(op::exp, {n.add(op::subtract, {x, top})})}, kept);
    Value* shifted = n.add(op::add, {n.add(op::log, {total}), top});
    Shape shape;
    for (int64_t i = 0; i < x->type.rank(); ++i) {
      bool gone = std::count(attrs->axes.begin(), attrs->axes.end(), i) != 0 && !attrs->keepdims;
      if (!gone) shape.push_back(shifted->type.shape[static_cast<size_t>(i)]);
    }
    y = n.reshape(shifted, shape);
  }
  if (y != nullptr && by_data) y = n.reshape(y, by_data->reduced);
  n.set(0, n.cast(y, dtype));
}

void convert_arg(NodeImport& n) {
  auto attrs = std::make_shared<ArgReduceAttrs>();
  attrs->axis = n.axis(n.integer("axis", 0), n.rank(0));
  attrs->keepdims = n.integer("keepdims", 1) != 0;
  attrs->select_last = n.integer("select_last_index", 0) != 0;
  n.set(0, n.add(n.op_type() == "ArgMax" ? op::argmax : op::argmin, {n.input(0)}, attrs));
}

void convert_scan(NodeImport& n, const Op<CumsumAttrs>& op) {
  auto attrs = std::make_shared<CumsumAttrs>();
  if (!is_known_list(n, 1)) {
    const Shape shape = n.type(0).shape;
    n.assume_length(1, 1);
    const AxesMatrix along = matrix_over_axes(n, n.input(0), as_index_vector(n, 1), {});
    attrs->axis = 1;
    attrs->exclusive = n.integer("exclusive", 0) != 0;
    attrs->reverse = n.integer("reverse", 0) != 0;
    return n.set(0, from_matrix(n, n.add(op, {along.matrix}, attrs), along, shape));
  }
  attrs->axis = n.axis(one_integer(n, 1, "axis"), n.rank(0));
  attrs->exclusive = n.integer("exclusive", 0) != 0;
  attrs->reverse = n.integer("reverse", 0) != 0;
  n.set(0, n.add(op, {n.input(0)}, attrs));
}

}  // namespace

void add_reduce_converters(ConverterTable& table) {
  for (std::string_view op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                              "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
    table.push_back({op, 1, convert_reduce});
  }
  table.push_back({"ArgMax", 1, convert_arg});
  table.push_back({"ArgMin", 1, convert_arg});
  table.push_back({"CumSum", 11, [](NodeImport& n) { convert_scan(n, op::cumsum); }});
  table.push_back({"CumProd", 26, [](NodeImport& n) { convert_scan(n, op::cumprod); }});
}

}  // namespace gantry
