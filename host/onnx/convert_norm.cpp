// Normalisations and softmax.
#include <algorithm>

#include "host/onnx/converters.h"
#include "host/onnx/normalise.h"
#include "host/onnx/term.h"
#include "host/ops/elementwise.h"
#include "host/ops/norm.h"
#include "host/ops/reduce.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

/// The data of BatchNormalization, (N, C, …); a vector is of one channel.
Term with_channels(NodeImport& n) {
  const Term x = Term::input(n, 0);
  if (x.rank() < 1) n.fail("its data {} has no channel axis", n.type(0).str());
  return x.rank() == 1 ? x.unsqueezed(1) : x;
}

/// A result of that shape in the shape of the data again.
Term without_channels(NodeImport& n, const Term& y) {
  return n.rank(0) == 1 ? y.squeezed(1) : y;
}

/// With the statistics of the data themselves, (N, C, …) over all axes but the channels'; from opset 14.
void convert_batch_norm_training(NodeImport& n) {
  const Term given = with_channels(n), x = given.widened();
  std::vector<int64_t> axes = axes_from(x, 1);
  axes.front() = 0;
  Shape beside(static_cast<size_t>(x.rank()) - 1, 1);
  beside[0] = x.dim(1);
  const auto vector = [&](size_t i) { return Term::input(n, i).cast(x.dtype()); };
  const Term average = mean(x, axes, KeepAxes::kYes), variance = mean(square(x - average), axes, KeepAxes::kYes);
  const Term deviation = sqrt(variance + n.number("epsilon", 1e-5));
  const Term y = (x - average) / deviation * vector(1).reshaped(beside) + vector(2).reshaped(beside);
  n.set(0, without_channels(n, y.cast(given.dtype())));
  const double momentum = n.number("momentum", 0.9);
  const auto running = [&](size_t i, const Term& seen) {
    const Term moved = vector(i + 2) * momentum + seen.reshaped({x.dim(1)}) * (1 - momentum);
    n.set(i, moved.cast(n.type(i + 2).dtype));
  };
  if (n.wants(1)) running(1, average);
  if (n.wants(2)) running(2, variance);
}

/// Before opset 9, without `spatial`: each element of a sample has statistics of its own, of (C, D1, …).
void convert_batch_norm_of_elements(NodeImport& n) {
  const Term given = Term::input(n, 0), x = given.widened();
  const auto of_element = [&](size_t i) { return Term::input(n, i).cast(x.dtype()); };
  const Term deviation = sqrt(of_element(4) + n.number("epsilon", 1e-5));
  n.set(0, ((x - of_element(3)) / deviation * of_element(1) + of_element(2)).cast(given.dtype()));
}

void convert_batch_norm(NodeImport& n) {
  if (n.integer("training_mode", 0) != 0) return convert_batch_norm_training(n);
  if (n.opset() < 7 && n.has_attribute("is_test") && n.integer("is_test", 0) == 0) {
    n.unsupported(UnsupportedKind::kAttribute, "training mode");
  }
  if (n.opset() < 9 && n.integer("spatial", 1) == 0) return convert_batch_norm_of_elements(n);
  auto attrs = std::make_shared<BatchNormAttrs>();
  attrs->epsilon = n.number("epsilon", 1e-5);
  const Term x = with_channels(n);
  std::vector<Value*> inputs{x};
  // Statistics may be kept more precisely than the data: a variance of f32 may be beyond f16.
  const DType own = x.dtype(), wide = ops::widened(own);
  for (size_t i = 1; i < 5; ++i) inputs.push_back(n.cast(n.input(i), n.type(i).dtype == own ? own : wide));
  n.set(0, without_channels(n, {n, n.add(nn::batch_norm, inputs, attrs)}));
}

void convert_instance_norm(NodeImport& n) {
  auto attrs = std::make_shared<GroupNormAttrs>();
  attrs->epsilon = n.number("epsilon", 1e-5);
  n.set(0, n.add(nn::instance_norm, {n.input(0), n.input(1), n.input(2)}, attrs));
}

