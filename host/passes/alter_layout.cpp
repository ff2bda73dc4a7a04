#include "host/passes/alter_layout.h"

#include <algorithm>
#include <map>

#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/ops/fixed_point.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/ops/tiles.h"

namespace gantry {
namespace {

using Origin = std::vector<std::string>;

// The same value in the model's axis order and channels-last; at least one is there.
struct Forms {
  Value* plain = nullptr;
  Value* last = nullptr;
};

std::vector<int64_t> axes_to_last(int rank) {
  std::vector<int64_t> axes{0};
  for (int i = 2; i < rank; ++i) axes.push_back(i);
  axes.push_back(1);
  return axes;
}

std::vector<int64_t> axes_to_plain(int rank) {
  std::vector<int64_t> axes{0, rank - 1};
  for (int i = 1; i + 1 < rank; ++i) axes.push_back(i);
  return axes;
}

bool is_one(const Dim& dim) {
  return dim == Dim(1);
}

// Where a permutation only moves axes of extent 1, the bytes stay in order.
bool keeps_byte_order(const Shape& shape, const std::vector<int64_t>& axes) {
  int64_t previous = -1;
  for (int64_t axis : axes) {
    if (is_one(shape[static_cast<size_t>(axis)])) continue;
    if (axis < previous) return false;
    previous = axis;
  }
  return true;
}

// f32 weights (O, I, spatial…) of groups, of which `merged` neighbours become one: (O, merged * I, spatial…),
// 0 between what were different groups.
ConstantPtr block_diagonal(const ConstantData& weight, int64_t groups, int64_t merged) {
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

class LayoutRewriter {
 public:
  LayoutRewriter(Function& source, const LayoutPolicy& policy)
      : source_(source), policy_(policy), target_(source.name) {}

  Function run() {
    target_.constraints = source_.constraints;
    for (Value* parameter : source_.parameters) {
      forms_[parameter].plain = target_.add_parameter(parameter->name, parameter->type);
    }
    for (Value* constant : source_.constants()) {
      forms_[constant].plain = target_.add_constant(constant->name, constant->constant);
    }
    for (const Node* node : source_.nodes()) rewrite(*node);
    for (Value* output : source_.outputs) target_.outputs.push_back(plain(output, {}));
    target_.output_names = source_.output_names;
    return std::move(target_);
  }

 private:
  Value* add(std::string_view op, std::shared_ptr<const Attrs> attrs, std::vector<Value*> inputs,
             const Origin& origin) {
    return infer_and_add(target_, op, std::move(attrs), std::move(inputs), origin)->result();
  }

  Value* reshape(Value* value, Shape shape, const Origin& origin) {
    if (value->type.shape == shape) return value;
    auto attrs = std::make_shared<ReshapeAttrs>();
    attrs->shape = std::move(shape);
    return add("reshape", attrs, {value}, origin);
  }

  Value* transpose(Value* value, const std::vector<int64_t>& axes, const Origin& origin) {
    const Shape& shape = value->type.shape;
    if (keeps_byte_order(shape, axes)) {
      Shape permuted;
      for (int64_t axis : axes) permuted.push_back(shape[static_cast<size_t>(axis)]);
      return reshape(value, permuted, origin);
    }
    auto attrs = std::make_shared<TransposeAttrs>();
    attrs->axes = axes;
    return add("transpose", attrs, {value}, origin);
  }

  // Appends zeros on `axis` up to a multiple of `block`.
  Value* pad_to_multiple(Value* value, size_t axis, int64_t block, const Origin& origin) {
    int64_t extent = value->type.shape[axis].value();
    int64_t missing = (block - extent % block) % block;
    if (missing == 0) return value;
    auto attrs = std::make_shared<PadAttrs>();
    attrs->before.assign(value->type.shape.size(), Dim(0));
    attrs->after = attrs->before;
    attrs->after[axis] = missing;
    return add("pad", attrs, {value}, origin);
  }

  Value* plain(Value* value, const Origin& origin) {
    Forms& forms = forms_.at(value);
    if (!forms.plain) forms.plain = transpose(forms.last, axes_to_plain(forms.last->type.rank()), origin);
    return forms.plain;
  }

  Value* last(Value* value, const Origin& origin) {
    Forms& forms = forms_.at(value);
    if (!forms.last) forms.last = transpose(forms.plain, axes_to_last(forms.plain->type.rank()), origin);
    return forms.last;
  }

  bool has_last(const Value* value) const { return value && forms_.at(value).last != nullptr; }

  void rewrite(const Node& node) {
    bool done = false;
    switch (node.op->layout) {
      case LayoutBehaviour::kChannelAware:
        done = rewrite_channel_aware(node);
        break;
      case LayoutBehaviour::kAny:
        done = rewrite_any(node);
        break;
      case LayoutBehaviour::kAxisRemap:
        done = rewrite_axis_remap(node);
        break;
      case LayoutBehaviour::kNone:
        done = rewrite_transpose(node) || rewrite_dense(node) || rewrite_matmul(node);
        break;
    }
    if (!done) copy(node);
  }

  void copy(const Node& node) {
    std::vector<Value*> inputs;
    for (Value* input : node.inputs) inputs.push_back(input ? plain(input, node.origin) : nullptr);
    Node* made = infer_and_add(target_, node.op->name, node.attrs, inputs, node.origin);
    for (size_t i = 0; i < node.results.size(); ++i) forms_[node.results[i]].plain = made->results[i];
  }

  void set_last(const Node& node, const Node* made) {
    for (size_t i = 0; i < node.results.size(); ++i) forms_[node.results[i]].last = made->results[i];
  }

  // --- channel-aware ops: the first input and the result are images, the others are per channel.

  bool rewrite_channel_aware(const Node& node) {
    if (node.inputs[0]->type.rank() < 3) return false;
    bool packable = dynamic_cast<const ConvAttrs*>(node.attrs.get()) != nullptr;
    if (packable) return rewrite_conv(node);
    if (!has_last(node.inputs[0])) return false;
    auto attrs = node.attrs->clone();
    static_cast<ImageAttrs&>(*attrs).channels_last = true;
    std::vector<Value*> inputs{last(node.inputs[0], node.origin)};
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      inputs.push_back(node.inputs[i] ? plain(node.inputs[i], node.origin) : nullptr);
    }
    set_last(node, infer_and_add(target_, node.op->name, attrs, inputs, node.origin));
    return true;
  }

  bool rewrite_conv(const Node& node) {
    Value* weight = plain(node.inputs[1], node.origin);
    auto attrs = std::make_shared<ConvAttrs>(node.attrs_as<ConvAttrs>());
    if (!weight->is_constant() || attrs->weight_block != 0 || attrs->channels_last) return false;
    const TensorType& data = node.inputs[0]->type;
    bool depthwise =
        attrs->groups > 1 && attrs->groups == attrs->channels && data.shape[1] == Dim(attrs->groups);
    Value* packed = nullptr;
    attrs->channels_last = true;
    if (depthwise) {
      attrs->depthwise_packed = true;
      packed = pack_depthwise(weight, node.origin);
    } else {
      weight = merge_groups(weight, *attrs, node);
      attrs->tile_unit = policy_.tile_unit;
      attrs->plain_data = attrs->groups == 1 && !has_last(node.inputs[0]);
      const TiledConv tiled =
          policy_.conv_tiles ? policy_.conv_tiles(*attrs, data, node.result()->type) : TiledConv{};
      attrs->tile_parts = tiled.parts;
      attrs->algorithm = tiled.parts > 0 ? tiled.algorithm : choose_algorithm(*attrs, node);
      attrs->plain_data = attrs->plain_data && policy_.conv_plain_data &&
                          policy_.conv_plain_data(*attrs, data, node.result()->type);
      if (attrs->algorithm == ConvAlgorithm::kDirect) {
        attrs->weight_block = policy_.conv_block(*attrs, data, node.result()->type);
        if (attrs->weight_block == 0) return false;
        packed = pack_conv(weight, *attrs, node.origin);
      } else if (attrs->algorithm == ConvAlgorithm::kTiles) {
        attrs->tile_fold_width = folds_width(*attrs, data.shape[1].value());
        packed = pack_tiles(weight, attrs->tile_parts, attrs->channels, attrs->tile_fold_width, false,
                            node.origin);
      } else if (attrs->algorithm == ConvAlgorithm::kGemm) {
        packed = pack_gemm(weight, *attrs, node.origin);
      } else {
        if (policy_.winograd_block && tiled.parts == 0)
          attrs->weight_block = policy_.winograd_block(*attrs, data, node.result()->type);
        packed = transform_winograd(weight, *attrs, node.origin);
      }
      if (attrs->weight_block > 0 && policy_.conv_half &&
          policy_.conv_half(*attrs, data, node.result()->type))
        packed = rounded_to_half(packed, node.origin);
    }
    Value* image = attrs->plain_data ? plain(node.inputs[0], node.origin) : last(node.inputs[0], node.origin);
    set_last(node, infer_and_add(target_, node.op->name, attrs, {image, packed}, node.origin));
    return true;
  }

  // Narrow groups waste vectors: the policy may want several as one.
  Value* merge_groups(Value* weight, ConvAttrs& attrs, const Node& node) {
    if (attrs.groups == 1 || !policy_.merged_groups || weight->type.dtype != DType::kF32) return weight;
    const int64_t merged = policy_.merged_groups(attrs, node.inputs[0]->type, node.result()->type);
    if (merged <= 1 || attrs.groups % merged != 0) return weight;
    const ConstantPtr value = block_diagonal(*weight->constant, attrs.groups, merged);
    attrs.groups /= merged;
    attrs.merged_groups = merged;
    return target_.add_constant(weight->name, value);
  }

  ConvAlgorithm choose_algorithm(const ConvAttrs& attrs, const Node& node) const {
    if (!policy_.conv_algorithm) return ConvAlgorithm::kDirect;
    const TensorType &data = node.inputs[0]->type, &result = node.result()->type;
    const ConvAlgorithm wish = policy_.conv_algorithm(attrs, data, result);
    // Transformed values need the range and precision of f32.
    const bool wide = data.dtype == DType::kF32 || data.dtype == DType::kF64;
    if (winograd_tile(wish) > 0 && (!wide || !fits_winograd(attrs))) return ConvAlgorithm::kGemm;
    return wish;
  }

  Value* rounded_to_half(Value* value, const Origin& origin) {
    auto attrs = std::make_shared<CastAttrs>();
    attrs->to = DType::kF16;
    return add("cast", attrs, {value}, origin);
  }

  Value* pack_tiles(Value* weight, int64_t parts, int64_t columns, bool fold_width, bool dense,
                    const Origin& origin) {
    auto attrs = std::make_shared<TileWeightAttrs>();
    attrs->parts = parts;
    attrs->unit = policy_.tile_unit;
    attrs->column_tiles = tile_columns(policy_.tile_unit, columns);
    attrs->fold_width = fold_width;
    attrs->dense = dense;
    return add("nn.tile_weight", attrs, {weight}, origin);
  }

  // (O, I/groups, spatial…) -> ((groups,) spatial… × I/groups, O/groups)
  Value* pack_gemm(Value* weight, const ConvAttrs& attrs, const Origin& origin) {
    Shape shape = weight->type.shape;
    Dim depth = 1;
    for (size_t i = 1; i < shape.size(); ++i) depth = depth * shape[i];
    shape[0] = attrs.channels / attrs.groups;
    shape.insert(shape.begin(), attrs.groups);
    std::vector<int64_t> axes{0};
    for (size_t i = 0; i < attrs.spatial_rank(); ++i) axes.push_back(static_cast<int64_t>(3 + i));
    axes.insert(axes.end(), {2, 1});
    Value* value = transpose(reshape(weight, shape, origin), axes, origin);
    Shape packed{depth, attrs.channels / attrs.groups};
    if (attrs.groups > 1) packed.insert(packed.begin(), attrs.groups);
    return reshape(value, packed, origin);
  }

  // (O, I, 3, 3) -> (t*t, I, O) or (blocks, t*t, I, nb)
  Value* transform_winograd(Value* weight, const ConvAttrs& attrs, const Origin& origin) {
    auto transform = std::make_shared<WinogradWeightAttrs>();
    transform->tile = winograd_tile(attrs.algorithm);
    transform->block = attrs.weight_block;
    transform->tile_parts = attrs.tile_parts;
    transform->tile_unit = attrs.tile_unit;
    return add("nn.winograd_weight", transform, {weight}, origin);
  }

  // (C, 1, spatial…) -> (spatial…, C)
  Value* pack_depthwise(Value* weight, const Origin& origin) {
    Shape shape = weight->type.shape;
    shape.erase(shape.begin() + 1);
    Value* flat = reshape(weight, shape, origin);
    std::vector<int64_t> axes;
    for (size_t i = 1; i < shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    axes.push_back(0);
    return transpose(flat, axes, origin);
  }

  // (O, I/groups, spatial…) -> (groups, blocks, spatial…, I/groups, nb); without groups the first axis is
  // left out.
  Value* pack_conv(Value* weight, const ConvAttrs& attrs, const Origin& origin) {
    const Shape original = weight->type.shape;
    int64_t group_channels = attrs.channels / attrs.groups, nb = attrs.weight_block;
    Shape grouped{attrs.groups, group_channels};
    grouped.insert(grouped.end(), original.begin() + 1, original.end());
    Value* value = pad_to_multiple(reshape(weight, grouped, origin), 1, nb, origin);
    Shape blocked{attrs.groups, ceildiv(group_channels, nb), nb};
    blocked.insert(blocked.end(), original.begin() + 1, original.end());
    value = reshape(value, blocked, origin);
    std::vector<int64_t> axes{0, 1};
    for (size_t i = 0; i < attrs.spatial_rank(); ++i) axes.push_back(static_cast<int64_t>(4 + i));
    axes.insert(axes.end(), {3, 2});
    value = transpose(value, axes, origin);
    if (attrs.groups > 1) return value;
    Shape without_groups(value->type.shape.begin() + 1, value->type.shape.end());
    return reshape(value, without_groups, origin);
  }

  // --- elementwise and broadcasting ops

  bool rewrite_any(const Node& node) {
    int rank = node.result()->type.rank();
    bool wanted = false;
    for (Value* input : node.inputs) wanted = wanted || (has_last(input) && input->type.rank() == rank);
    if (!wanted || rank < 3) return false;
    std::vector<Value*> inputs;
    for (Value* input : node.inputs)
      inputs.push_back(input ? broadcast_last(input, rank, node.origin) : nullptr);
    set_last(node, infer_and_add(target_, node.op->name, node.attrs, inputs, node.origin));
    return true;
  }

  // An operand of lower rank stands for its trailing axes: give it all axes before they are permuted.
  Value* broadcast_last(Value* value, int rank, const Origin& origin) {
    int own = value->type.rank();
    if (own == rank) return last(value, origin);
    if (std::all_of(value->type.shape.begin(), value->type.shape.end(), is_one)) return plain(value, origin);
    Shape full(static_cast<size_t>(rank - own), Dim(1));
    full.insert(full.end(), value->type.shape.begin(), value->type.shape.end());
    return transpose(reshape(plain(value, origin), full, origin), axes_to_last(rank), origin);
  }

  // --- ops that name axes

  // The model's own changes between the two orders are other names of what is there already.
  bool rewrite_transpose(const Node& node) {
    const auto* attrs = dynamic_cast<const TransposeAttrs*>(node.attrs.get());
    const int rank = node.result()->type.rank();
    if (!attrs || rank < 4) return false;
    if (attrs->axes == axes_to_plain(rank)) {
      forms_[node.result()].last = plain(node.inputs[0], node.origin);
      return true;
    }
    if (attrs->axes != axes_to_last(rank) || !has_last(node.inputs[0])) return false;
    forms_[node.result()].plain = last(node.inputs[0], node.origin);
    return true;
  }

  bool rewrite_axis_remap(const Node& node) {
    int rank = node.inputs[0]->type.rank();
    if (rank < 3 || !node.op->remap_axes) return false;
    bool wanted = false;
    for (Value* input : node.inputs) {
      if (!input || input->type.rank() != rank) return false;
      wanted = wanted || has_last(input);
    }
    bool keeps_rank = node.result()->type.rank() == rank;
    // A reduction that drops all spatial axes leaves (N, C): the order no longer matters.
    if (!wanted || (!keeps_rank && node.result()->type.rank() > 2)) return false;
    std::vector<int> new_axis_of{0, rank - 1};
    for (int i = 2; i < rank; ++i) new_axis_of.push_back(i - 1);
    auto attrs = node.op->remap_axes(node, new_axis_of);
    if (!attrs) return false;
    std::vector<Value*> inputs;
    for (Value* input : node.inputs) inputs.push_back(last(input, node.origin));
    Node* made = infer_and_add(target_, node.op->name, attrs, inputs, node.origin);
    if (keeps_rank) {
      set_last(node, made);
      return true;
    }
    if (!(made->result()->type == node.result()->type)) {
      // Not (N, C) after all: the node just added is dead; take the plain way.
      return false;
    }
    forms_[node.result()].plain = made->result();
    return true;
  }

  // --- matrix products

  bool rewrite_matmul(const Node& node) {
    auto* given = dynamic_cast<const MatmulAttrs*>(node.attrs.get());
    if (!given || given->gemm || !policy_.matmul_gemm) return false;
    if (!policy_.matmul_gemm(node.inputs[0]->type, node.inputs[1]->type)) return false;
    auto attrs = std::make_shared<MatmulAttrs>(*given);
    attrs->gemm = true;
    std::vector<Value*> inputs{plain(node.inputs[0], node.origin), plain(node.inputs[1], node.origin)};
    forms_[node.result()].plain = add(node.op->name, attrs, inputs, node.origin);
    return true;
  }

  // With constant weights.
  bool rewrite_dense(const Node& node) {
    auto* given = dynamic_cast<const DenseAttrs*>(node.attrs.get());
    if (!given || given->weight_block != 0 || given->gemm || given->tile_parts > 0) return false;
    Value* weight = plain(node.inputs[1], node.origin);
    if (!weight->is_constant()) return false;
    if (rewrite_fixed_point(node, *weight, *given)) return true;
    auto attrs = std::make_shared<DenseAttrs>(*given);
    attrs->tile_unit = policy_.tile_unit;
    attrs->tile_parts = policy_.dense_tiles ? policy_.dense_tiles(node.inputs[0]->type, attrs->units) : 0;
    if (attrs->tile_parts > 0) {
      Value* packed = pack_tiles(weight, attrs->tile_parts, attrs->units, false, true, node.origin);
      forms_[node.result()].plain =
          add(node.op->name, attrs, {plain(node.inputs[0], node.origin), packed}, node.origin);
      return true;
    }
    if (policy_.dense_gemm && policy_.dense_gemm(node.inputs[0]->type, attrs->units)) {
      attrs->gemm = true;
      forms_[node.result()].plain =
          add(node.op->name, attrs, {plain(node.inputs[0], node.origin), weight}, node.origin);
      return true;
    }
    attrs->weight_block = policy_.dense_block(node.inputs[0]->type, attrs->units);
    if (attrs->weight_block == 0) return false;
    Value* value = pad_to_multiple(weight, 1, attrs->weight_block, node.origin);
    Dim depth = weight->type.shape[0];
    value =
        reshape(value, {depth, ceildiv(attrs->units, attrs->weight_block), attrs->weight_block}, node.origin);
    value = transpose(value, {1, 0, 2}, node.origin);
    if (policy_.dense_half && policy_.dense_half(node.inputs[0]->type, attrs->units))
      value = rounded_to_half(value, node.origin);
    Node* made = infer_and_add(target_, node.op->name, attrs, {plain(node.inputs[0], node.origin), value},
                               node.origin);
    forms_[node.result()].plain = made->result();
    return true;
  }

  bool rewrite_fixed_point(const Node& node, const Value& weight, const DenseAttrs& given) {
    if (!policy_.dense_fixed_point || weight.type.dtype != DType::kF32) return false;
    for (const auto& format : policy_.dense_fixed_point(node.inputs[0]->type, given.units)) {
      const auto packed = to_fixed_point(*weight.constant, format.bits, format.columns);
      if (!packed) continue;
      auto attrs = std::make_shared<DenseAttrs>(given);
      attrs->weight_block = format.columns;
      attrs->fixed_bits = format.bits;
      Value* words = target_.add_constant(weight.name, packed->words);
      Value* ranges = target_.add_constant(weight.name, packed->ranges);
      forms_[node.result()].plain =
          add(node.op->name, attrs, {plain(node.inputs[0], node.origin), words, ranges}, node.origin);
      return true;
    }
    return false;
  }

  Function& source_;
  const LayoutPolicy& policy_;
  Function target_;
  std::map<const Value*, Forms> forms_;
};

}  // namespace

void alter_layout(Graph& graph, const LayoutPolicy& policy) {
  graph.main = LayoutRewriter(graph.main, policy).run();
}

}  // namespace gantry
