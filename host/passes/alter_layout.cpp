#include "host/passes/alter_layout.h"

#include <algorithm>
#include <map>

#include "host/graph/spilled_constant.h"
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/passes/choose_forms.h"
#include "host/passes/dilation_phases.h"
#include "host/passes/form_set.h"
#include "host/passes/layout_behaviour.h"
#include "host/passes/layout_record.h"
#include "host/passes/node_decision.h"
#include "host/passes/rewriter.h"
#include "host/passes/weight_packing.h"

namespace gantry {
namespace {

// The same value in the model's axis order and channels-last; at least one is there.
struct Forms {
  Value* plain = nullptr;
  Value* last = nullptr;
};

bool is_one(const Dim& dim) {
  return dim == Dim(1);
}

class LayoutRewriter {
 public:
  LayoutRewriter(Function& source, const FormSet& forms, PassContext& context)
      : source_(source),
        chosen_(forms),
        context_(context),
        spill_(spill_if_large(source, context.spill)),
        choices_(choose_forms(source, forms, context)),
        target_(source.name) {}

  Function run() {
    target_.constraints = source_.constraints;
    for (Value* parameter : source_.parameters) {
      forms_[parameter].plain = target_.add_parameter(parameter->name, parameter->type);
    }
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
    if (record == nullptr) return {target_, origin, {}, spill_};
    LayoutConversion conversion{wish, nullptr, {}};
    if (reader_ != nullptr) {
      conversion.reader = reader_->op;
      conversion.origin = reader_->origin;
    }
    return {target_, origin, [record, conversion](const Node& made) { record->put(made, conversion); },
            spill_};
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

  /// What takes images in either order takes them channels-last.
  bool runs_last(const Node& node) const {
    const auto choice = choices_.find(&node);
    return choice != choices_.end() && choice->second.channels_last;
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
        return node.is(nn::conv) ? rewrite_formed(node) : rewrite_channel_aware(node);
      case LayoutBehaviour::kAny:
        return rewrite_any(node);
      case LayoutBehaviour::kAxisRemap:
        return rewrite_axis_remap(node);
      case LayoutBehaviour::kNone:
        return rewrite_transpose(node) || rewrite_formed(node);
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
    if (!runs_last(node)) return false;
    auto attrs = node.attrs->clone();
    static_cast<ImageAttrs&>(*attrs).channels_last = true;
    std::vector<Value*> inputs{last(node.inputs[0], node.origin)};
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      inputs.push_back(node.inputs[i] ? plain(node.inputs[i], node.origin) : nullptr);
    }
    set_last(node, again(node, inputs, attrs));
    return true;
  }

  // --- what has several forms

  /// The node as it is, with what was decided.
  bool keep(const Node& node, const Decision& decision) {
    copy(node);
    for (Value* result : node.results) forms_.at(result).plain->producer->decision = decision;
    return true;
  }

  bool rewrite_formed(const Node& node) {
    const auto choice = choices_.find(&node);
    if (choice == choices_.end() || choice->second.question == nullptr) return false;
    const NodeDecision& decided = choice->second.decided;
    if (context_.decisions != nullptr) context_.decisions->push_back(decided);
    Value* weight = node.inputs.size() > 1 && node.inputs[1] != nullptr ? plain(node.inputs[1], node.origin) : nullptr;
    FormQuestion question{.node = node, .weight = weight};
    question.found = std::move(choice->second.question->found);
    WeightPacker weights = packer(node.origin);
    const FormedNode formed = chosen_.apply(question, decided.decision, weights);
    if (formed.attrs == nullptr) return keep(node, decided.decision);
    make(node, formed, chosen_.orders(question, decided.decision), decided.decision);
    return true;
  }

  void make(const Node& node, const FormedNode& formed, const NodeOrders& orders, const Decision& decision) {
    Value* data = orders.data == ImageOrder::kChannelsLast ? last(node.inputs[0], node.origin)
                                                           : plain(node.inputs[0], node.origin);
    WeightPacker nodes = packer(node.origin, LayoutWish::kDilationPhases);
    if (formed.phases) data = split_phases(nodes, node.attrs_as<ConvAttrs>(), *formed.phases, data);
    std::vector<Value*> inputs{data};
    inputs.insert(inputs.end(), formed.weights.begin(), formed.weights.end());
    for (size_t i = formed.weights.empty() ? 1 : 2; i < node.inputs.size(); ++i)
      inputs.push_back(node.inputs[i] ? plain(node.inputs[i], node.origin) : nullptr);
    Node* made = again(node, std::move(inputs), formed.attrs);
    made->placement = node.placement;
    made->decision = decision;
    if (formed.phases) {
      forms_[node.result()].last =
          join_phases(nodes, node.attrs_as<ConvAttrs>(), node.result()->type, made->result());
      return;
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      Forms& forms = forms_[node.results[i]];
      (orders.result == ImageOrder::kChannelsLast ? forms.last : forms.plain) = made->results[i];
    }
  }

  // --- elementwise and broadcasting ops

  bool rewrite_any(const Node& node) {
    if (!runs_last(node)) return false;
    const int rank = node.result()->type.rank();
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
    const OrderChange change = order_change(node);
    if (change == OrderChange::kToPlain) {
      forms_[node.result()].last = plain(node.inputs[0], node.origin);
      return true;
    }
    if (change != OrderChange::kToLast || !has_last(node.inputs[0])) return false;
    forms_[node.result()].plain = last(node.inputs[0], node.origin);
    return true;
  }

  bool rewrite_axis_remap(const Node& node) {
    if (!runs_last(node)) return false;
    const bool keeps_rank = node.result()->type.rank() == node.inputs[0]->type.rank();
    const auto attrs = remapped_to_last(node);
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

  Function& source_;
  const FormSet& chosen_;
  PassContext& context_;
  SpillFile* spill_;
  FormChoices choices_;
  const Node* reader_ = nullptr;  ///< the node that is rewritten; null: outputs are
  Function target_;
  std::map<const Value*, Forms> forms_;
};

}  // namespace

void alter_layout(Graph& graph, const FormSet& forms, PassContext& context) {
  graph.main = LayoutRewriter(graph.main, forms, context).run();
}

void alter_layout(Graph& graph, PassContext& context) {
  if (context.forms) alter_layout(graph, *context.forms(graph.main), context);
}

extern const Pass alter_layout_pass{
    .name = "alter_layout",
    .purpose = "chooses algorithms, runs images channels-last, packs weights for the target",
    .after = {"simplify_inference"},
    .run = alter_layout,
};

}  // namespace gantry
