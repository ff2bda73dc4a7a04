// Type rules and declarations of the recurrences; their loop nests are in recurrent_loops.cpp.
#include "host/ops/recurrent.h"

#include <algorithm>

#include "host/ops/families.h"
#include "host/ops/recurrent_loops.h"
#include "host/ops/support.h"
#include "host/support/divide.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require;

const Dim& units_of(const Node& node) {
  return node.attrs_as<RecurrenceAttrs>().form.weight_block > 0 ? input_type(node, 2).shape[2]
                                                                : input_type(node, 1).shape[1];
}

int64_t packed_columns(const std::vector<int64_t>& runs) {
  int64_t columns = 0;
  for (int64_t run : runs) columns += padded_run(run);
  return columns;
}

/// Checks what all recurrences share; `states` initial states follow the recurrent weight, then lengths.
std::vector<TensorType> infer_recurrence(const Node& node, Function& function, int64_t gates, size_t states) {
  const TensorType &projection = input_type(node, 0), &weight = input_type(node, 1);
  ops::require_dtype(projection.dtype == DType::kF32, projection.dtype);
  const auto& attrs = node.attrs_as<RecurrenceAttrs>();
  const bool packed = attrs.form.weight_block > 0;
  const TensorType& initial = input_type(node, 2);
  require(projection.rank() == 3 && weight.rank() == (packed ? 2 : 3) && initial.rank() == 3,
          "projection {}, recurrent weight {} and initial state {} have wrong ranks", projection.str(),
          weight.str(), initial.str());
  const Dim &directions = weight.shape[0], &hidden = units_of(node);
  ops::require_known(hidden.is_constant(), "number of hidden units");
  require(hidden.value() > 0, "there are no hidden units");
  require(directions == Dim(1) || (directions == Dim(2) && !attrs.reverse),
          "there are one direction or two, of which the second one is reversed");
  require(attrs.form.weight_block >= 0 && attrs.form.weight_block % kRecurrentLanes == 0 &&
              attrs.form.sequences >= 1 && (packed || attrs.form.sequences == 1),
          "a recurrent weight is packed in strips of multiples of {} columns, for one sequence or more",
          kRecurrentLanes);
  if (packed) {
    ops::unify(weight.shape[1], hidden * packed_columns(recurrent_runs(node, hidden.value())),
               function, node, "elements of the packed recurrent weight");
  } else {
    ops::unify(weight.shape[2], hidden * gates, function, node, "columns of the recurrent weight");
  }
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
  const Dim& hidden = units_of(node);
  require(type.dtype == DType::kF32 && type.rank() == 2, "{} must be a vector of f32 a direction", what);
  ops::unify(type.shape[0], input_type(node, 1).shape[0], function, node, what);
  ops::unify(type.shape[1], hidden * count, function, node, what);
}

Dim recurrence_flops(const Node& node) {
  const Dim& hidden = units_of(node);
  return element_count(node.inputs[0]->type.shape) * hidden * 2;
}

std::vector<Tensor> run(const Node& node, const std::vector<Tensor>& in, RecurrenceLoops::Kind kind) {
  RecurrenceLoops loops;
  loops.kind = kind;
  loops.attrs = node.attrs_as<RecurrenceAttrs>();
  loops.directions = input_type(node, 1).shape[0].value();
  loops.hidden = units_of(node).value();
  loops.runs = recurrent_runs(node, loops.hidden);
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
      present, shapes, dtypes, [loops](LoopBuilder& b) { loops.build(b); }, "recurrence",
      [loops](LoopBuilder& b) { loops.build_launches(b); });
}

}  // namespace

std::vector<int64_t> recurrent_runs(const Node& node, int64_t units) {
  if (node.is(nn::lstm_recurrence)) return {4 * units};
  // The third gate of a GRU may wait for the second one.
  if (node.is(nn::gru_recurrence)) return {2 * units, units};
  return node.is(nn::rnn_recurrence) ? std::vector{units} : std::vector<int64_t>{};
}

int64_t padded_run(int64_t columns) {
  return ceil_div(columns, kRecurrentLanes) * kRecurrentLanes;
}

ConstantPtr packed_recurrent_weight(const ConstantData& weight, const std::vector<int64_t>& runs,
                                    int64_t block) {
  const int64_t directions = weight.type.shape[0].value(), hidden = weight.type.shape[1].value(),
                columns = weight.type.shape[2].value();
  std::byte* bytes = nullptr;
  auto packed = allocate_constant({weight.type.dtype, {directions, hidden * packed_columns(runs)}}, &bytes);
  auto* to = reinterpret_cast<float*>(bytes);
  for (int64_t d = 0; d < directions; ++d) {
    const float* from = weight.as<float>() + d * hidden * columns;
    for (int64_t run : runs) {
      for (int64_t strip = 0; strip < padded_run(run); strip += block) {
        const int64_t width = std::min(block, padded_run(run) - strip), real = std::min(width, run - strip);
        for (int64_t k = 0; k < hidden; ++k, to += width) {
          std::copy_n(from + k * columns + strip, real, to);
          std::fill_n(to + real, width - real, 0.0f);
        }
      }
      from += run;
    }
  }
  return packed;
}

void add_recurrent_ops(OpSet& set) {
  using Kind = RecurrenceLoops::Kind;
  auto add = [&](const OpHandle& handle, std::vector<std::string> inputs, int optional, auto infer, Kind kind) {
    OpDef op = ops::define(handle, FusionClass::kOpaque, LayoutBehaviour::kNone,
                                            std::move(inputs), optional);
    op.infer = infer;
    op.compute = [kind](const Node& node, const std::vector<Tensor>& in) { return run(node, in, kind); };
    op.flops = recurrence_flops;
    set.add(std::move(op));
  };
  add(
      nn::lstm_recurrence, {"projection", "recurrent", "initial_h", "initial_c", "lengths", "peepholes"}, 2,
      [](const Node& node, Function& function) {
        auto results = infer_recurrence(node, function, 4, 2);
        check_vector(node, function, 5, 3, "peepholes");
        return results;
      },
      Kind::kLstm);
  add(
      nn::gru_recurrence, {"projection", "recurrent", "initial_h", "lengths", "recurrent_bias"}, 2,
      [](const Node& node, Function& function) {
        auto results = infer_recurrence(node, function, 3, 1);
        check_vector(node, function, 4, 1, "recurrent bias");
        return results;
      },
      Kind::kGru);
  add(
      nn::rnn_recurrence, {"projection", "recurrent", "initial_h", "lengths"}, 1,
      [](const Node& node, Function& function) { return infer_recurrence(node, function, 1, 1); },
      Kind::kRnn);
}

}  // namespace gantry
