#include "host/passes/combine_parallel.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host/graph/structural_equal.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/passes/made_of_constants.h"
#include "host/passes/pointwise.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

/// An elementwise node behind a product: which operand is the branch's own value, and which constants have an element a
/// feature; the others have one element.
struct Step {
  Node* node = nullptr;
  size_t data = 0;
  std::vector<bool> per_feature;
};

struct Branch {
  Node* product = nullptr;
  ParallelProduct how;
  int64_t extent = 0;  ///< along the result axis
  Value* bias = nullptr;
  std::vector<Step> steps;
  Value* result = nullptr;

  Value* data() const { return product->inputs[how.data]; }
  Value* weight() const { return product->inputs[how.weight]; }
};

/// Whether the value is a constant, or made of constants alone.
bool is_known(const Value* value) {
  return value == nullptr ||
         is_made_of_constants(*value, [](const Node& node) { return node.bodies.empty(); });
}

bool equal_constants(const Value& a, const Value& b) {
  if (&a == &b) return true;
  return a.is_constant() && b.is_constant() && equal(*a.constant, *b.constant);
}

/// The axis of an operand that broadcasts to `rank` axes which is the result's `axis`; nothing if it has none.
std::optional<size_t> operand_axis(const Value& operand, size_t rank, size_t axis) {
  const size_t own = operand.type.shape.size(), added = rank - std::min(rank, own);
  return own <= rank && axis >= added ? std::optional(axis - added) : std::nullopt;
}

/// An element a feature: all other axes are 1.
bool is_vector(const Value& operand, size_t rank, size_t axis, int64_t extent) {
  const auto at = operand_axis(operand, rank, axis);
  return at && operand.type.shape[*at] == Dim(extent) && element_count(operand.type.shape) == Dim(extent);
}

Shape without(Shape shape, size_t axis) {
  shape[axis] = 1;
  return shape;
}

class ParallelCombiner {
 public:
  ParallelCombiner(const Rewriter& rewriter, const ParallelProducts& products)
      : rewriter_(rewriter), function_(rewriter.function()), products_(products) {}

  void run() {
    std::vector<std::vector<Branch>> groups;
    for (Node* node : rewriter_.nodes()) {
      std::optional<Branch> branch = match(*node);
      if (!branch) continue;
      // Like every member: the first may have no bias, and others biases of different ranks.
      const auto group = std::ranges::find_if(groups, [&](const auto& g) {
        return std::ranges::all_of(g, [&](const Branch& other) { return are_alike(other, *branch); });
      });
      if (group == groups.end()) {
        groups.push_back({std::move(*branch)});
      } else {
        group->push_back(std::move(*branch));
      }
    }
    for (const auto& group : groups) {
      if (group.size() >= 2 && rewriter_.context().take_rewrite()) combine(group);
    }
  }

 private:
  std::optional<Branch> match(Node& node) const {
    const auto how = products_.match(node);
    if (!how || !is_known(node.inputs[how->weight])) return std::nullopt;
    const Dim& extent = node.result()->type.shape[how->result_axis];
    if (!extent.is_constant()) return std::nullopt;
    Branch branch{&node, *how, extent.value(), nullptr, {}, node.result()};
    while (const auto step = step_behind(branch)) {
      if (branch.steps.empty() && branch.bias == nullptr && step->node->is(op::add) && step->per_feature[1 - step->data]) {
        branch.bias = step->node->inputs[1 - step->data];
      } else {
        branch.steps.push_back(*step);
      }
      branch.result = step->node->result();
    }
    return is_cut_for_nothing(branch.result) ? std::optional(branch) : std::nullopt;
  }