/// Before opset 21 scale and bias are a value a group.
Value* per_channel(NodeImport& n, Value* v, int64_t groups, const Dim& channels) {
  if (n.opset() >= 21 || v->type.rank() != 1 || !(v->type.shape[0] == Dim(groups))) return v;
  return n.reshape(n.broadcast(n.reshape(v, {groups, 1}), {groups, floordiv(channels, groups)}), {channels});
}

void convert_group_norm(NodeImport& n) {
  auto attrs = std::make_shared<GroupNormAttrs>();
  attrs->epsilon = n.number("epsilon", 1e-5);
  attrs->groups = n.integer("num_groups", 0);
  Value* x = n.input(0);
  if (attrs->groups < 1 || x->type.rank() < 2) n.fail("does not make groups of {}", x->type.str());
  Dim channels = x->type.shape[1];
  Value* scale = per_channel(n, n.input(1), attrs->groups, channels);
  Value* bias = per_channel(n, n.input(2), attrs->groups, channels);
  n.set(0, n.add(nn::group_norm, {x, scale, bias}, attrs));
}

/// The optional results of LayerNormalization: mean and 1 / standard deviation over the axes from `axis` on.
void set_moments(NodeImport& n, int64_t axis, double epsilon) {
  auto attrs = std::make_shared<ReduceAttrs>();
  for (int64_t i = axis; i < n.rank(0); ++i) attrs->axes.push_back(i);
  Value* x = n.cast(n.input(0), DType::kF32);
  Value* mean = n.add(op::mean, {x}, attrs);
  n.set(1, mean);
  Value* deviation = n.add(op::subtract, {x, mean});
  Value* variance = n.add(op::mean, {n.add(op::multiply, {deviation, deviation})}, attrs);
  Value* shifted = n.add(op::add, {variance, n.scalar(DType::kF32, epsilon)});
  n.set(2, n.add(op::reciprocal, {n.add(op::sqrt, {shifted})}));
}

/// The type of LayerNormalization's mean and deviation, in which it computes up to its scale: f32, or bf16. A
/// user error where stash_type is another.
DType stage_type(const NodeImport& n) {
  if (!n.has_attribute("stash_type")) return DType::kF32;
  const DType named = n.element_type("stash_type");
  if (named != DType::kF32 && named != DType::kBF16)
    n.fail("its stash_type is {}, neither f32 nor bf16", name_of(named));
  return named;
}

/// With each step up to the scale in bf16, as ONNX's formula has them; scale and bias in the data's type.
void layer_norm_in_bf16(NodeImport& n, const LayerNormAttrs& attrs) {
  const Term given = Term::input(n, 0), x = given.cast(DType::kBF16);
  const std::vector<int64_t> axes = axes_from(x, attrs.axis);
  const Term average = mean(x, axes, KeepAxes::kYes), deviation = x - average;
  const Term variance = mean(square(deviation), axes, KeepAxes::kYes);
  const Term inverse = sqrt(variance + attrs.epsilon).apply(op::reciprocal);
  const Term scaled = (deviation * inverse).cast(given.dtype()) * Term::input(n, 1);
  n.set(0, (n.has(2) ? scaled + Term::input(n, 2) : scaled).broadcast(given.shape()));
  if (n.wants(1)) n.set(1, average);
  if (n.wants(2)) n.set(2, inverse);
}

void convert_layer_norm(NodeImport& n) {
  auto attrs = std::make_shared<LayerNormAttrs>();
  attrs->epsilon = n.number("epsilon", 1e-5);
  attrs->axis = n.axis(n.integer("axis", -1), n.rank(0));
  if (stage_type(n) == DType::kBF16) return layer_norm_in_bf16(n, *attrs);
  std::vector<Value*> inputs{n.input(0), n.input(1)};
  if (n.has(2)) inputs.push_back(n.input(2));
  n.set(0, n.add(nn::layer_norm, inputs, attrs));
  if (n.wants(1) || n.wants(2)) set_moments(n, attrs->axis, attrs->epsilon);
}

