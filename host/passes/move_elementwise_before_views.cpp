#include <algorithm>

#include "host/ops/movement.h"
#include "host/passes/canonicalize.h"
#include "host/passes/pointwise.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

bool is_one(const Dim& dim) {
  return dim == Dim(1);
}

/// What computed the bytes may take an elementwise node into its kernel.
bool takes_followers(const Node* producer) {
  return producer != nullptr && !op_def(*producer).is_view && op_def(*producer).fusion != FusionClass::kOpaque &&
         op_def(*producer).fusion != FusionClass::kInjective;
}

class ViewMover {
 public:
  explicit ViewMover(const Rewriter& rewriter)
      : rewriter_(rewriter), uses_(rewriter.function().use_counts()), users_(rewriter.function().users()) {}

  void run() {
    for (Node* node : rewriter_.nodes()) {
      if (is_pointwise_on_any_axes(*node)) move(*node);
    }
  }

 private:
  int uses_of(const Value* value) const {
    const auto found = uses_.find(value);
    return found == uses_.end() ? 0 : found->second;
  }

  /// The view that makes `value`, if nothing but it reads its input, and nothing but elementwise nodes reads
  /// it.
  const Node* movable_view(const Value* value) const {
    const Node* view = producer_of(value, op::reshape);
    if (view == nullptr || uses_of(view->inputs[0]) != 1) return nullptr;
    if (rewriter_.function().is_output(value)) return nullptr;
    const auto users = users_.find(value);
    if (users == users_.end()) return nullptr;
    for (const Node* user : users->second) {
      if (!is_pointwise_on_any_axes(*user) || !(user->result()->type.shape == value->type.shape)) return nullptr;
    }
    return takes_followers(view->inputs[0]->producer) ? view : nullptr;
  }

  /// Shape that a constant operand needs to meet the view's input as `value` meets the view; nothing if there
  /// is none.
  static std::optional<Shape> operand_shape(const Value& value, const Node& view) {
    if (!value.is_constant()) return std::nullopt;
    if (element_count(value.type.shape) == Dim(1)) return Shape{};
    // The view only appends axes of extent 1, and the operand has them too.
    const Shape &from = view.inputs[0]->type.shape, &to = view.result()->type.shape;
    if (to.size() < from.size() || !std::equal(from.begin(), from.end(), to.begin())) return std::nullopt;
    const size_t extra = to.size() - from.size();
    Shape shape = value.type.shape;
    if (!std::all_of(to.end() - static_cast<std::ptrdiff_t>(extra), to.end(), is_one) ||
        shape.size() < extra ||
        !std::all_of(shape.end() - static_cast<std::ptrdiff_t>(extra), shape.end(), is_one))
      return std::nullopt;
    shape.resize(shape.size() - extra);
    return shape;
  }

  void move(Node& node) {
    const Node* view = nullptr;
    for (const Value* input : node.inputs) {
      if (input == nullptr) return;
      if (view == nullptr) view = movable_view(input);
    }
    if (view == nullptr || !(view->result()->type.shape == node.result()->type.shape)) return;
    Value* source = view->inputs[0];
    std::vector<std::optional<Shape>> shapes;
    for (const Value* input : node.inputs) {
      const Node* other = producer_of(input, op::reshape);
      if (input == view->result() ||
          (other != nullptr && other->inputs[0]->type.shape == source->type.shape)) {
        shapes.emplace_back();
        continue;
      }
      shapes.push_back(operand_shape(*input, *view));
      if (!shapes.back()) return;
    }
    const Builder build = rewriter_.before(node);
    std::vector<Value*> inputs;
    for (size_t i = 0; i < shapes.size(); ++i) {
      Value* input = node.inputs[i];
      inputs.push_back(shapes[i] ? build.reshape(input, *shapes[i]) : input->producer->inputs[0]);
    }
    Value* moved = build.again(node, inputs)->result();
    Value* viewed = build.reshape(moved, node.result()->type.shape);
    uses_[moved] = 1;
    uses_[viewed] = uses_of(node.result());
    if (const auto users = users_.find(node.result()); users != users_.end()) users_[viewed] = users->second;
    rewriter_.replace(node.result(), viewed);
  }

  const Rewriter& rewriter_;
  // As the function was, with the values that replaced others.
  std::map<const Value*, int> uses_;
  std::map<const Value*, std::vector<Node*>> users_;
};

}  // namespace

void move_elementwise_before_views(Graph& graph, PassContext& context) {
  ViewMover(Rewriter(graph.main, context)).run();
}

extern const Pass move_elementwise_before_views_pass{
    .name = "move_elementwise_before_views",
    .purpose = "elementwise ops move before reshapes, to the op that they can join",
    .run = move_elementwise_before_views,
};

}  // namespace gantry
