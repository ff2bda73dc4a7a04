// Ops that read by index, and ops that make values.
#include <algorithm>
#include <cmath>

#include "host/onnx/converters.h"
#include "host/onnx/data_axes.h"
#include "host/onnx/dim_bounds.h"
#include "host/onnx/one_number.h"
#include "host/onnx/term.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/reduce.h"
#include "host/ops/sequence.h"
#include "host/ops/shape_data.h"
#include "host/ops/sort.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

/// Constant indices are checked here; others count as the nearest that there is when the model runs.
void check_indices(NodeImport& n, int64_t axis) {
  const auto extent = n.input(0)->type.shape[static_cast<size_t>(axis)].constant();
  if (!extent || !n.input(1)->is_constant()) return;
  for (double index : n.numbers(1, "indices")) {
    if (index < static_cast<double>(-*extent) || index >= static_cast<double>(*extent))
      n.fail("its index {} lies outside axis {}, which has {} elements", index, axis, *extent);
  }
}

void convert_gather(NodeImport& n) {
  auto attrs = std::make_shared<AxisAttrs>();
  attrs->axis = n.axis(n.integer("axis", 0), n.rank(0));
  check_indices(n, attrs->axis);
  n.set(0,
        n.add(n.op_type() == "Gather" ? op::gather : op::gather_elements, {n.input(0), n.input(1)}, attrs));
}

void convert_gather_nd(NodeImport& n) {
  auto attrs = std::make_shared<GatherNdAttrs>();
  attrs->batch_dims = n.integer("batch_dims", 0);
  n.set(0, n.add(op::gather_nd, {n.input(0), n.input(1)}, attrs));
}

/// How many classes a OneHot has: a number of any type, whole or not.
Dim depth_of_one_hot(NodeImport& n) {
  n.assume_length(1, 1);
  if (n.constant(1)) {
    const double depth = one_number(n, 1, "depth");
    if (!(depth >= 0 && depth < 1e15)) n.fail("its depth should be one positive number");
    return static_cast<int64_t>(depth);
  }
  // As dims() has it: other nodes that read the input then know it as the same size.
  const DType dtype = n.type(1).dtype;
  if (dtype == DType::kI64 || dtype == DType::kI32) return one_dim(n, 1, "depth");
  const Shape depth = n.bind(as_index_vector(n, 1), "depth");
  if (depth.size() != 1) n.fail("its depth should be one number");
  return depth[0];
}

void convert_one_hot(NodeImport& n) {
  auto attrs = std::make_shared<OneHotAttrs>();
  attrs->axis = n.axis(n.integer("axis", -1), n.rank(0) + 1);
  n.assume_length(2, 2);
  attrs->depth = depth_of_one_hot(n);
  n.set(0, n.add(op::one_hot, {n.input(0), n.input(2)}, attrs));
}

/// Constant lengths are checked here; others count as the nearest that there is when the model runs.
void convert_reverse_sequence(NodeImport& n) {
  auto attrs = std::make_shared<ReverseSequenceAttrs>();
  attrs->batch = n.axis(n.integer("batch_axis", 1), n.rank(0));
  attrs->time = n.axis(n.integer("time_axis", 0), n.rank(0));
  const auto extent = n.input(0)->type.shape[static_cast<size_t>(attrs->time)].constant();
  if (extent && n.input(1)->is_constant()) {
    for (double length : n.numbers(1, "sequence_lens")) {
      if (length < 0 || length > static_cast<double>(*extent))
        n.fail("its sequence length {} lies outside 0 to {}, the extent of axis {}", length, *extent,
               attrs->time);
    }
  }
  n.set(0, n.add(op::reverse_sequence, {n.input(0), n.input(1)}, attrs));
}

