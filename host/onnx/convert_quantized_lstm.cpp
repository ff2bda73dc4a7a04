// com.microsoft's DynamicQuantizeLSTM. Its weights are of 8 bits, and so is what they are multiplied with:
// the data of all steps have one scale, the state has one of its own in every step. A recurrence op, whose
// products are of floats, would drift from that by a hundredth in a few steps.
#include <onnx/onnx_pb.h>

#include "host/onnx/converters.h"
#include "host/onnx/loop_body.h"
#include "host/onnx/lstm_cell.h"
#include "host/onnx/matrix_product.h"
#include "host/onnx/quantize.h"
#include "host/onnx/quantized_product.h"
#include "host/onnx/recurrent_steps.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/term.h"

namespace gantry {
namespace {

constexpr size_t kData = 0, kWeight = 1, kRecurrent = 2, kBias = 3, kLengths = 4, kState = 5, kCell = 6,
                 kPeepholes = 7, kWeightScale = 8, kRecurrentScale = 10;  // zero points are behind the scales

Term of_direction(NodeImport& n, size_t input, int64_t d) {
  return Term::input(n, input).sliced(0, d, d + 1).squeezed(0);
}

/// As scaled_product, by a product of floats, of which targets that multiply bytes make one of bytes again
/// (multiply_bytes): on others a product of floats is faster than one of i32. Bytes are exact in every format
/// that precisions choose, and sums up to 2^24 in f32; in f16 they would overflow, so that nn.dense of data
/// that were i32 is not computed in it (host/forms/dense_packed.cpp).
Term product_in_floats(NodeImport& n, const Quantized& a, const Quantized& b) {
  const auto whole = [&](Value* data, Value* zero_point) {
    return n.cast(less_zero_point(n, data, zero_point), DType::kF32);
  };
  const Shape shape = b.data->type.shape;
  const Term sums(
      n, matrix_product(n, whole(a.data, a.zero_point), whole(b.data, of_columns(n, b.zero_point, shape))));
  return sums * (Term(n, a.scale) * Term(n, of_columns(n, b.scale, shape)));
}

/// One direction of the layer. Inputs are read where they are used: what is constant stays so in the body of
/// a loop.
struct Direction {
  NodeImport& n;
  int64_t index, hidden;
  bool backward;
  Dim steps, batch;

