#include "host/onnx/loop_body.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "host/onnx/carried.h"
#include "host/onnx/importer.h"
#include "host/ops/bind_dims.h"
#include "host/ops/control.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

class LoopImport {
 public:
  LoopImport(NodeImport& n, const onnx::GraphProto& graph, const LoopParts& parts)
      : n_(n), graph_(graph), parts_(parts) {
    for (const Binding& state : parts.states) kinds_.push_back(kind_of_state(state));
    carry_states();
  }

  std::vector<Binding> run() {
    const StartBody start = [this](Function& function) { return begin(function); };
    const GiveResults give = [this](std::vector<Binding> outputs) { return end(std::move(outputs)); };
    while (true) {
      const ImportedBody body = n_.import_body(graph_, start, give);
      const bool is_fit = !kinds_changed_ && !widen(body);
      if (is_fit) return add_node(body);
      n_.drop_body(body);
      if (kinds_changed_) carry_states();
    }
  }

 private:
  /// Turns will rather change the number of a sequence's tensors than not.
  Carried kind_of_state(const Binding& state) {
    const Carried own = carried_as(n_, state);
    if (own.kind != Carried::Kind::kSequence || own.elements.empty()) return own;
    const bool alike = std::ranges::all_of(own.elements, [&](const ElementKind& e) { return e == own.elements[0]; });
    return alike ? as_late(n_, own) : own;
  }

  /// The states before the first turn, and their types as the body takes them.
  void carry_states() {
    kinds_changed_ = false;
    given_.clear();
    states_.clear();
    entry_.clear();
    ranks_taken_.clear();
    for (size_t i = 0; i < kinds_.size(); ++i) {
      for (Value* tensor : carry(n_, parts_.states[i], kinds_[i])) {
        given_.push_back(tensor);
        states_.push_back(tensor->type);
        open_dimensions(kinds_[i]);
      }
    }
  }
  /// Of the last state those that turns are sure to change: how many tensors and elements a sequence has, and the sizes
  /// of a value that may not be there.
  void open_dimensions(const Carried& kind) {
    const size_t state = states_.size() - 1;
    const size_t rank = states_[state].shape.size();
    const size_t open = kind.kind == Carried::Kind::kLate ? std::min<size_t>(rank, 1) : kind.optional ? rank : 0;
    for (size_t axis = 0; axis < open; ++axis) open_dimension(state, axis);
  }
  void open_dimension(size_t state, size_t axis) {
    Dim& dim = states_[state].shape[axis];
    dim = n_.new_symbol(fmt::format("{}_{}_d{}_before", n_.name(), state, axis));
    entry_.push_back(dim);
  }

  BodyStart begin(Function& function) {
    turn_ = {};
    turn_.number = function.add_parameter("turn", {DType::kI64, {}});
    n_.set_turn(turn_.number);
    turn_.condition = function.add_parameter("goes_on", {DType::kBool, {}});
    std::vector<Value*> tensors;
    for (size_t i = 0; i < states_.size(); ++i) tensors.push_back(function.add_parameter(given_[i]->name, states_[i]));
    turn_.states = carried_back(kinds_, tensors);
    for (const Value* other : parts_.others)
      turn_.others.push_back(function.add_parameter(other->name, other->type));
    return {parts_.arguments(turn_), parts_.gives_condition ? nullptr : turn_.condition};
  }

  /// The body's outputs; some only where states are other than they were taken for.
  std::vector<Value*> end(std::vector<Binding> outputs) {
    if (parts_.results) outputs = parts_.results(turn_, std::move(outputs));
    const size_t first = parts_.gives_condition ? 1 : 0;
    if (outputs.size() < first + kinds_.size())
      n_.fail("its body has {} outputs for {} values that turns hand on", outputs.size() - first, kinds_.size());
    std::vector<Value*> values;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool is_state = i >= first && i < first + kinds_.size();
      if (!is_state) {
        values.push_back(n_.data_of(outputs[i]));
        continue;
      }
      Carried& kind = kinds_[i - first];
      Carried both = joined(n_, kind, carried_as(n_, outputs[i]));
      kinds_changed_ = kinds_changed_ || !(both == kind);
      kind = std::move(both);
      const std::vector<Value*> tensors = carry(n_, outputs[i], kind);
      values.insert(values.end(), tensors.begin(), tensors.end());
    }
    return values;
  }

  /// Makes symbols of the states' dimensions that a turn changes; false if none is left.
  bool widen(const ImportedBody& imported) {
    const Function& body = *imported.function;
    bool widened = false;
    for (size_t i = 0; i < states_.size(); ++i) {
      const TensorType& after = body.outputs[1 + i]->type;
      const TensorType& before = states_[i];
      if (after.dtype == before.dtype && after.rank() != before.rank() && takes_rank(i, after.rank())) {
        widened = true;
        continue;
      }
      if (after.dtype != before.dtype || after.rank() != before.rank())
        n_.unsupported(UnsupportedKind::kControlFlow, "a value that changes its rank or element type from turn to turn");
      for (size_t d = 0; d < before.shape.size(); ++d) {
        if (before.shape[d] == after.shape[d] || is_entry(before.shape[d])) continue;
        open_dimension(i, d);
        widened = true;
      }
    }
    return widened;
  }
  /// One element before the first turn takes the rank of what turns give, once: exporters begin with a number
  /// where nothing is defined yet, and what broadcasts reads either alike.
  bool takes_rank(size_t state, int rank) {
    Value*& given = given_[state];
    const bool is_lone = element_count(given->type.shape) == Dim(1) && states_[state] == given->type;
    if (!is_lone || !ranks_taken_.insert(state).second) return false;
    given = n_.reshape(given, Shape(static_cast<size_t>(rank), Dim(1)));
    states_[state] = given->type;
    return true;
  }
  bool is_entry(const Dim& dim) const { return std::ranges::find(entry_, dim) != entry_.end(); }

  /// Whether no turn ends the loop.
  bool always_goes_on(const Function& body) const {
    if (parts_.condition != nullptr && !is_true(*parts_.condition)) return false;
    const Value* condition = body.outputs[0];
    while (condition->producer != nullptr &&
           (condition->producer->is(op::copy) || condition->producer->is(op::identity) ||
            condition->producer->is(op::reshape)))
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

  std::vector<Binding> add_node(const ImportedBody& body) {
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
    for (const auto* list : {&std::as_const(given_), &parts_.others, &body.captured})
      inputs.insert(inputs.end(), list->begin(), list->end());
    const std::vector<Value*>& results =
        n_.add_control(op::loop, attrs, std::move(inputs), std::move(types), {body})->results;
    std::vector<Binding> bindings = carried_back(kinds_, std::span(results).first(given_.size()));
    for (size_t i = given_.size(); i < results.size(); ++i) bindings.emplace_back().value = results[i];
    return bindings;
  }

  NodeImport& n_;
  const onnx::GraphProto& graph_;
  const LoopParts& parts_;
  std::vector<Carried> kinds_;      ///< of the states
  bool kinds_changed_ = false;      ///< by the turn that was converted last
  std::vector<Value*> given_;       ///< the states' tensors before the first turn
  std::vector<TensorType> states_;  ///< of these, as the body takes them
  std::set<size_t> ranks_taken_;    ///< states that have another rank than they were given with
  TurnValues turn_;                 ///< of the body that is converted
  Shape entry_, symbols_;
};

}  // namespace

std::vector<Binding> add_loop(NodeImport& n, const onnx::GraphProto& body, const LoopParts& parts) {
  return LoopImport(n, body, parts).run();
}

}  // namespace gantry
