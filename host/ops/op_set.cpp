#include <algorithm>

#include "host/ops/control.h"
#include "host/ops/custom.h"
#include "host/ops/families.h"
#include "host/ops/support.h"
#include "host/ops/text.h"

namespace gantry {

Value* root_of_views(Value* value) {
  while (value->kind == Value::Kind::kResult && op_def(*value->producer).is_view)
    value = value->producer->inputs[0];
  return value;
}

bool is_immediate(const Value& value) {
  const DType dtype = value.type.dtype;
  return value.is_constant() && element_count(value.type.shape) == Dim(1) && dtype != DType::kF16 &&
         dtype != DType::kBF16 && dtype != DType::kU64 && dtype != DType::kString && !is_small_float(dtype);
}

void OpSet::add(OpDef op) {
  internal_check(op.handle != nullptr, "an op is declared without a handle");
  internal_check(find(op.name) == nullptr, "op {} is declared twice", op.name);
  ops_.push_back(std::make_unique<OpDef>(std::move(op)));
  by_name_[ops_.back()->name] = ops_.back().get();
}

std::vector<std::string> OpSet::names() const {
  std::vector<std::string> names;
  for (const auto& [name, op] : by_name_) names.emplace_back(name);
  return names;
}

const OpDef* OpSet::find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

const OpDef& OpSet::get(const OpHandle& handle) const {
  const OpDef* op = find(handle.name());
  internal_check(op != nullptr && op->handle == &handle, "op {} is not declared", handle.name());
  return *op;
}

std::vector<TensorType> OpSet::infer(const Node& node, Function& function) const {
  const OpDef& op = op_def(node);
  int count = static_cast<int>(node.inputs.size());
  ops::require(count >= op.min_inputs && (op.max_inputs < 0 || count <= op.max_inputs),
               "{} takes {} inputs, not {}", op.name,
               op.max_inputs == op.min_inputs ? std::to_string(op.min_inputs)
               : op.max_inputs < 0            ? fmt::format("at least {}", op.min_inputs)
                                              : fmt::format("{} to {}", op.min_inputs, op.max_inputs),
               count);
  for (int i = 0; i < count; ++i) {
    bool optional = i >= op.min_inputs && op.max_inputs >= 0;
    ops::require(optional || node.inputs[static_cast<size_t>(i)] != nullptr, "{} needs its input {}", op.name,
                 i);
  }
  const bool has_strings = std::ranges::any_of(
      node.inputs, [](const Value* v) { return v != nullptr && v->type.dtype == DType::kString; });
  if (has_strings && !takes_strings(op)) ops::require_dtype(false, DType::kString);
  // fused, which is not of this set, has one.
  ops::require(node.bodies.empty() || is_control_flow(op) || find(op.name) == nullptr, "{} takes no function", op.name);
  std::vector<TensorType> types = op.infer(node, function);
  for (const TensorType& type : types) {
    if (std::ranges::any_of(type.shape, [](const Dim& dim) { return dim.is_constant() && dim.value() < 0; }))
      user_error("its result {} would have a negative size", type.str());
  }
  return types;
}

std::vector<std::string> OpSet::bound_symbols(const Node& node) const {
  return op_def(node).bound_symbols ? op_def(node).bound_symbols(node) : std::vector<std::string>();
}

const OpSet& op_set() {
  static const OpSet set = [] {
    OpSet all;
    add_unary_ops(all);
    add_activation_ops(all);
    add_broadcast_ops(all);
    add_conv_ops(all);
    add_tile_ops(all);
    add_winograd_ops(all);
    add_conv_transpose_ops(all);
    add_dense_ops(all);
    add_norm_ops(all);
    add_softmax_ops(all);
    add_attention_ops(all);
    add_pool_ops(all);
    add_reduce_ops(all);
    add_arg_reduce_ops(all);
    add_view_ops(all);
    add_movement_ops(all);
    add_index_ops(all);
    add_scatter_ops(all);
    add_create_ops(all);
    add_cumsum_ops(all);
    add_selection_ops(all);
    add_tree_ops(all);
    add_shape_data_ops(all);
    add_axes_matrix_ops(all);
    add_sort_ops(all);
    add_bind_dims_op(all);
    add_text_ops(all);
    add_image_ops(all);
    add_control_ops(all);
    add_device_copy_op(all);
    add_resize_ops(all);
    add_recurrent_ops(all);
    add_linear_attention_ops(all);
    add_grid_sample_ops(all);
    add_roi_ops(all);
    add_col2im_ops(all);
    add_max_positions_ops(all);
    add_det_ops(all);
    add_random_ops(all);
    add_custom_op(all);
    return all;
  }();
  return set;
}

Node* infer_and_add(Function& function, const OpBase& op, std::shared_ptr<const Attrs> attrs,
                    std::vector<Value*> inputs, std::vector<std::string> origin, const Node* before) {
  Node draft;
  draft.op = &op;
  draft.attrs = attrs ? std::move(attrs) : op.handle->make_attrs();
  draft.inputs = std::move(inputs);
  draft.origin = std::move(origin);
  std::vector<TensorType> types;
  try {
    types = op_set().infer(draft, function);
    for (const TensorType& type : types) {
      ops::require(type.shape.size() <= kMaxRank, "its result has {} dimensions, and tensors have at most {}",
                   type.shape.size(), kMaxRank);
    }
  } catch (const Unsupported& error) {
    throw Unsupported(error.what_kind(), error.feature(),
                      fmt::format("node {} ({}): {}", ops::origin_of(draft), op.name, error.what()));
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("node {} ({}): {}", ops::origin_of(draft), op.name, error.what()));
  }
  return function.add_node(draft.op, draft.attrs, draft.inputs, std::move(types), draft.origin, before);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, Function& function, const std::string& origin) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  size_t skip = longer.size() - shorter.size();
  Node place;
  place.origin = {origin};
  for (size_t i = 0; i < shorter.size(); ++i) {
    const Dim &x = longer[skip + i], &y = shorter[i];
    if (y == Dim(1)) continue;
    if (x == Dim(1)) {
      result[skip + i] = y;
      continue;
    }
    ops::require(!provably_different(x, y), "shapes {} and {} do not broadcast: {} against {}", to_string(a),
                 to_string(b), x.str(), y.str());
    result[skip + i] = ops::unify(x, y, function, place, "broadcast dimensions");
  }
  return result;
}

}  // namespace gantry
