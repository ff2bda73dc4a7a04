#include "host/passes/alter_layout.h"

#include <algorithm>
#include <map>

#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/fixed_point.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/ops/recurrent.h"
#include "host/ops/tiles.h"
#include "host/passes/dilation_phases.h"
#include "host/passes/layout_record.h"
#include "host/passes/rewriter.h"
#include "host/passes/weight_growth.h"
#include "host/passes/weight_packing.h"

namespace gantry {
namespace {

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

class LayoutRewriter {
 public:
  LayoutRewriter(Function& source, const LayoutPolicy& policy, PassContext& context)
      : source_(source), policy_(policy), context_(context), target_(source.name) {}

  Function run() {
    target_.constraints = source_.constraints;
    for (Value* parameter : source_.parameters) {
      forms_[parameter].plain = target_.add_parameter(parameter->name, parameter->type);
    }
    if (policy_.small_weights) users_ = source_.users();
    for (Value* constant : source_.constants()) {
      forms_[constant].plain = target_.add_constant(constant->name, constant->constant);
    }
    for (const Node* node : source_.nodes()) {
      reader_ = node;
      rewrite(*node);
    }
    reader_ = nullptr;
    for (Value* output : source_.outputs) target_.outputs.push_back(plain(output, {}));
    target_.output_names = source_.output_names;
    return std::move(target_);
  }

 private:
  /// Of the nodes that it adds the reader at hand wants the results in that order.
  WeightPacker packer(const Origin& origin, LayoutWish wish = LayoutWish::kPackedWeight) {
    LayoutRecord* record = context_.layouts;
    if (record == nullptr) return {target_, origin};
    LayoutConversion conversion{wish, nullptr, {}};
    if (reader_ != nullptr) {
      conversion.reader = reader_->op;
      conversion.origin = reader_->origin;
    }
    return {target_, origin, [record, conversion](const Node& made) { record->put(made, conversion); }};
  }

  /// The node as it is to be, in the function that is made.
  Node* again(const Node& node, std::vector<Value*> inputs, std::shared_ptr<const Attrs> attrs) {
    return Builder(target_, node.origin).again(node, std::move(inputs), std::move(attrs));
  }
  Value* reshape(Value* value, Shape shape, const Origin& origin) {
    return packer(origin).reshape(value, std::move(shape));
  }
  Value* to_plain(Value* value, const Origin& origin) {
    return packer(origin, LayoutWish::kModelOrder).transpose(value, axes_to_plain(value->type.rank()));
  }
  Value* to_last(Value* value, const Origin& origin) {
    return packer(origin, LayoutWish::kChannelsLast).transpose(value, axes_to_last(value->type.rank()));
  }

  Value* plain(Value* value, const Origin& origin) {
    Forms& forms = forms_.at(value);
    if (!forms.plain) forms.plain = to_plain(forms.last, origin);
    return forms.plain;
  }

  Value* last(Value* value, const Origin& origin) {
    Forms& forms = forms_.at(value);
    if (!forms.last) forms.last = to_last(forms.plain, origin);
    return forms.last;
  }

  bool has_last(const Value* value) const { return value && forms_.at(value).last != nullptr; }

  void rewrite(const Node& node) {
    if (context_.may_rewrite() && rewritten(node)) {
      context_.take_rewrite();
    } else {
      copy(node);
    }
  }

  bool rewritten(const Node& node) {
    switch (op_def(node).layout) {
      case LayoutBehaviour::kChannelAware:
        return rewrite_channel_aware(node);
      case LayoutBehaviour::kAny:
        return rewrite_any(node);
      case LayoutBehaviour::kAxisRemap:
        return rewrite_axis_remap(node);
      case LayoutBehaviour::kNone:
        return rewrite_transpose(node) || rewrite_dense(node) || rewrite_matmul(node) || rewrite_recurrence(node);
    }
    return false;
  }

  void copy(const Node& node) { copy(node, node.attrs, plain_inputs(node)); }

  std::vector<Value*> plain_inputs(const Node& node) {
    std::vector<Value*> inputs;
    for (Value* input : node.inputs) inputs.push_back(input ? plain(input, node.origin) : nullptr);
    return inputs;
  }

  void copy(const Node& node, std::shared_ptr<const Attrs> attrs, const std::vector<Value*>& inputs) {
    Node* made = node.bodies.empty() ? again(node, inputs, std::move(attrs)) : copy_group(node, inputs);
    made->placement = node.placement;
    for (size_t i = 0; i < node.results.size(); ++i) forms_[node.results[i]].plain = made->results[i];
  }

