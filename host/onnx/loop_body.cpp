#include "host/onnx/loop_body.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "host/onnx/importer.h"
#include "host/ops/bind_dims.h"
#include "host/ops/control.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

class LoopImport {
 public:
  LoopImport(NodeImport& n, const onnx::GraphProto& graph, const LoopParts& parts) : n_(n), graph_(graph), parts_(parts) {
    for (const Value* state : parts.states) states_.push_back(state->type);
  }

  std::vector<Value*> run() {
    while (true) {
      const ImportedBody body = n_.import_body(graph_, [this](Function& function) { return start(function); });
      if (!widen(body)) return add_node(body);
      n_.drop_body(body);
    }
  }

 private:
  BodyStart start(Function& function) {
    TurnValues turn;
    turn.number = function.add_parameter("turn", {DType::kI64, {}});
    turn.condition = function.add_parameter("goes_on", {DType::kBool, {}});
    for (size_t i = 0; i < states_.size(); ++i)
      turn.states.push_back(function.add_parameter(parts_.states[i]->name, states_[i]));
    for (const Value* other : parts_.others)
      turn.others.push_back(function.add_parameter(other->name, other->type));
    return {parts_.arguments(turn), parts_.gives_condition ? nullptr : turn.condition};
  }

  /// Makes symbols of the states' dimensions that a turn changes; false if none is left.
  bool widen(const ImportedBody& imported) {
    const Function& body = *imported.function;
    if (std::ranges::any_of(imported.outputs, [](const BodyOutput& o) { return o.kind != BodyOutput::Kind::kTensor; }))
      n_.unsupported(UnsupportedKind::kControlFlow, "sequences that turns hand on, as often as data say");
    if (body.outputs.size() < 1 + states_.size())
      n_.fail("its body has {} outputs for {} values that turns hand on", body.outputs.size() - 1, states_.size());
    bool widened = false;
    for (size_t i = 0; i < states_.size(); ++i) {
      const TensorType& after = body.outputs[1 + i]->type;
      TensorType& before = states_[i];
      if (after.dtype != before.dtype || after.rank() != before.rank())
        n_.unsupported(UnsupportedKind::kControlFlow, "a value that changes its rank or element type from turn to turn");
      for (size_t d = 0; d < before.shape.size(); ++d) {
        if (before.shape[d] == after.shape[d] || is_entry(before.shape[d])) continue;
        before.shape[d] = n_.new_symbol(fmt::format("{}_{}_d{}_before", n_.name(), i, d));
        entry_.push_back(before.shape[d]);
        widened = true;
      }
    }
    return widened;
  }
  bool is_entry(const Dim& dim) const { return std::ranges::find(entry_, dim) != entry_.end(); }

  /// Whether no turn ends the loop.
  bool always_goes_on(const Function& body) const {
    if (parts_.condition != nullptr && !is_true(*parts_.condition)) return false;
    const Value* condition = body.outputs[0];
    while (condition->producer != nullptr &&
           (condition->producer->is(op::copy) || condition->producer->is(op::identity)))
      condition = condition->producer->inputs[0];
    return condition == body.parameters[1] || is_true(*condition);
  }
  static bool is_true(const Value& value) { return value.is_constant() && *value.constant->bytes != std::byte{0}; }

  /// The dimension, or a symbol that the node binds where only turns know it.
  Dim outside(const Dim& dim, const std::set<std::string>& inside, size_t result, size_t axis) {
    const bool known = dim.is_constant() || std::ranges::none_of(dim.symbols(), [&](const std::string& name) {
                         return inside.count(name) != 0;
                       });
    return known ? dim : bound(result, axis);
  }
  Dim bound(size_t result, size_t axis) {
    symbols_.push_back(n_.new_symbol(fmt::format("{}_{}_d{}", n_.name(), result, axis)));
    return symbols_.back();
  }

  std::vector<TensorType> result_types(const Function& body) {
    std::set<std::string> inside;
    for (const Dim& symbol : entry_) inside.insert(symbol.str());
    for (const Node* node : body.nodes()) {
      for (std::string& name : bound_symbols(*node)) inside.insert(std::move(name));
    }
    std::vector<TensorType> types;
    for (size_t i = 0; i + 1 < body.outputs.size(); ++i) {
      const bool is_state = i < states_.size();
      const TensorType& inner = is_state ? states_[i] : body.outputs[1 + i]->type;
      TensorType& type = types.emplace_back(TensorType{inner.dtype, {}});
      if (!is_state) type.shape.push_back(parts_.turns && always_goes_on(body) ? *parts_.turns : bound(i, 0));
      for (const Dim& dim : inner.shape) type.shape.push_back(outside(dim, inside, i, type.shape.size()));
    }
    return types;
  }

  std::vector<Value*> add_node(const ImportedBody& body) {
    auto attrs = std::make_shared<LoopAttrs>();
    std::vector<TensorType> types = result_types(*body.function);
    attrs->has_count = parts_.count != nullptr;
    attrs->has_condition = parts_.condition != nullptr;
    attrs->states = static_cast<int64_t>(states_.size());
    for (const TensorType& type : types) attrs->dims.insert(attrs->dims.end(), type.shape.begin(), type.shape.end());
    attrs->symbols = symbols_;
    attrs->entry = entry_;
    std::vector<Value*> inputs;
    if (parts_.count != nullptr) inputs.push_back(parts_.count);
    if (parts_.condition != nullptr) inputs.push_back(parts_.condition);
    for (const auto* list : {&parts_.states, &parts_.others, &body.captured})
      inputs.insert(inputs.end(), list->begin(), list->end());
    return n_.add_control(op::loop, attrs, std::move(inputs), std::move(types), {body})->results;
  }

  NodeImport& n_;
  const onnx::GraphProto& graph_;
  const LoopParts& parts_;
  std::vector<TensorType> states_;  ///< as the body takes them
  Shape entry_, symbols_;
};

}  // namespace

std::vector<Value*> add_loop(NodeImport& n, const onnx::GraphProto& body, const LoopParts& parts) {
  return LoopImport(n, body, parts).run();
}

}  // namespace gantry
