#include "tests/support/interpreted.h"

#include <algorithm>
#include <deque>
#include <map>
#include <span>

#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/ops/bind_dims.h"
#include "host/ops/builtin.h"
#include "host/ops/control.h"
#include "host/ops/op.h"
#include "host/ops/selection.h"
#include "host/support/error.h"
#include "host/tensor/interpret.h"
#include "tests/support/interpreted_builtin.h"

namespace gantry::testing {
namespace {

std::vector<ConstantPtr> evaluate_loops(const Node& node, const std::vector<Tensor>& results,
                                        const std::vector<Tensor>& inputs,
                                        const std::map<const OperationNode*, ConstantPtr>& data) {
  std::vector<Tensor> present;
  for (const Tensor& t : inputs) {
    if (t) present.push_back(t);
  }
  LoopKernel kernel = run_loop_passes(lower_schedule(Schedule(results), present, "kernel"));
  std::vector<std::span<std::byte>> arguments;
  for (const Tensor& t : present) {
    const ConstantPtr& c = data.at(t.op().get());
    arguments.emplace_back(const_cast<std::byte*>(c->bytes), c->size);
  }
  std::vector<ConstantPtr> outputs;
  for (const Value* result : node.results) {
    std::byte* bytes = nullptr;
    auto output = allocate_constant(result->type, &bytes);
    arguments.emplace_back(bytes, output->size);
    outputs.push_back(output);
  }
  // As many rows as another of their results says are results.
  const bool fills_a_part = node.is(op::non_max_suppression) || node.is(op::row_groups);
  evaluate(kernel, arguments, {}, fills_a_part ? Unstored::kKept : Unstored::kError);
  return outputs;
}

/// "custom[my.domain::MyOp]"
std::string display_text(const Node& node) {
  const std::string algorithm = op_def(node).algorithm ? op_def(node).algorithm(node) : "";
  return algorithm.empty() ? node.op->name : fmt::format("{}[{}]", node.op->name, algorithm);
}

}  // namespace

std::vector<ConstantPtr> interpret_node(const Node& node, const std::vector<ConstantPtr>& inputs) {
  if (is_builtin(node)) return interpret_builtin(node, inputs);
  if (!node.bodies.empty()) return interpret_function(*node.bodies[0], inputs);
  if (op_def(node).is_view && !op_def(node).compute) {  // the same bytes
    auto viewed = std::make_shared<ConstantData>(*inputs[0]);
    viewed->type = node.result()->type;
    return {viewed};
  }
  if (!op_def(node).compute) user_error("{} has no tensor expression, so that it cannot be interpreted", display_text(node));
  std::vector<Tensor> tensors;
  std::map<const OperationNode*, ConstantPtr> data;
  for (const ConstantPtr& input : inputs) {
    tensors.push_back(input ? placeholder(to_exprs(input->type.shape), input->type.dtype, "x") : Tensor());
    if (input) data[tensors.back().op().get()] = input;
  }
  const std::vector<Tensor> computed = op_def(node).compute(node, tensors);
  // Small tensors are not worth threads.
  std::vector<ConstantPtr> results = interpret(computed, data, 1);
  return results.empty() ? evaluate_loops(node, computed, tensors, data) : results;
}

namespace {

/// Replaces symbols in attributes by what they stand for.
class Substituter : public PartialAttrVisitor {
 public:
  explicit Substituter(const std::map<std::string, Dim>& sizes) : sizes_(sizes) {}
  using PartialAttrVisitor::operator();
  void operator()(std::string_view, Dim& value) override { value = value.substitute(sizes_); }
  void operator()(std::string_view, Shape& value) override {
    for (Dim& dim : value) dim = dim.substitute(sizes_);
  }

 private:
  const std::map<std::string, Dim>& sizes_;
};

/// Symbols that nodes bind on the way, and nodes with what they stand for.
class BoundSymbols {
 public:
  explicit BoundSymbols(std::map<std::string, Dim> sizes) : sizes_(std::move(sizes)) {}
  const std::map<std::string, Dim>& sizes() const { return sizes_; }
  void set(const std::string& symbol, int64_t size) { sizes_[symbol] = size; }