/// Opset 1 has k as an attribute, 10 as an input; from 11 the smallest may be asked for. What need not be
/// sorted is sorted all the same.
void convert_topk(NodeImport& n) {
  auto attrs = std::make_shared<TopKAttrs>();
  attrs->axis = n.axis(n.integer("axis", -1), n.rank(0));
  if (n.opset() < 10) {
    attrs->k = n.integer("k", -1);
  } else {
    n.assume_length(1, 1);
    attrs->k = one_dim(n, 1, "k", Elements::kSigned);
  }
  if (attrs->k.is_constant() && attrs->k.value() < 0) n.fail("k should not be {}", attrs->k.str());
  attrs->largest = n.integer("largest", 1) != 0;
  std::vector<Value*> results = n.add_many(op::topk, {n.input(0)}, attrs);
  for (size_t i = 0; i < results.size(); ++i) {
    if (n.wants(i)) n.set(i, results[i]);
  }
}

/// Diagonals beyond this one are taken for it: no matrix reaches so far, and no row added to it wraps.
constexpr int64_t kFarDiagonal = int64_t{1} << 40;

/// From a diagonal that is only known when the model runs.
void trilu_at_run_time(NodeImport& n, bool upper) {
  const Term x = Term::input(n, 0), given = Term::input(n, 1).cast(DType::kI64).reshaped({});
  const Term k = minimum(maximum(given, -kFarDiagonal), kFarDiagonal);
  if (x.rank() < 2) n.fail("the data {} must be matrices", n.type(0).str());
  const Term row = Term::range(n, x.dim(-2)).reshaped({x.dim(-2), 1}), column = Term::range(n, x.dim(-1));
  const Term diagonal = row + k;
  const Term kept = upper ? less_equal(diagonal, column) : less_equal(column, diagonal);
  n.set(0, where(kept, x, 0));
}

void convert_trilu(NodeImport& n) {
  auto attrs = std::make_shared<TriluAttrs>();
  attrs->upper = n.integer("upper", 1) != 0;
  if (n.has(1) && !n.contents(1)) return trilu_at_run_time(n, attrs->upper);
  if (n.has(1)) {
    attrs->k = one_dim(n, 1, "k", Elements::kSigned);
    if (const auto known = attrs->k.constant()) attrs->k = std::clamp(*known, -kFarDiagonal, kFarDiagonal);
  }
  n.set(0, n.add(op::trilu, {n.input(0)}, attrs));
}

// --- making values

/// The value of ConstantOfShape: one element, f32 0 by default.
ConstantPtr fill_value(NodeImport& n) {
  ConstantPtr value = n.tensor("value");
  if (!value) {
    float zero = 0;
    value = make_constant({DType::kF32, {}}, &zero);
  }
  if (!(element_count(value->type.shape) == Dim(1))) n.fail("its value should be one element");
  return make_constant({value->type.dtype, {}}, value->bytes);
}

/// Known shapes are filled at once, as they usually stand for weights.
void convert_constant_of_shape(NodeImport& n) {
  n.assume_length(0, n.declared_rank(0));
  Shape shape = n.dims(0, "shape");
  for (const Dim& d : shape) {
    if (d.is_constant() && d.value() < 0) n.fail("shape {} has a negative dimension", to_string(shape));
  }
  ConstantPtr value = fill_value(n);
  TensorType type{value->type.dtype, shape};
  Dim bytes = type.byte_size();
  if (bytes.is_constant() && n.take_constant_budget(bytes.value())) {
    std::byte* data = nullptr;
    auto filled = allocate_constant(type, &data);
    for (size_t i = 0; i < filled->size; ++i) data[i] = value->bytes[i % value->size];
    return n.set_constant(0, filled);
  }
  n.set(0, n.broadcast(n.constant_value(value, "fill"), shape));
}

/// How many steps numpy.arange makes of floats: i64.
Term steps_of_floats(const Term& start, const Term& limit, const Term& delta) {
  const Term span = limit.cast(DType::kF64) - start.cast(DType::kF64);
  return maximum(ceil(span / delta.cast(DType::kF64)), 0).cast(DType::kI64);
}

