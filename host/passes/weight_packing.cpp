#include "host/passes/weight_packing.h"

#include <algorithm>

#include "host/graph/spilled_constant.h"
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/ops/tiles.h"
#include "host/passes/balanced_weight.h"

namespace gantry {
namespace {

/// Where a permutation only moves axes of extent 1, the bytes stay in order.
bool keeps_byte_order(const Shape& shape, const std::vector<int64_t>& axes) {
  int64_t previous = -1;
  for (int64_t axis : axes) {
    if (shape[static_cast<size_t>(axis)] == Dim(1)) continue;
    if (axis < previous) return false;
    previous = axis;
  }
  return true;
}

std::shared_ptr<TileWeightAttrs> tile_weight(TileUnit unit, int64_t parts, int64_t columns) {
  auto attrs = std::make_shared<TileWeightAttrs>();
  attrs->parts = parts;
  attrs->unit = unit;
  attrs->column_tiles = tile_columns(unit, columns);
  return attrs;
}

}  // namespace

ConstantPtr merged_group_weight(const ConstantData& weight, int64_t groups, int64_t merged) {
  TensorType type = weight.type;
  const int64_t outputs = type.shape[0].value(), inputs = type.shape[1].value();
  int64_t window = 1;
  for (size_t i = 2; i < type.shape.size(); ++i) window *= type.shape[i].value();
  type.shape[1] = inputs * merged;
  std::byte* bytes = nullptr;
  auto result = allocate_constant(type, &bytes);
  auto* to = reinterpret_cast<float*>(bytes);
  std::fill_n(to, outputs * inputs * merged * window, 0.0f);
  const auto* from = weight.as<float>();
  for (int64_t o = 0; o < outputs; ++o) {
    const int64_t group = o / (outputs / groups);
    std::copy_n(from + o * inputs * window, inputs * window,
                to + (o * merged + group % merged) * inputs * window);
  }
  return result;
}

Value* WeightPacker::constant(const std::string& name, ConstantPtr constant) {
  if (spill_ != nullptr && may_spill(constant)) constant = spilled(std::move(constant), *spill_);
  return function_.add_constant(name, std::move(constant));
}

Value* WeightPacker::reshape(Value* value, Shape shape) {
  if (value->type.shape == shape) return value;
  auto attrs = std::make_shared<ReshapeAttrs>();
  attrs->shape = std::move(shape);
  return add(op::reshape, {value}, attrs);
}

Value* WeightPacker::transpose(Value* value, const std::vector<int64_t>& axes) {
  const Shape& shape = value->type.shape;
  if (keeps_byte_order(shape, axes)) {
    Shape permuted;
    for (int64_t axis : axes) permuted.push_back(shape[static_cast<size_t>(axis)]);
    return reshape(value, permuted);
  }
  auto attrs = std::make_shared<TransposeAttrs>();
  attrs->axes = axes;
  return add(op::transpose, {value}, attrs);
}

Value* WeightPacker::pad_to_multiple(Value* value, size_t axis, int64_t block) {
  int64_t extent = value->type.shape[axis].value();
  int64_t missing = (block - extent % block) % block;
  if (missing == 0) return value;
  auto attrs = std::make_shared<PadAttrs>();
  attrs->before.assign(value->type.shape.size(), Dim(0));
  attrs->after = attrs->before;
  attrs->after[axis] = missing;
  return add(op::pad, {value}, attrs);
}

Value* WeightPacker::rounded_to_half(Value* value) {
  auto attrs = std::make_shared<CastAttrs>();
  attrs->to = DType::kF16;
  return add(op::cast, {value}, attrs);
}

// A kernel would collect every element of such a transposition by itself. In two steps, one turns a matrix
// and the other moves vectors.
Value* WeightPacker::packed_at_run_time(Value* value, const Shape& blocked) {
  Shape matrix(blocked.begin(), blocked.begin() + 3);
  Dim depth = 1;
  for (size_t i = 3; i < blocked.size(); ++i) depth = depth * blocked[i];
  matrix.push_back(depth);
  value = transpose(reshape(value, matrix), {0, 1, 3, 2});
  Shape turned(blocked.begin(), blocked.begin() + 2);
  turned.insert(turned.end(), blocked.begin() + 3, blocked.end());
  turned.push_back(blocked[2]);
  std::vector<int64_t> axes{0, 1};
  const auto last = static_cast<int64_t>(turned.size()) - 1;
  for (int64_t i = 3; i < last; ++i) axes.push_back(i);
  axes.insert(axes.end(), {2, last});
  return transpose(reshape(value, turned), axes);
}

Value* WeightPacker::conv(Value* weight, const ConvAttrs& attrs) {
  const Shape original = weight->type.shape;
  int64_t group_channels = attrs.channels / attrs.groups, nb = attrs.form.weight_block;
  Shape grouped{attrs.groups, group_channels};
  grouped.insert(grouped.end(), original.begin() + 1, original.end());
  Value* value = pad_to_multiple(reshape(weight, grouped), 1, nb);
  Shape blocked{attrs.groups, ceildiv(group_channels, nb), nb};
  blocked.insert(blocked.end(), original.begin() + 1, original.end());
  if (weight->is_constant()) {
    std::vector<int64_t> axes{0, 1};
    for (size_t i = 0; i < attrs.spatial_rank(); ++i) axes.push_back(static_cast<int64_t>(4 + i));
    axes.insert(axes.end(), {3, 2});
    value = transpose(reshape(value, blocked), axes);
  } else {
    value = packed_at_run_time(value, blocked);
  }
  if (attrs.groups > 1) return value;
  Shape without_groups(value->type.shape.begin() + 1, value->type.shape.end());
  return reshape(value, without_groups);
}

Value* WeightPacker::depthwise(Value* weight) {
  Shape shape = weight->type.shape;
  shape.erase(shape.begin() + 1);
  Value* flat = reshape(weight, shape);
  std::vector<int64_t> axes;
  for (size_t i = 1; i < shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  axes.push_back(0);
  return transpose(flat, axes);
}

Value* WeightPacker::gemm(Value* weight, const ConvAttrs& attrs) {
  Shape shape = weight->type.shape;
  Dim depth = 1;
  for (size_t i = 1; i < shape.size(); ++i) depth = depth * shape[i];
  shape[0] = attrs.channels / attrs.groups;
  shape.insert(shape.begin(), attrs.groups);
  std::vector<int64_t> axes{0};
  for (size_t i = 0; i < attrs.spatial_rank(); ++i) axes.push_back(static_cast<int64_t>(3 + i));
  axes.insert(axes.end(), {2, 1});
  Value* value = transpose(reshape(weight, shape), axes);
  Shape packed{depth, attrs.channels / attrs.groups};
  if (attrs.groups > 1) packed.insert(packed.begin(), attrs.groups);
  return reshape(value, packed);
}

Value* WeightPacker::winograd(Value* weight, const ConvAttrs& attrs) {
  const ConvForm& form = attrs.form;
  auto transform = std::make_shared<WinogradWeightAttrs>();
  transform->tile = winograd_tile(form.algorithm);
  transform->block = form.weight_block;
  transform->tile_parts = form.tile_parts;
  transform->tile_unit = form.tile_unit;
  if (attrs.spatial_rank() == 3) {
    const Shape shape = weight->type.shape;
    weight = reshape(transpose(weight, {0, 2, 1, 3, 4}), {shape[0], shape[1] * shape[2], 3, 3});
  }
  return add(nn::winograd_weight, {weight}, transform);
}

Value* WeightPacker::tiles(Value* weight, const ConvAttrs& attrs) {
  const ConvForm& form = attrs.form;
  auto packing = tile_weight(form.tile_unit, form.tile_parts, attrs.channels);
  packing->fold_width = form.tile_fold_width;
  if (form.tile_parts < 3 && weight->is_constant())
    weight = constant(weight->name, balanced_weight(*weight->constant, form.tile_parts));
  return add(nn::tile_weight, {weight}, packing);
}

Value* WeightPacker::tiles(Value* weight, const DenseAttrs& attrs) {
  auto packing = tile_weight(attrs.form.tile_unit, attrs.form.tile_parts, attrs.units);
  packing->dense = true;
  if (attrs.form.tile_parts < 3 && weight->is_constant() && is_float(weight->type.dtype))
    weight =
        constant(weight->name, balanced_weight(*weight->constant, attrs.form.tile_parts, OutputAxis::kLast));
  return add(nn::tile_weight, {weight}, packing);
}

Value* WeightPacker::dense(Value* weight, const DenseAttrs& attrs) {
  const int64_t block = attrs.form.weight_block;
  const Dim depth = weight->type.shape[0];
  Value* value = pad_to_multiple(weight, 1, block);
  value = reshape(value, {depth, ceildiv(attrs.units, block), block});
  return transpose(value, {1, 0, 2});
}

}  // namespace gantry