  void bind(const BindDimsAttrs& attrs, const ConstantPtr& tensor) {
    for (size_t i = 0; i < attrs.symbols.size(); ++i) {
      const int64_t value = !tensor                            ? attrs.values[i].substitute(sizes_).value()
                            : tensor->type.dtype == DType::kI32 ? tensor->as<int32_t>()[i]
                                                                : tensor->as<int64_t>()[i];
      if (value < 0 && attrs.negatives.empty())
        user_error("the size {} is {}", attrs.symbols[i].str(), value);
      sizes_[attrs.symbols[i].str()] = std::max<int64_t>(value, 0);
      if (!attrs.negatives.empty()) sizes_[attrs.negatives[i].str()] = std::max<int64_t>(-value, 0);
    }
  }

  std::vector<ConstantPtr> interpret(const Node& node, const std::vector<ConstantPtr>& inputs) const {
    if (sizes_.empty() || !node.bodies.empty()) return interpret_node(node, inputs);
    std::deque<Value> values;
    const auto value_of = [&](const TensorType& type) {
      values.emplace_back().type = type;
      for (Dim& dim : values.back().type.shape) dim = dim.substitute(sizes_);
      return &values.back();
    };
    const auto attrs = node.attrs->clone();
    Substituter substitute(sizes_);
    attrs->fields(substitute);
    Node concrete;
    concrete.op = node.op;
    concrete.attrs = attrs;
    for (const ConstantPtr& input : inputs) concrete.inputs.push_back(input ? value_of(input->type) : nullptr);
    for (const Value* result : node.results) concrete.results.push_back(value_of(result->type));
    return interpret_node(concrete, inputs);
  }

  /// Symbols of a parameter's dimensions have the sizes that are given.
  void bind(const TensorType& declared, const TensorType& given) {
    for (size_t i = 0; i < declared.shape.size(); ++i) {
      if (declared.shape[i].is_symbol()) sizes_[declared.shape[i].str()] = given.shape[i];
    }
  }

  TensorType concrete(TensorType type) const {
    for (Dim& dim : type.shape) dim = dim.substitute(sizes_);
    return type;
  }

  void check(const Function& function) const {
    for (const DimConstraint& constraint : function.constraints) {
      const Dim left = constraint.left.substitute(sizes_), right = constraint.right.substitute(sizes_);
      if (provably_different(left, right)) user_error("{} is not {} for {}", left.str(), right.str(), constraint.origin);
    }
  }