/// The same of integers, which f64 may not hold: distances between two of i64 are of u64, where they wrap
/// around to what they are. Less than none where delta is 0: no range has such a size.
Term steps_of_integers(const Term& start, const Term& limit, const Term& delta) {
  const Term from = start.cast(DType::kI64), to = limit.cast(DType::kI64), by = delta.cast(DType::kI64);
  const Term from_u64 = from.cast(DType::kU64), to_u64 = to.cast(DType::kU64), by_u64 = by.cast(DType::kU64);
  const Term is_up = less(by.number_like(0), by);
  const Term distance = where(is_up, to_u64 - from_u64, from_u64 - to_u64);
  const Term stride = where(is_up, by_u64, 0.0 - by_u64);
  const Term steps = ((distance - 1.0) / stride + 1.0).cast(DType::kI64);
  const Term has_any = where(is_up, less(from, to), less(to, from));
  return where(equal(by, by.number_like(0)), -1, where(has_any, steps, 0));
}

/// The type in which the numbers of a range are computed before they are rounded to their own: of f16 and
/// bf16 a wider one, which opset 27 lets models name. A user error if that is neither f32 nor f64.
DType range_type(const NodeImport& n, DType own) {
  const DType wide = ops::widened(own);
  if (wide == own || !n.has_attribute("stash_type")) return wide;
  const DType named = n.element_type("stash_type");
  if (named != DType::kF32 && named != DType::kF64)
    n.fail("its stash_type is {}, neither f32 nor f64", name_of(named));
  return named;
}

void range_by_data(NodeImport& n) {
  const auto number = [&](size_t i) {
    if (provably_different(element_count(n.type(i).shape), 1)) n.fail("needs scalars");
    return Term::input(n, i).reshaped({});
  };
  const Term start = number(0), limit = number(1);
  const Term delta = n.has(2) ? number(2) : start.number_like(1);
  if (delta.dtype() != start.dtype())
    n.fail("counts from {} in steps of {}", name_of(start.dtype()), name_of(delta.dtype()));
  const Term count =
      is_float(start.dtype()) ? steps_of_floats(start, limit, delta) : steps_of_integers(start, limit, delta);
  const DType type = range_type(n, start.dtype());
  const Term index = Term::range(n, n.bind(count, "range")[0]).cast(type);
  n.set(0, (index * delta.cast(type) + start.cast(type)).cast(start.dtype()));
}

/// com.microsoft's may have no delta, which is 1 then.
void convert_range(NodeImport& n) {
  auto start = n.contents(0), limit = n.contents(1);
  auto delta = n.has(2) ? n.contents(2) : std::optional(Contents::scalar(1));
  auto attrs = std::make_shared<ArangeAttrs>();
  if (start && limit && delta) {
    if (start->dims.size() != 1 || limit->dims.size() != 1 || delta->dims.size() != 1)
      n.fail("needs scalars");
    attrs->start = start->dims[0];
    attrs->step = delta->dims[0];
    attrs->dtype = start->dtype;
    if (!attrs->step.is_constant()) return range_by_data(n);
    if (attrs->step.value() == 0) n.fail("its delta is 0");
    Dim span = limit->dims[0] - attrs->start;
    Dim count =
        attrs->step.value() > 0 ? ceildiv(span, attrs->step) : ceildiv(Dim(0) - span, -attrs->step.value());
    attrs->count = larger(count, 0);
    return n.set(0, n.add(op::arange, {}, attrs));
  }
  if (!n.constant(0) || !n.constant(1) || (n.has(2) && !n.constant(2))) return range_by_data(n);
  const double from = one_number(n, 0, "start"), to = one_number(n, 1, "limit"),
               by = n.has(2) ? one_number(n, 2, "delta") : 1;
  double count = std::ceil((to - from) / by);
  if (!(by != 0) || !(count < 1e12)) n.fail("a range from {} to {} by {} makes no sense", from, to, by);
  const DType dtype = n.type(0).dtype, type = range_type(n, dtype);
  const Term index = Term::range(n, static_cast<int64_t>(std::max(count, 0.0)));
  n.set(0, (index.cast(type) * by + Term::number(n, type, from)).cast(dtype));
}

