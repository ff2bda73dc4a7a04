#include <algorithm>

#include "host/ops/op.h"
#include "host/passes/canonicalize.h"
#include "host/passes/reshaper.h"

namespace gantry {
namespace {

bool is_one(const Dim& dim) {
  return dim == Dim(1);
}

bool is_pointwise(const Node& node) {
  return (node.op->fusion == FusionClass::kElementwise || node.op->fusion == FusionClass::kBroadcast) &&
         !node.op->is_view && node.results.size() == 1 && node.bodies.empty();
}

/// What computed the bytes may take an elementwise node into its kernel.
bool takes_followers(const Node* producer) {
  return producer != nullptr && !producer->op->is_view && producer->op->fusion != FusionClass::kOpaque &&
         producer->op->fusion != FusionClass::kInjective;
}

class ViewMover {
 public:
  explicit ViewMover(Function& function)
      : function_(function), uses_(function.use_counts()), users_(function.users()) {}

  void run() {
    const std::vector<Node*> nodes = function_.nodes();
    for (Node* node : nodes) {
      if (is_pointwise(*node)) move(*node);
    }
  }

 private:
  /// The view that makes `value`, if nothing but it reads its input, and nothing but elementwise nodes reads
  /// it.
  const Node* movable_view(const Value* value) const {
    const Node* view = producer_of(value, "reshape");
    if (view == nullptr || uses_.at(view->inputs[0]) != 1) return nullptr;
    const auto& outputs = function_.outputs;
    if (std::find(outputs.begin(), outputs.end(), value) != outputs.end()) return nullptr;
    const auto users = users_.find(value);
    if (users == users_.end()) return nullptr;
    for (const Node* user : users->second) {
      if (!is_pointwise(*user) || !(user->result()->type.shape == value->type.shape)) return nullptr;
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
      const Node* other = producer_of(input, "reshape");
      if (input == view->result() ||
          (other != nullptr && other->inputs[0]->type.shape == source->type.shape)) {
        shapes.emplace_back();
        continue;
      }
      shapes.push_back(operand_shape(*input, *view));
      if (!shapes.back()) return;
    }
    Reshaper reshaper(function_, node);
    std::vector<Value*> inputs;
    for (size_t i = 0; i < shapes.size(); ++i) {
      Value* input = node.inputs[i];
      inputs.push_back(shapes[i] ? reshaper.reshape(input, *shapes[i]) : input->producer->inputs[0]);
    }
    Value* moved = reshaper.add(node.op->name, node.attrs, inputs);
    Value* viewed = reshaper.reshape(moved, node.result()->type.shape);
    uses_[moved] = 1;
    uses_[viewed] = uses_.at(node.result());
    if (const auto users = users_.find(node.result()); users != users_.end()) users_[viewed] = users->second;
    function_.replace_uses(node.result(), viewed);
  }

  Function& function_;
  // As the function was, with the values that replaced others.
  std::map<const Value*, int> uses_;
  std::map<const Value*, std::vector<Node*>> users_;
};

}  // namespace

void move_elementwise_before_views(Function& function) {
  ViewMover(function).run();
}

}  // namespace gantry
