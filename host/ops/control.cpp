#include "host/ops/control.h"

#include <algorithm>

#include "host/ops/support.h"

namespace gantry {
namespace {

bool is_among(const Dim& dim, const Shape& dims) {
  return std::ranges::find(dims, dim) != dims.end();
}

/// `open`: dimensions of the parameters that may be any.
void check_parameters(const Node& node, const Function& called, const std::vector<Value*>& given, size_t first,
                      const Shape& open, Function& function) {
  ops::require(first + given.size() == called.parameters.size(), "the body @{} takes {} inputs, not {}", called.name,
               called.parameters.size(), first + given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const Value& parameter = *called.parameters[first + i];
    ops::require(may_be_equal(given[i]->type, parameter.type), "the body @{} takes a {} as %{}, not a {}", called.name,
                 parameter.type.str(), parameter.name, given[i]->type.str());
    for (size_t d = 0; d < parameter.type.shape.size(); ++d) {
      if (!is_among(parameter.type.shape[d], open))
        ops::unify(given[i]->type.shape[d], parameter.type.shape[d], function, node, "dimensions of a body's input");
    }
  }
}

/// The next dimensions of `dims` as those of a result like that one.
TensorType take_type(const TensorType& like, const Shape& dims, size_t& next) {
  ops::require(next + like.shape.size() <= dims.size(), "{} dimensions are too few for its results", dims.size());
  const auto from = dims.begin() + static_cast<std::ptrdiff_t>(next);
  next += like.shape.size();
  return {like.dtype, Shape(from, from + like.rank())};
}

void check_symbols(const Shape& symbols, const Shape& dims) {
  for (const Dim& symbol : symbols)
    ops::require(symbol.is_symbol() && is_among(symbol, dims), "{} is no dimension of its results", symbol.str());
}
void check_one(const TensorType& type, DType dtype, const char* what) {
  ops::require(type.dtype == dtype && !provably_different(element_count(type.shape), 1), "{} should be one {}, not {}",
               what, name_of(dtype), type.str());
}

std::vector<TensorType> infer_if(const Node& node, Function& function) {
  const auto& attrs = node.attrs_as<IfAttrs>();
  check_one(ops::input_type(node, 0), DType::kBool, "the condition");
  ops::require(node.bodies.size() == 2, "it has {} bodies instead of two", node.bodies.size());
  ops::require(attrs.then_inputs >= 0 && attrs.then_inputs < static_cast<int64_t>(node.inputs.size()),
               "its first body cannot take {} of {} inputs", attrs.then_inputs, node.inputs.size() - 1);
  for (size_t body = 0; body < 2; ++body)
    check_parameters(node, *node.bodies[body], inputs_of_body(node, body), 0, {}, function);
  const auto &first = node.bodies[0]->outputs, &second = node.bodies[1]->outputs;
  ops::require(first.size() == second.size(), "its bodies have {} and {} results", first.size(), second.size());
  std::vector<TensorType> types;
  size_t next = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const TensorType &a = first[i]->type, &b = second[i]->type;
    ops::require(a.dtype == b.dtype && a.rank() == b.rank(), "its bodies give {} and {} as result {}", a.str(), b.str(), i);
    types.push_back(take_type(a, attrs.dims, next));
  }
  ops::require(next == attrs.dims.size(), "{} dimensions are too many for its results", attrs.dims.size());
  check_symbols(attrs.symbols, attrs.dims);
  return types;
}

/// The states that the body gives fit those that it takes.
void check_states(const Function& body, const LoopAttrs& attrs) {
  for (size_t i = 0; i < static_cast<size_t>(attrs.states); ++i) {
    const TensorType &before = body.parameters[2 + i]->type, &after = body.outputs[1 + i]->type;
    ops::require(before.dtype == after.dtype && before.rank() == after.rank(), "its body makes a {} of the state {}",
                 after.str(), before.str());
    for (size_t d = 0; d < before.shape.size(); ++d) {
      ops::require(is_among(before.shape[d], attrs.entry) || !provably_different(before.shape[d], after.shape[d]),
                   "a turn of its body makes {} of the state {}", after.str(), before.str());
    }
  }
}

std::vector<TensorType> infer_loop(const Node& node, Function& function) {
  const auto& attrs = node.attrs_as<LoopAttrs>();
  ops::require(node.bodies.size() == 1, "it has {} bodies instead of one", node.bodies.size());
  const size_t first = (attrs.has_count ? 1 : 0) + (attrs.has_condition ? 1 : 0);
  ops::require(attrs.states >= 0 && first + static_cast<size_t>(attrs.states) <= node.inputs.size(),
               "it has {} inputs for {} states", node.inputs.size(), attrs.states);
  const Function& body = *node.bodies[0];
  const LoopInputs inputs = inputs_of_loop(node);
  if (inputs.count != nullptr) check_one(inputs.count->type, DType::kI64, "the count");
  if (inputs.condition != nullptr) check_one(inputs.condition->type, DType::kBool, "the condition");
  std::vector<Value*> given = inputs.states;
  given.insert(given.end(), inputs.others.begin(), inputs.others.end());
  check_parameters(node, body, given, 2, attrs.entry, function);
  ops::require(body.outputs.size() >= 1 + inputs.states.size(), "its body gives {} results for {} states",
               body.outputs.size(), attrs.states);
  check_one(body.parameters[0]->type, DType::kI64, "the turn's number");
  check_one(body.parameters[1]->type, DType::kBool, "the body's condition");
  check_one(body.outputs[0]->type, DType::kBool, "the next condition");
  check_states(body, attrs);
  std::vector<TensorType> types;
  size_t next = 0;
  for (size_t i = 1; i < body.outputs.size(); ++i) {
    TensorType like = body.outputs[i]->type;
    if (i > inputs.states.size()) like.shape.insert(like.shape.begin(), Dim(0));
    types.push_back(take_type(like, attrs.dims, next));
  }
  ops::require(next == attrs.dims.size(), "{} dimensions are too many for its results", attrs.dims.size());
  check_symbols(attrs.symbols, attrs.dims);
  for (const Dim& symbol : attrs.entry) ops::require(symbol.is_symbol(), "{} is no symbol", symbol.str());
  return types;
}

std::vector<std::string> names_of(const Shape& symbols) {
  std::vector<std::string> names;
  for (const Dim& symbol : symbols) names.push_back(symbol.str());
  return names;
}

OpDef control_op(const OpHandle& handle, int min_inputs) {
  OpDef op = ops::define(handle, FusionClass::kOpaque, LayoutBehaviour::kNone, {});
  op.min_inputs = min_inputs;
  op.max_inputs = -1;
  op.keeps_types = true;
  op.flops = [](const Node&) { return Dim(0); };
  return op;
}

}  // namespace