  // What fuse_ops has made a kernel of stays one.
  Node* copy_group(const Node& node, const std::vector<Value*>& inputs) {
    std::vector<TensorType> types;
    for (const Value* result : node.results) types.push_back(result->type);
    Node* made = target_.add_node(node.op, node.attrs, inputs, std::move(types), node.origin);
    for (const auto& body : node.bodies) made->bodies.push_back(std::make_unique<Function>(body->clone()));
    return made;
  }

  void set_last(const Node& node, const Node* made) {
    for (size_t i = 0; i < node.results.size(); ++i) forms_[node.results[i]].last = made->results[i];
  }

  // --- channel-aware ops: the first input and the result are images, the others are per channel.

  bool rewrite_channel_aware(const Node& node) {
    if (node.inputs[0]->type.rank() < 3) return false;
    if (node.attrs_as<ImageAttrs>().channels_last) return false;  // an earlier run's
    bool packable = node.match(nn::conv) != nullptr;
    if (packable) return rewrite_conv(node);
    if (!has_last(node.inputs[0])) return false;
    auto attrs = node.attrs->clone();
    static_cast<ImageAttrs&>(*attrs).channels_last = true;
    std::vector<Value*> inputs{last(node.inputs[0], node.origin)};
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      inputs.push_back(node.inputs[i] ? plain(node.inputs[i], node.origin) : nullptr);
    }
    set_last(node, again(node, inputs, attrs));
    return true;
  }

  /// A copy of the node's weight, its input 1, in another form would be one more.
  bool keeps_weight(const Node& node) const {
    const auto users = users_.find(node.inputs[1]);
    if (users == users_.end()) return false;
    return std::ranges::any_of(users->second, [&](const Node* user) {
      return user->op != node.op || std::ranges::count(user->inputs, node.inputs[1]) != 1 ||
             user->inputs[1] != node.inputs[1];
    });
  }

  bool rewrite_conv(const Node& node) {
    if (keeps_weight(node)) return false;
    Value* weight = plain(node.inputs[1], node.origin);
    auto attrs = std::make_shared<ConvAttrs>(node.attrs_as<ConvAttrs>());
    if (attrs->weight_block != 0 || attrs->channels_last) return false;
    const bool known = weight->is_constant();
    if (!known && !(policy_.packs_data_weights && constant_shape(weight->type.shape))) return false;
    const TensorType &data = node.inputs[0]->type, &result = node.result()->type;
    if (attrs->groups > 1 && attrs->groups == attrs->channels && data.shape[1] == Dim(attrs->groups))
      return rewrite_depthwise(node, attrs, weight);
    if (known && rewrite_dilated(node, *attrs, weight)) return true;
    attrs->channels_last = true;
    attrs->plain_data = !has_last(node.inputs[0]);
    Value* packed = packed_weight(*attrs, weight, data, result, node.origin);
    if (packed == nullptr) return false;
    Value* image = attrs->plain_data ? plain(node.inputs[0], node.origin) : last(node.inputs[0], node.origin);
    set_last(node, again(node, {image, packed}, attrs));
    return true;
  }

  bool rewrite_depthwise(const Node& node, const std::shared_ptr<ConvAttrs>& attrs, Value* weight) {
    const bool plain_pays = policy_.depthwise_plain && policy_.depthwise_plain(*attrs, node.inputs[0]->type);
    if (plain_pays && !has_last(node.inputs[0])) return false;
    attrs->channels_last = true;
    attrs->depthwise_packed = true;
    Value* packed = packer(node.origin).depthwise(weight);
    Value* image = last(node.inputs[0], node.origin);
    set_last(node, again(node, {image, packed}, attrs));
    return true;
  }

  // As a convolution of the phases of the dilation, where the policy wants that.
  bool rewrite_dilated(const Node& node, const ConvAttrs& dilated, Value* weight) {
    const TensorType &data = node.inputs[0]->type, &result = node.result()->type;
    if (!policy_.conv_phases) return false;
    ConvAttrs whole = dilated;
    whole.channels_last = true;
    if (policy_.conv_tiles && policy_.conv_tiles(whole, data, result).parts > 0) return false;
    const std::optional<DilationPhases> phases = dilation_phases(dilated, data, result);
    if (!phases || !policy_.conv_phases(dilated, data, result, *phases)) return false;
    auto attrs = std::make_shared<ConvAttrs>(phases->attrs);
    attrs->channels_last = true;
    Value* packed = packed_weight(*attrs, weight, phases->data, phases->result, node.origin);
    if (packed == nullptr) return false;
    WeightPacker nodes = packer(node.origin, LayoutWish::kDilationPhases);
    Value* image = split_phases(nodes, dilated, *phases, last(node.inputs[0], node.origin));
    Value* made = again(node, {image, packed}, attrs)->result();
    forms_[node.result()].last = join_phases(nodes, dilated, result, made);
    return true;
  }