  /// A matrix of 8 bits, (rows, 4 * hidden); scale and zero point are one value, or one for each column.
  Quantized weight(size_t input, size_t scale) const {
    Value* zero_point = n.has(scale + 1) ? static_cast<Value*>(of_direction(n, scale + 1, index)) : nullptr;
    return {of_direction(n, input, index), of_direction(n, scale, index), zero_point};
  }
  /// Products of all steps with the input weight, (steps, batch, 4 * hidden), the first step to be taken
  /// first.
  Term projection() const {
    const Quantized data = dynamically_quantized(n, n.input(kData));
    const Term y(n, scaled_product(n, data, weight(kWeight, kWeightScale)));
    return backward ? y.strided(0, steps - 1, -1, -1) : y;
  }
  Term initial(size_t input) const {
    return n.has(input) ? of_direction(n, input, index) : Term::filled(n, DType::kF32, 0, {batch, hidden});
  }
};

/// Gates i o f c.
LstmState step(const Direction& d, const Term& projected, const LstmState& before) {
  NodeImport& n = d.n;
  const Quantized recurrent = d.weight(kRecurrent, kRecurrentScale);
  Term all = projected + product_in_floats(n, dynamically_quantized(n, before.h), recurrent);
  if (n.has(kBias)) {
    const Term bias = of_direction(n, kBias, d.index);
    all = all + (bias.sliced(0, 0, 4 * d.hidden) + bias.sliced(0, 4 * d.hidden, 8 * d.hidden));
  }
  LstmCell cell{d.hidden, n.integer("input_forget", 0) != 0, {}, sigmoid, tanh, tanh};
  if (n.has(kPeepholes)) cell.peepholes = of_direction(n, kPeepholes, d.index);
  return lstm_cell(cell, all, before.c);
}

struct Turn {
  LstmState after;
  Term shown;  ///< of the results, (batch, hidden)
};

/// The step that is taken as the `number`-th, an i64 of any shape with one element. Steps beyond a sequence
/// leave its state alone and show 0.
Turn take_turn(const Direction& d, const Term& number, const Term& projected, const LstmState& before) {
  LstmState after = step(d, projected, before);
  if (!d.n.has(kLengths)) return {after, after.h};
  const Term lengths = Term::input(d.n, kLengths).cast(DType::kI64).reshaped({d.batch, 1});
  const Term time = d.backward ? Term::dimensions(d.n, {d.steps}) - 1.0 - number : number;
  const Term counts = less(time, lengths);
  const Term shown = where(counts, after.h, 0);
  return {{where(counts, after.h, before.h), where(counts, after.c, before.c)}, shown};
}

struct DirectionResult {
  Term shown;  ///< (steps, batch, hidden), by time
  LstmState last;
};

DirectionResult run_direction(const Direction& d) {
  NodeImport& n = d.n;
  const LstmState first{d.initial(kState), d.initial(kCell)};
  const Term projected = d.projection();
  if (d.steps == Dim(1)) {
    const Turn only = take_turn(d, Term::number(n, DType::kI64, 0), projected.squeezed(0), first);
    return {only.shown.unsqueezed(0), only.after};
  }
  LoopParts parts;
  parts.turns = d.steps;
  parts.count = n.dims_as_data({d.steps});
  parts.states = {bound_to(first.h), bound_to(first.c)};
  parts.others = {projected};
  parts.gives_condition = false;
  parts.arguments = [](const TurnValues&) { return std::vector<Binding>(); };
  parts.results = [&](const TurnValues& turn, const std::vector<Binding>&) {
    const Term number(n, turn.number);
    const LstmState before{{n, n.data_of(turn.states[0])}, {n, n.data_of(turn.states[1])}};
    const Turn taken = take_turn(d, number, gather(Term(n, turn.others[0]), number, 0), before);
    return std::vector<Binding>{bound_to(taken.after.h), bound_to(taken.after.c), bound_to(taken.shown)};
  };
  static const onnx::GraphProto kNoNodes;  // results() makes the whole body
  const std::vector<Binding> made = add_loop(n, kNoNodes, parts);
  const auto term = [&](size_t i) { return Term(n, n.data_of(made[i])); };
  const Term shown = term(2);
  return {d.backward ? shown.strided(0, d.steps - 1, -1, -1) : shown, {term(0), term(1)}};
}

/// The number of directions, and the hidden size, of weights that fit each other.
std::pair<int64_t, int64_t> checked_sizes(NodeImport& n, const std::string& direction) {
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    n.fail("its direction is unknown: '{}'", direction);
  const Shape w = n.type(kWeight).shape, r = n.type(kRecurrent).shape;
  if (n.rank(kData) != 3 || w.size() != 3 || r.size() != 3)
    n.fail("its data and weights should have 3 dimensions");
  if (!constant_shape(r)) n.unsupported(UnsupportedKind::kRunTimeValue, "dimensions of its recurrent weight");
  const int64_t directions = direction == "bidirectional" ? 2 : 1, hidden = r[1].value();
  if (r[0].value() != directions || r[2].value() != 4 * hidden || n.integer("hidden_size", hidden) != hidden)
    n.fail("its recurrent weight {} does not fit its direction or hidden_size", to_string(r));
  if (!(w[0] == r[0]) || !(w[2] == r[2]))
    n.fail("its weights {} and {} do not fit each other", to_string(w), to_string(r));
  for (const size_t scale : {kWeightScale, kRecurrentScale}) {
    for (const size_t input : {scale, scale + 1}) {
      if (n.has(input) && n.rank(input) != 1 && n.rank(input) != 2)
        n.fail("its scale or zero point {} should have 1 or 2 dimensions", n.type(input).str());
    }
  }
  return {directions, hidden};
}

/// What the layer has of each direction is there, and vectors have as many elements as its cell reads.
void require_parts(NodeImport& n, int64_t directions, int64_t hidden) {
  for (const size_t input : {kBias, kState, kCell, kPeepholes, kWeightScale, kWeightScale + 1,
                             kRecurrentScale, kRecurrentScale + 1}) {
    if (!n.has(input)) continue;
    const TensorType type = n.type(input);
    if (type.rank() < 1) n.fail("its input {} should begin with {} directions", type.str(), directions);
    require_equal(n, type.shape[0], directions, "its input {} should begin with {} directions", type.str(),
                  directions);
    if (input != kBias && input != kPeepholes) continue;
    const int64_t columns = (input == kBias ? 8 : 3) * hidden;
    if (type.rank() != 2) n.fail("its input {} should have 2 dimensions", type.str());
    require_equal(n, type.shape[1], columns, "its input {} should have {} columns", type.str(), columns);
  }
}

void convert_dynamic_quantize_lstm(NodeImport& n) {
  if (is_unusual_cell(n, {"sigmoid", "tanh", "tanh"}))
    n.unsupported(UnsupportedKind::kAttribute, "activations other than Sigmoid, Tanh, Tanh, or a clip");
  const std::string direction = n.text("direction", "forward");
  const auto [directions, hidden] = checked_sizes(n, direction);
  require_parts(n, directions, hidden);
  const Shape data = n.type(kData).shape;
  std::vector<Term> shown, h, c;  // with the axis of directions
  for (int64_t d = 0; d < directions; ++d) {
    const bool backward = d == 1 || direction == "reverse";
    const DirectionResult result = run_direction({n, d, hidden, backward, data[0], data[1]});
    shown.push_back(result.shown.unsqueezed(1));
    h.push_back(result.last.h.unsqueezed(0));
    c.push_back(result.last.c.unsqueezed(0));
  }
  const auto set = [&](size_t i, const std::vector<Term>& parts, int64_t axis) {
    if (n.wants(i)) n.set(i, concatenated(parts, axis));
  };
  set(0, shown, 1);
  set(1, h, 0);
  set(2, c, 0);
}

}  // namespace

void add_quantized_lstm_converters(ConverterTable& table) {
  table.push_back({"DynamicQuantizeLSTM", 1, convert_dynamic_quantize_lstm, kMicrosoft});
}

}  // namespace gantry