bool is_control_flow(const OpBase& op) {
  return op.handle == &op::if_else || op.handle == &op::loop;
}

bool is_control_flow(const Node& node) {
  return is_control_flow(*node.op);
}

bool has_control_flow(const Function& function) {
  return std::ranges::any_of(function.nodes(), [](const Node* node) { return is_control_flow(*node); });
}

std::vector<Value*> inputs_of_body(const Node& node, size_t body) {
  const auto middle = node.inputs.begin() + 1 + node.attrs_as<IfAttrs>().then_inputs;
  if (body == 0) return {node.inputs.begin() + 1, middle};
  return {middle, node.inputs.end()};
}

LoopInputs inputs_of_loop(const Node& node) {
  const auto& attrs = node.attrs_as<LoopAttrs>();
  LoopInputs inputs;
  auto at = node.inputs.begin();
  if (attrs.has_count) inputs.count = *at++;
  if (attrs.has_condition) inputs.condition = *at++;
  inputs.states.assign(at, at + attrs.states);
  inputs.others.assign(at + attrs.states, node.inputs.end());
  return inputs;
}

void add_control_ops(OpSet& set) {
  OpDef branches = control_op(op::if_else, 1);
  branches.infer = infer_if;
  branches.bound_symbols = [](const Node& node) { return names_of(node.attrs_as<IfAttrs>().symbols); };
  set.add(std::move(branches));
  OpDef loop = control_op(op::loop, 0);
  loop.infer = infer_loop;
  loop.bound_symbols = [](const Node& node) {
    const auto& attrs = node.attrs_as<LoopAttrs>();
    std::vector<std::string> names = names_of(attrs.symbols);
    for (std::string& name : names_of(attrs.entry)) names.push_back(std::move(name));
    return names;
  };
  set.add(std::move(loop));
}

}  // namespace gantry