  // Chooses how the convolution is computed, which it writes into `attrs`, and packs the weight for that;
  // null where it is to stay as it is. `attrs.plain_data`: the data are there as the model has them.
  Value* packed_weight(ConvAttrs& attrs, Value* weight, const TensorType& data, const TensorType& result,
                       const Origin& origin) {
    const bool known = weight->is_constant();
    if (known) weight = merge_groups(weight, attrs, data, result);
    attrs.plain_data = attrs.plain_data && attrs.groups == 1;
    attrs.tile_unit = policy_.tile_unit;
    const TiledConv tiled =
        known && policy_.conv_tiles ? policy_.conv_tiles(attrs, data, result) : TiledConv{};
    attrs.tile_parts = tiled.parts;
    if (known) attrs.algorithm = tiled.parts > 0 ? tiled.algorithm : choose_algorithm(attrs, data, result);
    attrs.plain_data =
        attrs.plain_data && policy_.conv_plain_data && policy_.conv_plain_data(attrs, data, result);
    Value* packed = nullptr;
    if (attrs.algorithm == ConvAlgorithm::kDirect) {
      attrs.weight_block = policy_.conv_block(attrs, data, result);
      if (attrs.weight_block == 0) return nullptr;
      packed = packer(origin).conv(weight, attrs);
    } else if (attrs.algorithm == ConvAlgorithm::kTiles) {
      attrs.tile_fold_width = folds_width(attrs, data.shape[1].value());
      packed = packer(origin).tiles(weight, attrs);
    } else if (attrs.algorithm == ConvAlgorithm::kGemm) {
      packed = packer(origin).gemm(weight, attrs);
    } else {
      if (policy_.winograd_block && tiled.parts == 0)
        attrs.weight_block = policy_.winograd_block(attrs, data, result);
      packed = packer(origin).winograd(weight, attrs);
    }
    const bool half = attrs.weight_block > 0 && policy_.conv_half && policy_.conv_half(attrs, data, result);
    return half ? packer(origin).rounded_to_half(packed) : packed;
  }

  // Narrow groups waste vectors: the policy may want several as one.
  Value* merge_groups(Value* weight, ConvAttrs& attrs, const TensorType& data, const TensorType& result) {
    if (attrs.groups == 1 || !policy_.merged_groups || weight->type.dtype != DType::kF32) return weight;
    const int64_t merged = policy_.merged_groups(attrs, data, result);
    if (merged <= 1 || attrs.groups % merged != 0) return weight;
    const ConstantPtr value = merged_group_weight(*weight->constant, attrs.groups, merged);
    attrs.groups /= merged;
    attrs.merged_groups = merged;
    return target_.add_constant(weight->name, value);
  }

  ConvAlgorithm choose_algorithm(const ConvAttrs& attrs, const TensorType& data,
                                 const TensorType& result) const {
    if (!policy_.conv_algorithm) return ConvAlgorithm::kDirect;
    const ConvAlgorithm wish = policy_.conv_algorithm(attrs, data, result);
    // Transformed values need the range and precision of f32.
    const bool wide = data.dtype == DType::kF32 || data.dtype == DType::kF64;
    if (winograd_tile(wish) > 0 && (!wide || !fits_winograd(attrs))) return ConvAlgorithm::kGemm;
    return wish;
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
    set_last(node, again(node, inputs, node.attrs));
    return true;
  }

  // An operand of lower rank stands for its trailing axes: give it all axes before they are permuted.
  Value* broadcast_last(Value* value, int rank, const Origin& origin) {
    int own = value->type.rank();
    if (own == rank) return last(value, origin);
    if (std::all_of(value->type.shape.begin(), value->type.shape.end(), is_one)) return plain(value, origin);
    Shape full(static_cast<size_t>(rank - own), Dim(1));
    full.insert(full.end(), value->type.shape.begin(), value->type.shape.end());
    return to_last(reshape(plain(value, origin), full, origin), origin);
  }

  // --- ops that name axes

  // The model's own changes between the two orders are other names of what is there already.
  bool rewrite_transpose(const Node& node) {
    const auto* attrs = node.match(op::transpose);
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
    if (rank < 3 || !op_def(node).remap_axes) return false;
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
    auto attrs = op_def(node).remap_axes(node, new_axis_of);
    if (!attrs) return false;
    std::vector<Value*> inputs;
    for (Value* input : node.inputs) inputs.push_back(last(input, node.origin));
    Node* made = again(node, inputs, attrs);
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
    auto* given = node.match(op::matmul);
    if (!given || given->gemm || !policy_.matmul_gemm) return false;
    if (!policy_.matmul_gemm(node.inputs[0]->type, node.inputs[1]->type)) return false;
    auto attrs = std::make_shared<MatmulAttrs>(*given);
    attrs->gemm = true;
    std::vector<Value*> inputs{plain(node.inputs[0], node.origin), plain(node.inputs[1], node.origin)};
    forms_[node.result()].plain = again(node, inputs, attrs)->result();
    return true;
  }