 private:
  std::map<std::string, Dim> sizes_;
};

using Arguments = std::vector<ConstantPtr>;
Arguments interpret_body(const Function& function, const Arguments& inputs, std::map<std::string, Dim> sizes);

/// Binds the symbols among a control flow's dimensions to what its results have.
void bind_results(const Shape& dims, const Shape& symbols, const Arguments& results, BoundSymbols& bound) {
  size_t next = 0;
  for (const ConstantPtr& result : results) {
    for (const Dim& size : result->type.shape) {
      const Dim& dim = dims.at(next++);
      if (std::ranges::find(symbols, dim) != symbols.end()) bound.set(dim.str(), size.value());
    }
  }
}

Arguments interpret_if(const Node& node, const IfAttrs& attrs, const Arguments& inputs, BoundSymbols& symbols) {
  const auto middle = inputs.begin() + 1 + attrs.then_inputs;
  const bool holds = *inputs[0]->bytes != std::byte{0};
  const Arguments given = holds ? Arguments(inputs.begin() + 1, middle) : Arguments(middle, inputs.end());
  Arguments results = interpret_body(*node.bodies[holds ? 0 : 1], given, symbols.sizes());
  bind_results(attrs.dims, attrs.symbols, results, symbols);
  return results;
}

/// What turns gave of one result, along a new first axis; `type`: of one, where there was no turn.
ConstantPtr stacked(const Arguments& parts, TensorType type, const std::map<std::string, Dim>& sizes) {
  if (!parts.empty()) type = parts[0]->type;
  for (Dim& dim : type.shape) dim = dim.substitute(sizes).is_constant() ? dim.substitute(sizes) : Dim(0);
  type.shape.insert(type.shape.begin(), Dim(static_cast<int64_t>(parts.size())));
  std::byte* bytes = nullptr;
  auto all = allocate_constant(type, &bytes);
  for (const ConstantPtr& part : parts) {
    if (!(part->type == parts[0]->type)) user_error("turns give a {} and a {}", parts[0]->type.str(), part->type.str());
    bytes = std::copy_n(part->bytes, part->size, bytes);
  }
  return all;
}

Arguments interpret_loop(const Node& node, const LoopAttrs& attrs, const Arguments& inputs, BoundSymbols& symbols) {
  const Function& body = *node.bodies[0];
  const auto states = static_cast<size_t>(attrs.states);
  size_t at = 0;
  const int64_t most = attrs.has_count ? *inputs[at++]->as<int64_t>() : INT64_MAX;
  bool goes_on = !attrs.has_condition || *inputs[at++]->bytes != std::byte{0};
  const bool always = true;
  Arguments given{nullptr, make_constant({DType::kBool, {}}, &always)};
  given.insert(given.end(), inputs.begin() + static_cast<std::ptrdiff_t>(at), inputs.end());
  std::vector<Arguments> gathered(body.outputs.size() - 1 - states);
  for (int64_t turn = 0; goes_on && turn < most; ++turn) {
    given[0] = make_constant({DType::kI64, {}}, &turn);
    std::map<std::string, Dim> sizes = symbols.sizes();
    for (size_t i = 0; i < states; ++i) {
      const Shape& open = body.parameters[2 + i]->type.shape;
      for (size_t d = 0; d < open.size(); ++d) {
        if (std::ranges::find(attrs.entry, open[d]) != attrs.entry.end()) sizes[open[d].str()] = given[2 + i]->type.shape[d];
      }
    }
    const Arguments made = interpret_body(body, given, sizes);
    goes_on = *made[0]->bytes != std::byte{0};
    for (size_t i = 0; i < states; ++i) given[2 + i] = made[1 + i];
    for (size_t i = 0; i < gathered.size(); ++i) gathered[i].push_back(made[1 + states + i]);
  }
  Arguments results(given.begin() + 2, given.begin() + 2 + attrs.states);
  for (size_t i = 0; i < gathered.size(); ++i)
    results.push_back(stacked(gathered[i], body.outputs[1 + states + i]->type, symbols.sizes()));
  bind_results(attrs.dims, attrs.symbols, results, symbols);
  return results;
}

Arguments interpret_body(const Function& function, const Arguments& inputs, std::map<std::string, Dim> sizes) {
  internal_check(inputs.size() == function.parameters.size(), "{} inputs for {} parameters", inputs.size(),
                 function.parameters.size());
  std::map<const Value*, ConstantPtr> values{{nullptr, nullptr}};
  BoundSymbols symbols(std::move(sizes));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& declared = function.parameters[i]->type;
    if (declared.rank() == inputs[i]->type.rank()) symbols.bind(declared, inputs[i]->type);
    if (!(inputs[i]->type == symbols.concrete(declared))) {
      user_error("input {} is {} instead of {}", i, inputs[i]->type.str(), declared.str());
    }
    values[function.parameters[i]] = inputs[i];
  }
  for (const Value* constant : function.constants()) values[constant] = constant->constant;
  symbols.check(function);
  for (const Node* node : function.nodes()) {
    std::vector<ConstantPtr> arguments;
    for (const Value* input : node->inputs) arguments.push_back(values.at(input));
    if (const auto* binding = node->match(op::bind_dims)) {
      symbols.bind(*binding, arguments.empty() ? nullptr : arguments[0]);
      symbols.check(function);
      continue;
    }
    const auto* branch = node->match(op::if_else);
    const auto* loop = node->match(op::loop);
    const Arguments results = branch != nullptr ? interpret_if(*node, *branch, arguments, symbols)
                              : loop != nullptr ? interpret_loop(*node, *loop, arguments, symbols)
                                                : symbols.interpret(*node, arguments);
    if (is_control_flow(*node)) symbols.check(function);
    for (size_t i = 0; i < results.size(); ++i) values[node->results[i]] = results[i];
  }
  std::vector<ConstantPtr> outputs;
  for (const Value* output : function.outputs) outputs.push_back(values.at(output));
  return outputs;
}

}  // namespace

std::vector<ConstantPtr> interpret_function(const Function& function,
                                            const std::vector<ConstantPtr>& inputs) {
  return interpret_body(function, inputs, {});
}

}  // namespace gantry::testing