/// The positions of elements that are not 0: i64[rank, count], where the running model counts them.
Value* nonzero_positions(NodeImport& n, Value* x) {
  Value* is_set = x;
  if (x->type.dtype != DType::kBool) is_set = n.add(op::not_equal, {x, n.scalar(x->type.dtype, 0)});
  auto all = std::make_shared<ReduceAttrs>();
  for (int64_t axis = 0; axis < x->type.rank(); ++axis) all->axes.push_back(axis);
  all->keepdims = false;
  auto attrs = std::make_shared<ExtentsAttrs>();
  attrs->extents = n.bind(n.add(op::sum, {n.cast(is_set, DType::kI64)}, all), "count");
  return n.add(op::nonzero_positions, {x}, attrs);
}

void convert_nonzero(NodeImport& n) {
  Value* x = n.input(0);
  if (x->type.rank() > 0) return n.set(0, nonzero_positions(n, x));
  // A scalar that is not 0 has one position of no coordinates: i64[0, 1].
  n.set(0, n.slice(nonzero_positions(n, n.reshape(x, {1})), 0, 0, 0));
}

/// The slices of an axis, or the elements, at which the condition holds.
void convert_compress(NodeImport& n) {
  Value *x = n.input(0), *condition = n.input(1);
  auto attrs = std::make_shared<AxisAttrs>();
  if (n.has_attribute("axis")) {
    attrs->axis = n.axis(n.integer("axis", 0), x->type.rank());
  } else {
    x = n.reshape(x, {element_count(x->type.shape)});
  }
  if (condition->type.rank() != 1) n.fail("its condition should be a vector, not {}", condition->type.str());
  Value* positions = nonzero_positions(n, condition);
  n.set(0, n.add(op::gather, {x, n.reshape(positions, {positions->type.shape[1]})}, attrs));
}

/// One on diagonal k: columns minus rows equal k.
void convert_eye_like(NodeImport& n) {
  TensorType like = n.type(0);
  if (like.rank() != 2) n.fail("needs a matrix, not {}", like.str());
  DType dtype = n.has_attribute("dtype") ? n.element_type("dtype") : like.dtype;
  auto range = [&](const Dim& count) {
    auto attrs = std::make_shared<ArangeAttrs>();
    attrs->step = 1;
    attrs->count = count;
    return n.add(op::arange, {}, attrs);
  };
  Value* rows = n.reshape(range(like.shape[0]), {like.shape[0], 1});
  int64_t k = n.integer("k", 0);
  Value* diagonal = n.add(op::add, {rows, n.constant_value(make_constant({DType::kI64, {}}, &k), "k")});
  n.set(0, n.cast(n.add(op::equal, {range(like.shape[1]), diagonal}), dtype));
}

}  // namespace

void add_index_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"Gather", 1, convert_gather},
      {"GatherElements", 11, convert_gather},
      {"GatherND", 11, convert_gather_nd},
      {"OneHot", 9, convert_one_hot},
      {"TopK", 1, convert_topk},
      {"Trilu", 14, convert_trilu},
      {"Range", 11, convert_range},
      {"ConstantOfShape", 9, convert_constant_of_shape},
      {"EyeLike", 9, convert_eye_like},
      {"ReverseSequence", 10, convert_reverse_sequence},
      {"NonZero", 9, convert_nonzero},
      {"Compress", 9, convert_compress},
      {"Trilu", 1, convert_trilu, kMicrosoft},
      {"Range", 1, convert_range, kMicrosoft},
      {"GatherND", 1, convert_gather_nd, kMicrosoft},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