  // With constant weights.
  bool rewrite_dense(const Node& node) {
    auto* given = node.match(nn::dense);
    if (!given || given->weight_block != 0 || given->gemm || given->tile_parts > 0) return false;
    Value* weight = plain(node.inputs[1], node.origin);
    if (!weight->is_constant() || keeps_weight(node)) return false;
    if (rewrite_fixed_point(node, *weight, *given)) return true;
    auto attrs = std::make_shared<DenseAttrs>(*given);
    attrs->tile_unit = policy_.tile_unit;
    attrs->tile_parts = policy_.dense_tiles ? policy_.dense_tiles(node.inputs[0]->type, attrs->units) : 0;
    if (attrs->tile_parts > 0) {
      Value* packed = packer(node.origin).tiles(weight, *attrs);
      forms_[node.result()].plain =
          again(node, {plain(node.inputs[0], node.origin), packed}, attrs)->result();
      return true;
    }
    if (policy_.dense_gemm && policy_.dense_gemm(node.inputs[0]->type, attrs->units)) {
      attrs->gemm = true;
      forms_[node.result()].plain =
          again(node, {plain(node.inputs[0], node.origin), weight}, attrs)->result();
      return true;
    }
    attrs->weight_block = policy_.dense_block(node.inputs[0]->type, attrs->units);
    if (attrs->weight_block == 0) return false;
    Value* value = packer(node.origin).dense(weight, *attrs);
    if (policy_.dense_half && policy_.dense_half(node.inputs[0]->type, attrs->units))
      value = packer(node.origin).rounded_to_half(value);
    Node* made = again(node, {plain(node.inputs[0], node.origin), value}, attrs);
    forms_[node.result()].plain = made->result();
    return true;
  }

  // With constant weights.
  bool rewrite_recurrence(const Node& node) {
    auto* given = node.attrs_if<RecurrenceAttrs>();
    if (!given || given->weight_block != 0 || !policy_.recurrent) return false;
    std::vector<Value*> inputs = plain_inputs(node);
    Value* weight = inputs[1];
    // Of a packed weight, the initial state alone says how many units there are.
    if (!weight->is_constant() || !node.inputs[2]->type.shape[2].is_constant()) return false;
    const std::vector<int64_t> runs = recurrent_runs(node, weight->type.shape[1].value());
    const RecurrentPacking packing = policy_.recurrent(node.inputs[2]->type, runs);
    if (packing.columns == 0 || keeps_weight(node)) return false;
    auto attrs = std::make_shared<RecurrenceAttrs>(*given);
    attrs->weight_block = packing.columns;
    attrs->sequences = packing.sequences;
    attrs->directions_in_turn = packing.directions_in_turn;
    const ConstantPtr packed = packed_recurrent_weight(*weight->constant, runs, packing.columns);
    const auto bytes = [](const ConstantData& data) { return static_cast<int64_t>(data.size); };
    if (policy_.small_weights && !grows_little(bytes(*weight->constant), bytes(*packed))) return false;
    inputs[1] = target_.add_constant(weight->name, packed);
    copy(node, attrs, inputs);
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
          again(node, {plain(node.inputs[0], node.origin), words, ranges}, attrs)->result();
      return true;
    }
    return false;
  }

  Function& source_;
  const LayoutPolicy& policy_;
  PassContext& context_;
  const Node* reader_ = nullptr;  ///< the node that is rewritten; null: outputs are
  Function target_;
  std::map<const Value*, Forms> forms_;
  std::map<const Value*, std::vector<Node*>> users_;  ///< of the source; empty unless weights stay small
};

}  // namespace

void alter_layout(Graph& graph, const LayoutPolicy& policy, PassContext& context) {
  graph.main = LayoutRewriter(graph.main, policy, context).run();
}

void alter_layout(Graph& graph, PassContext& context) {
  if (context.layout_policy) alter_layout(graph, context.layout_policy(graph.main), context);
}

extern const Pass alter_layout_pass{
    .name = "alter_layout",
    .purpose = "chooses algorithms, runs images channels-last, packs weights for the target",
    .after = {"simplify_inference"},
    .run = alter_layout,
};

}  // namespace gantry