/// x / sqrt(mean of squares over the axes from `axis` on), times a scale that is broadcast.
void convert_rms_norm(NodeImport& n) {
  const Term given = Term::input(n, 0), scale = Term::input(n, 1);
  const bool own_precision = n.integer("stash_type", 1) != 1;
  const Term x = own_precision ? given : given.widened();
  const Term normalised = rms_normalised(x, n.integer("axis", -1), n.number("epsilon", 1e-5));
  n.set(0, (normalised.cast(given.dtype()).cast(scale.dtype()) * scale).broadcast(x.shape()));
}

/// Opset 9: (x - mean) / (standard deviation + 1e-9) over axes.
void convert_mean_variance_norm(NodeImport& n) {
  const Term given = Term::input(n, 0), x = given.widened();
  std::vector<int64_t> axes = n.integer_list("axes");
  if (!n.has_attribute("axes")) axes = {0, 2, 3};
  const Term deviation = x - mean(x, axes, KeepAxes::kYes);
  const Term spread = sqrt(mean(square(deviation), axes, KeepAxes::kYes));
  n.set(0, (deviation / (spread + 1e-9)).cast(given.dtype()));
}

void convert_lrn(NodeImport& n) {
  auto attrs = std::make_shared<LrnAttrs>();
  attrs->size = n.integer("size", 0);
  attrs->alpha = n.number("alpha", 1e-4);
  attrs->beta = n.number("beta", 0.75);
  attrs->bias = n.number("bias", 1);
  n.set(0, n.add(nn::lrn, {n.input(0)}, attrs));
}

void convert_lp_normalization(NodeImport& n) {
  auto attrs = std::make_shared<LpNormAttrs>();
  attrs->axis = n.axis(n.integer("axis", -1), n.rank(0));
  attrs->p = n.integer("p", 2);
  if (attrs->p != 1 && attrs->p != 2) n.fail("p is {}, not 1 or 2", attrs->p);
  n.set(0, n.add(nn::lp_normalize, {n.input(0)}, attrs));
}

const Op<SoftmaxAttrs>& softmax_op(const NodeImport& n) {
  return n.op_type() == "Softmax"      ? nn::softmax
         : n.op_type() == "LogSoftmax" ? nn::log_softmax
                                       : nn::hardmax;
}

/// Before opset 13: over all axes from `axis` on, flattened.
void convert_softmax_1(NodeImport& n) {
  Value* x = n.input(0);
  Shape shape = x->type.shape;
  int rank = x->type.rank();
  int64_t axis = n.integer("axis", 1);
  axis = axis == rank ? axis : n.axis(axis, std::max(rank, 1));
  Shape flat(shape.begin(), shape.begin() + axis);
  flat.push_back(element_count({shape.begin() + axis, shape.end()}));
  auto attrs = std::make_shared<SoftmaxAttrs>();
  attrs->axis = axis;
  n.set(0, n.reshape(n.add(softmax_op(n), {n.reshape(x, flat)}, attrs), shape));
}

void convert_softmax_13(NodeImport& n) {
  auto attrs = std::make_shared<SoftmaxAttrs>();
  attrs->axis = n.axis(n.integer("axis", -1), n.rank(0));
  n.set(0, n.add(softmax_op(n), {n.input(0)}, attrs));
}

}  // namespace

void add_norm_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"BatchNormalization", 1, convert_batch_norm},
      {"InstanceNormalization", 1, convert_instance_norm},
      {"GroupNormalization", 18, convert_group_norm},
      // ONNX has it since 17; ONNX Runtime, which fuses it, writes it into models of any opset.
      {"LayerNormalization", 1, convert_layer_norm},
      {"RMSNormalization", 23, convert_rms_norm},
      {"MeanVarianceNormalization", 9, convert_mean_variance_norm},
      {"LRN", 1, convert_lrn},
      {"LpNormalization", 1, convert_lp_normalization},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
  for (std::string_view op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    table.push_back({op, 1, convert_softmax_1});
    table.push_back({op, 13, convert_softmax_13});
  }
}

}  // namespace gantry
