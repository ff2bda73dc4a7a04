// Loop: its body is a function that the running program calls again and again.
#include <onnx/onnx_pb.h>

#include "host/onnx/converters.h"
#include "host/onnx/dim_bounds.h"
#include "host/onnx/importer.h"
#include "host/onnx/loop_body.h"
#include "host/onnx/node_reads.h"
#include "host/onnx/term.h"

namespace gantry {
namespace {

constexpr int64_t kMostTurns = 512;  // that are written out

// Of a body's inputs.
constexpr size_t kNumber = 0, kCondition = 1;

/// Whether a body declares its number or its condition as a vector of one element, which is another rank for
/// what it computes of them.
bool is_vector(const onnx::GraphProto& body, size_t input) {
  const std::vector<const onnx::ValueInfoProto*> inputs = given_inputs(body);
  if (input >= inputs.size()) return false;
  const onnx::TypeProto& type = inputs[input]->type();
  return type.has_tensor_type() && type.tensor_type().has_shape() &&
         type.tensor_type().shape().dim_size() == 1;
}

/// What a body's number or condition stands for where it is known, and where only the running model knows it.
Binding known_argument(const onnx::GraphProto& body, size_t input, int64_t value) {
  const DType dtype = input == kNumber ? DType::kI64 : DType::kBool;
  Binding binding;
  binding.contents =
      is_vector(body, input) ? Contents::vector({value}, dtype) : Contents::scalar(value, dtype);
  return binding;
}
Binding argument(NodeImport& n, const onnx::GraphProto& body, size_t input, Value* scalar) {
  return bound_to(is_vector(body, input) ? n.reshape(scalar, {1}) : scalar);
}

/// The only element, if it is known.
std::optional<int64_t> known_element(const std::optional<Contents>& contents) {
  if (!contents || contents->dims.size() != 1) return std::nullopt;
  return contents->dims[0].constant();
}
std::optional<int64_t> known_element(const Binding& binding) {
  if (binding.contents) return known_element(binding.contents);
  const ConstantPtr constant = binding.constant                                   ? binding.constant
                               : binding.value != nullptr && binding.value->is_constant() ? binding.value->constant
                                                                                  : nullptr;
  return constant ? known_element(contents_of(*constant)) : std::nullopt;
}

/// Whether the loop begins with sequences or optionals, and all are known.
bool hands_on_known_structures(NodeImport& n) {
  bool any = false;
  for (size_t i = 2; i < n.input_count(); ++i) {
    const Binding& state = n.binding(i);
    if (state.late || state.has_value != nullptr) return false;
    any = any || state.sequence || state.absent;
  }
  return any;
}

/// A known number of turns, one behind the other: what they hand on is known when the model is read. False where it
/// turns out that their number is not, or that nothing would be gathered: nothing has been set.
bool write_out(NodeImport& n, const onnx::GraphProto& body) {
  const auto count = n.has(0) ? known_element(n.contents(0)) : kMostTurns;
  std::optional<int64_t> goes_on = n.has(1) ? known_element(n.contents(1)) : 1;
  if (!count || *count > kMostTurns || !goes_on) return false;
  std::vector<Binding> states;
  for (size_t i = 2; i < n.input_count(); ++i) states.push_back(n.binding(i));
  std::vector<std::vector<Term>> gathered(n.output_count() - states.size());
  if ((*goes_on == 0 || *count <= 0) && !gathered.empty()) return false;
  for (int64_t turn = 0; *goes_on != 0 && turn < *count; ++turn) {
    std::vector<Binding> arguments{known_argument(body, kNumber, turn), known_argument(body, kCondition, 1)};
    arguments.insert(arguments.end(), states.begin(), states.end());
    const WrittenTurn written(n, turn);
    const std::vector<Binding> made = n.call_with(body, std::move(arguments));
    goes_on = known_element(made.at(0));
    if (!goes_on || (!n.has(0) && turn + 1 == kMostTurns)) return false;
    const auto first_gathered = made.begin() + 1 + static_cast<std::ptrdiff_t>(states.size());
    states.assign(made.begin() + 1, first_gathered);
    for (size_t i = 0; i < gathered.size(); ++i)
      gathered[i].push_back(Term(n, n.data_of(first_gathered[static_cast<std::ptrdiff_t>(i)])).unsqueezed(0));
  }
  for (size_t i = 0; i < states.size(); ++i) n.set_binding(i, states[i]);
  for (size_t i = 0; i < gathered.size(); ++i) n.set(states.size() + i, concatenated(gathered[i], 0));
  return true;
}

/// What a loop begins with; tensors as data.
Binding state_of(NodeImport& n, size_t input) {
  const Binding& given = n.binding(input);
  if (given.sequence || given.late || given.absent || given.has_value != nullptr) return given;
  return bound_to(n.input(input));
}

void convert_loop(NodeImport& n) {
  const onnx::GraphProto& body = n.graph("body");
  if (body.output_size() < 1 || static_cast<size_t>(body.output_size()) - 1 != n.output_count() ||
      n.input_count() < 2 || n.output_count() + 2 < n.input_count())
    n.fail("its body has {} outputs, not {}", body.output_size(), n.output_count() + 1);
  if (hands_on_known_structures(n) && write_out(n, body)) return;
  LoopParts parts;
  if (n.has(0)) {
    parts.count = n.input(0);
    const auto known = n.contents(0);
    if (known && known->dims.size() == 1) parts.turns = larger(0, known->dims[0]);
  }
  const auto begins = n.has(1) ? n.contents(1) : std::nullopt;
  const bool surely = begins && begins->dims.size() == 1 && begins->dims[0].is_constant() && begins->dims[0].value() != 0;
  if (n.has(1) && !surely) parts.condition = n.input(1);
  for (size_t i = 2; i < n.input_count(); ++i) parts.states.push_back(state_of(n, i));
  parts.arguments = [&](const TurnValues& turn) {
    std::vector<Binding> arguments{argument(n, body, kNumber, turn.number),
                                   argument(n, body, kCondition, turn.condition)};
    arguments.insert(arguments.end(), turn.states.begin(), turn.states.end());
    return arguments;
  };
  std::vector<Binding> results = add_loop(n, body, parts);
  for (size_t i = 0; i < results.size(); ++i) n.set_binding(i, std::move(results[i]));
}

}  // namespace

void add_loop_converters(ConverterTable& table) {
  table.push_back({"Loop", 1, convert_loop});
}

}  // namespace gantry
