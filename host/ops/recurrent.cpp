// Type rules and declarations of the recurrences; their loop nests are in recurrent_loops.cpp.
#include "host/ops/recurrent.h"

#include "host/ops/families.h"
#include "host/ops/recurrent_loops.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require;

/// Checks what all recurrences share; `states` initial states follow the recurrent weight, then lengths.
std::vector<TensorType> infer_recurrence(const Node& node, Function& function, int64_t gates, size_t states) {
  const TensorType &projection = input_type(node, 0), &weight = input_type(node, 1);
  require(projection.dtype == DType::kF32, "computes in f32 only, not {}", name_of(projection.dtype));
  const auto& attrs = node.attrs_as<RecurrenceAttrs>();
  const bool packed = attrs.weight_block > 0;
  require(projection.rank() == 3 && weight.rank() == (packed ? 4 : 3),
          "projection {} and recurrent weight {} have wrong ranks", projection.str(), weight.str());
  const Dim &directions = weight.shape[0], &hidden = recurrent_units(attrs, weight);
  require(hidden.is_constant() && hidden.value() > 0, "the number of hidden units must be known");
  require(directions == Dim(1) || (directions == Dim(2) && !attrs.reverse),
          "there are one direction or two, of which the second one is reversed");
  require(
      !packed || (weight.shape[3] == Dim(attrs.weight_block) && attrs.weight_block % kRecurrentLanes == 0 &&
                  recurrent_columns(node.op->name, hidden.value()) % attrs.weight_block == 0),
      "the recurrent weight {} is not in blocks of {} columns", weight.str(), attrs.weight_block);
  ops::unify(packed ? weight.shape[1] * weight.shape[3] : weight.shape[2], hidden * gates, function, node,
             "columns of the recurrent weight");
  ops::unify(projection.shape[2], directions * hidden * gates, function, node, "columns of the projection");
  Shape state{directions, projection.shape[1], hidden};
  for (size_t i = 1; i < 2 + states; ++i) ops::require_same_dtype(node, 0, i);
  for (size_t i = 2; i < 2 + states; ++i) {
    require(input_type(node, i).rank() == 3, "an initial state must have the shape {}", to_string(state));
    for (size_t d = 0; d < 3; ++d)
      ops::unify(input_type(node, i).shape[d], state[d], function, node, "initial state");
  }
  if (ops::has_input(node, 2 + states)) {
    const TensorType& lengths = input_type(node, 2 + states);
    require(lengths.dtype == DType::kI32 && lengths.rank() == 1, "sequence lengths must be a vector of i32");
    ops::unify(lengths.shape[0], state[1], function, node, "number of sequence lengths");
  }
  std::vector<TensorType> results{
      {DType::kF32, {projection.shape[0], directions, projection.shape[1], hidden}}};
  for (size_t i = 0; i < states; ++i) results.push_back({DType::kF32, state});
  return results;
}

/// A further optional vector of `count` times the hidden units, a direction.
void check_vector(const Node& node, Function& function, size_t input, int64_t count, const char* what) {
  if (!ops::has_input(node, input)) return;
  const TensorType& type = input_type(node, input);
  const TensorType& weight = input_type(node, 1);
  const Dim& hidden = recurrent_units(node.attrs_as<RecurrenceAttrs>(), weight);
  require(type.dtype == DType::kF32 && type.rank() == 2, "{} must be a vector of f32 a direction", what);
  ops::unify(type.shape[0], weight.shape[0], function, node, what);
  ops::unify(type.shape[1], hidden * count, function, node, what);
}

Dim recurrence_flops(const Node& node) {
  const Dim& hidden = recurrent_units(node.attrs_as<RecurrenceAttrs>(), node.inputs[1]->type);
  return element_count(node.inputs[0]->type.shape) * hidden * 2;
}

std::vector<Tensor> run(const Node& node, const std::vector<Tensor>& in, RecurrenceLoops::Kind kind) {
  RecurrenceLoops loops;
  loops.kind = kind;
  loops.attrs = node.attrs_as<RecurrenceAttrs>();
  loops.directions = input_type(node, 1).shape[0].value();
  loops.hidden = recurrent_units(loops.attrs, input_type(node, 1)).value();
  loops.steps = in[0].shape()[0];
  loops.batch = in[0].shape()[1];
  std::vector<Tensor> present;
  for (size_t i = 0; i < in.size(); ++i) {
    loops.input_at.push_back(in[i] ? static_cast<int>(present.size()) : -1);
    if (in[i]) present.push_back(in[i]);
  }
  std::vector<std::vector<Expr>> shapes;
  for (const Value* result : node.results) shapes.push_back(to_exprs(result->type.shape));
  std::vector<DType> dtypes(shapes.size(), DType::kF32);
  return extern_kernel(
      present, shapes, dtypes, [loops](LoopBuilder& b) { loops.build(b); }, "recurrence", "recurrence",
      [loops](LoopBuilder& b) { loops.build_launches(b); });
}

}  // namespace

const Dim& recurrent_units(const RecurrenceAttrs& attrs, const TensorType& weight) {
  return weight.shape[attrs.weight_block > 0 ? 2 : 1];
}

int64_t recurrent_columns(std::string_view op, int64_t units) {
  if (op == "nn.lstm_recurrence") return 4 * units;
  // The third gate of a GRU waits for the second one.
  return op == "nn.gru_recurrence" || op == "nn.rnn_recurrence" ? units : 0;
}

void add_recurrent_ops(OpSet& set) {
  using Kind = RecurrenceLoops::Kind;
  auto add = [&](const char* name, std::vector<std::string> inputs, int optional, auto infer, Kind kind) {
    OpDef op = ops::define<RecurrenceAttrs>(name, FusionClass::kOpaque, LayoutBehaviour::kNone,
                                            std::move(inputs), optional);
    op.infer = infer;
    op.compute = [kind](const Node& node, const std::vector<Tensor>& in) { return run(node, in, kind); };
    op.flops = recurrence_flops;
    set.add(std::move(op));
  };
  add(
      "nn.lstm_recurrence", {"projection", "recurrent", "initial_h", "initial_c", "lengths", "peepholes"}, 2,
      [](const Node& node, Function& function) {
        auto results = infer_recurrence(node, function, 4, 2);
        check_vector(node, function, 5, 3, "peepholes");
        return results;
      },
      Kind::kLstm);
  add(
      "nn.gru_recurrence", {"projection", "recurrent", "initial_h", "lengths", "recurrent_bias"}, 2,
      [](const Node& node, Function& function) {
        auto results = infer_recurrence(node, function, 3, 1);
        check_vector(node, function, 4, 1, "recurrent bias");
        return results;
      },
      Kind::kGru);
  add(
      "nn.rnn_recurrence", {"projection", "recurrent", "initial_h", "lengths"}, 1,
      [](const Node& node, Function& function) { return infer_recurrence(node, function, 1, 1); },
      Kind::kRnn);
}

}  // namespace gantry