  /// The elementwise node that alone reads the branch's result, with constants.
  std::optional<Step> step_behind(const Branch& branch) const {
    Node* node = function_.only_user(branch.result);
    if (node == nullptr || !is_pointwise_on_any_axes(*node)) return std::nullopt;
    if (!(node->result()->type.shape == branch.result->type.shape)) return std::nullopt;
    Step step{node, 0, std::vector<bool>(node->inputs.size(), false)};
    if (std::ranges::count(node->inputs, branch.result) != 1) return std::nullopt;
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      const Value* operand = node->inputs[i];
      if (operand == branch.result) {
        step.data = i;
        continue;
      }
      if (operand == nullptr) continue;
      if (!is_known(operand)) return std::nullopt;
      step.per_feature[i] =
          is_vector(*operand, branch.result->type.shape.size(), branch.how.result_axis, branch.extent);
      if (!step.per_feature[i] && !(operand->is_constant() && element_count(operand->type.shape) == Dim(1)))
        return std::nullopt;
    }
    return step;
  }

  /// All that reads the value copies it, and may do so out of a larger one.
  bool is_cut_for_nothing(const Value* value) const {
    const Node* user = function_.only_user(value);
    if (user == nullptr) return false;
    if (op_def(*user).stages_input) {
      for (size_t i = 0; i < user->inputs.size(); ++i) {
        if (user->inputs[i] == value && op_def(*user).stages_input(*user, i)) return true;
      }
    }
    return op_def(*user).fusion == FusionClass::kInjective && user->inputs.size() == 1 &&
           user->results.size() == 1 && is_cut_for_nothing(user->result());
  }

  bool are_alike(const Branch& a, const Branch& b) const {
    if (a.product->op != b.product->op || a.data() != b.data() || !(a.how == b.how)) return false;
    if (!equal(*products_.widened(*a.product, 1), *products_.widened(*b.product, 1))) return false;
    const TensorType &one = a.weight()->type, &other = b.weight()->type;
    if (one.dtype != other.dtype || one.shape.size() != other.shape.size() ||
        !(without(one.shape, a.how.weight_axis) == without(other.shape, b.how.weight_axis)))
      return false;
    if (a.bias && b.bias && !fit_together(*a.bias, *b.bias)) return false;
    return std::ranges::equal(a.steps, b.steps, &ParallelCombiner::are_alike_steps);
  }

  static bool fit_together(const Value& a, const Value& b) {
    return a.type.dtype == b.type.dtype && a.type.shape.size() == b.type.shape.size();
  }

  static bool are_alike_steps(const Step& a, const Step& b) {
    if (a.node->op != b.node->op || !equal(*a.node->attrs, *b.node->attrs) || a.data != b.data ||
        a.per_feature != b.per_feature)
      return false;
    for (size_t i = 0; i < a.node->inputs.size(); ++i) {
      const Value *one = a.node->inputs[i], *other = b.node->inputs[i];
      if (i == a.data) continue;
      if ((one == nullptr) != (other == nullptr)) return false;
      if (one == nullptr) continue;
      if (a.per_feature[i] ? !fit_together(*one, *other) : !equal_constants(*one, *other)) return false;
    }
    return true;
  }

  using Copies = std::unordered_map<const Value*, Value*>;
  /// The value, made of constants in front of `build`'s place; `copies`: of what was made there before.
  static Value* known_before(const Builder& build, Value* value, Copies& copies) {
    if (value == nullptr || value->is_constant()) return value;
    if (const auto made = copies.find(value); made != copies.end()) return made->second;
    std::vector<Value*> inputs;
    for (Value* input : value->producer->inputs) inputs.push_back(known_before(build, input, copies));
    Value* copy = build.again(*value->producer, inputs)->results[static_cast<size_t>(value->result_index)];
    copies.emplace(value, copy);
    return copy;
  }

  static Value* side_by_side(const Builder& build, const std::vector<Value*>& parts, size_t axis) {
    std::vector<Value*> known;
    Copies copies;
    for (Value* part : parts) known.push_back(known_before(build, part, copies));
    AxisAttrs attrs;
    attrs.axis = static_cast<int64_t>(axis);
    return build(op::concatenate, known, attrs);
  }

  /// Vectors of features, one a branch.
  static Value* vectors_side_by_side(const Builder& build, const std::vector<Value*>& vectors, const Branch& like) {
    return side_by_side(build, vectors,
                        *operand_axis(*vectors[0], like.result->type.shape.size(), like.how.result_axis));
  }

  Value* zeros(const Branch& branch, const Value& like) {
    TensorType type = like.type;
    type.shape[*operand_axis(like, branch.result->type.shape.size(), branch.how.result_axis)] = branch.extent;
    std::byte* bytes = nullptr;
    auto data = allocate_constant(type, &bytes);
    std::fill(bytes, bytes + data->size, std::byte{0});
    return function_.add_constant("zeros", data);
  }

  Value* with_biases(const Builder& build, Value* y, const std::vector<Branch>& group) {
    const auto biased = std::ranges::find_if(group, [](const Branch& branch) { return branch.bias != nullptr; });
    if (biased == group.end()) return y;
    std::vector<Value*> biases;
    for (const Branch& branch : group)
      biases.push_back(branch.bias != nullptr ? branch.bias : zeros(branch, *biased->bias));
    return build(op::add, {y, vectors_side_by_side(build, biases, group.front())});
  }

  Value* with_step(Value* y, const std::vector<Branch>& group, size_t number) const {
    std::vector<std::string> origin;
    for (const Branch& branch : group) join_origin(origin, branch.steps[number].node->origin);
    const Builder build = rewriter_.before(*group.front().product, origin);
    const Step& step = group.front().steps[number];
    std::vector<Value*> inputs = step.node->inputs;
    inputs[step.data] = y;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!step.per_feature[i]) continue;
      std::vector<Value*> vectors;
      for (const Branch& branch : group) vectors.push_back(branch.steps[number].node->inputs[i]);
      inputs[i] = vectors_side_by_side(build, vectors, group.front());
    }
    return build.again(*step.node, inputs)->result();
  }

  /// [begin, end) of an axis.
  static Value* cut(const Builder& build, Value* x, size_t axis, int64_t begin, int64_t end) {
    StridedSliceAttrs attrs;
    attrs.begin.assign(x->type.shape.size(), Dim(0));
    attrs.end = x->type.shape;
    attrs.strides.assign(x->type.shape.size(), 1);
    attrs.begin[axis] = begin;
    attrs.end[axis] = end;
    return build(op::strided_slice, {x}, attrs);
  }

  void combine(const std::vector<Branch>& group) {
    const Branch& first = group.front();
    std::vector<std::string> origin;
    std::vector<Value*> weights;
    int64_t extent = 0;
    for (const Branch& branch : group) {
      join_origin(origin, branch.product->origin);
      weights.push_back(branch.weight());
      extent += branch.extent;
    }
    const Builder build = rewriter_.before(*first.product, origin);
    std::vector<Value*> inputs = first.product->inputs;
    inputs[first.how.weight] = side_by_side(build, weights, first.how.weight_axis);
    Value* y = build.again(*first.product, inputs, products_.widened(*first.product, extent))->result();
    y = with_biases(build, y, group);
    for (size_t i = 0; i < first.steps.size(); ++i) y = with_step(y, group, i);
    int64_t begin = 0;
    for (const Branch& branch : group) {
      const Builder own = rewriter_.before(*first.product, branch.product->origin);
      function_.replace_uses(branch.result, cut(own, y, first.how.result_axis, begin, begin + branch.extent));
      begin += branch.extent;
    }
  }

  const Rewriter& rewriter_;
  Function& function_;
  const ParallelProducts& products_;
};

}  // namespace

void combine_parallel(Graph& graph, PassContext& context, const ParallelProducts& products) {
  const Rewriter rewriter(graph.main, context);
  ParallelCombiner(rewriter, products).run();
}

}  // namespace gantry
