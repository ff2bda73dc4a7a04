// LSTM, GRU and RNN: the input projections of all steps become one matrix product, the steps a recurrence op.
#include <algorithm>
#include <cctype>

#include "host/onnx/converters.h"
#include "host/onnx/recurrent_steps.h"
#include "host/onnx/required_dims.h"
#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/recurrent.h"

namespace gantry {
namespace {

/// Of one recurrent layer, in f32: (directions, gates * hidden, features) and (directions, gates * hidden,
/// hidden).
struct Weights {
  Value *input = nullptr, *recurrent = nullptr;
};

/// One recurrent layer as ONNX describes it, brought to sequence-major layout.
struct Layer {
  NodeImport& n;
  int64_t gates;
  int64_t hidden = 0, directions = 1;
  bool batch_first = false;
  Weights weights;
  Value* x = nullptr;  ///< (steps, batch, features)
  Dim batch;
  bool linear_before_reset = false;

  Layer(NodeImport& node, int64_t gate_count);

  bool reversed() const { return n.text("direction", "forward") == "reverse"; }
  /// Input i in f32, which begins with an axis of directions.
  Value* by_direction(size_t i) const;
  Value* projection();
  Value* recurrent_weight() { return n.transpose(weights.recurrent, {0, 2, 1}); }
  Value* initial_state(size_t input);
  Value* bias();
  /// Sets Y and Y_h (and Y_c).
  void finish(const std::vector<Value*>& results);
};

/// Input i in f32, in which recurrences compute.
Value* wide_input(NodeImport& n, size_t i) {
  Value* v = n.input(i);
  const bool narrow = v->type.dtype == DType::kF16 || v->type.dtype == DType::kBF16;
  return narrow ? n.cast(v, DType::kF32) : v;
}

Layer::Layer(NodeImport& node, int64_t gate_count)
    : n(node), gates(gate_count), weights{wide_input(node, 1), wide_input(node, 2)} {
  const TensorType r = weights.recurrent->type, w = weights.input->type;
  if (r.rank() != 3 || w.rank() != 3)
    n.fail("its weights {} and {} should have 3 dimensions", w.str(), r.str());
  if (!constant_shape(r.shape))
    n.unsupported(UnsupportedKind::kRunTimeValue, "dimensions of its recurrent weight");
  directions = r.shape[0].value();
  hidden = r.shape[2].value();
  std::string direction = n.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    n.fail("its direction is unknown: '{}'", direction);
  if (directions != (direction == "bidirectional" ? 2 : 1))
    n.fail("its weights have {} directions, which '{}' contradicts", directions, direction);
  if (n.integer("hidden_size", hidden) != hidden)
    n.fail("its hidden_size contradicts the weight {}", r.str());
  if (hidden < 1 || !(r.shape[1] == Dim(gates * hidden)))
    n.fail("its recurrent weight {} should have {} rows", r.str(), gates * hidden);
  if (!(w.shape[0] == Dim(directions)))
    n.fail("its input {} should begin with {} directions", w.str(), directions);
  batch_first = n.integer("layout", 0) != 0;
  x = wide_input(n, 0);
  if (x->type.rank() != 3) n.fail("its data {} should have 3 dimensions", x->type.str());
  if (batch_first) x = n.transpose(x, {1, 0, 2});
  batch = x->type.shape[1];
}

Value* Layer::by_direction(size_t i) const {
  Value* v = wide_input(n, i);
  if (v->type.rank() < 1 || !(v->type.shape[0] == Dim(directions)))
    n.fail("its input {} should begin with {} directions", v->type.str(), directions);
  return v;
}

Value* Layer::bias() {
  const int64_t count = gates * hidden;
  Value* biases = by_direction(3);
  const TensorType type = biases->type;
  if (type.rank() != 2) n.fail("its biases {} should have 2 dimensions", type.str());
  require_equal(n, type.shape[1], 2 * count, "its biases {} should have {} columns", type.str(), 2 * count);
  Value *input = n.slice(biases, 1, 0, count), *recurrent = n.slice(biases, 1, count, 2 * count);
  // The recurrent bias of the last gate goes inside the reset.
  if (linear_before_reset) {
    const int64_t split = 2 * hidden;
    auto attrs = std::make_shared<AxisAttrs>();
    attrs->axis = 1;
    Value* summed = n.add(op::add, {n.slice(input, 1, 0, split), n.slice(recurrent, 1, 0, split)});
    input = n.add(op::concatenate, {summed, n.slice(input, 1, split, count)}, attrs);
  } else {
    input = n.add(op::add, {input, recurrent});
  }
  return n.reshape(input, {directions * count});
}

Value* Layer::projection() {
  Value* weight = weights.input;
  const Dim features = weight->type.shape[2];
  const bool constant = n.constant(1) != nullptr;
  weight = n.transpose(n.reshape(weight, {directions * gates * hidden, features}), {1, 0});
  Value* y = nullptr;
  if (constant) {
    auto attrs = std::make_shared<DenseAttrs>();
    attrs->units = directions * gates * hidden;
    y = n.add(nn::dense, {x, weight}, attrs);
  } else {
    y = n.add(op::matmul, {x, weight});
  }
  return n.has(3) ? n.add(op::add, {y, bias()}) : y;
}

Value* Layer::initial_state(size_t input) {
  if (!n.has(input)) return n.broadcast(n.scalar(DType::kF32, 0), {directions, batch, hidden});
  if (!batch_first) return by_direction(input);
  Value* v = wide_input(n, input);  // (batch, directions, hidden)
  if (v->type.rank() != 3) n.fail("its initial state {} should have 3 dimensions", v->type.str());
  return n.transpose(v, {1, 0, 2});
}

void Layer::finish(const std::vector<Value*>& results) {
  const DType dtype = n.type(0).dtype;
  auto set = [&](size_t i, Value* v) { n.set(i, v->type.dtype == dtype ? v : n.cast(v, dtype)); };
  if (n.wants(0)) set(0, batch_first ? n.transpose(results[0], {2, 0, 1, 3}) : results[0]);
  for (size_t s = 1; s < results.size(); ++s) {
    if (n.wants(s)) set(s, batch_first ? n.transpose(results[s], {1, 0, 2}) : results[s]);
  }
}

void convert_lstm(NodeImport& n) {
  if (is_unusual_cell(n, {"sigmoid", "tanh", "tanh"})) return convert_recurrent_steps(n);
  Layer layer(n, 4);
  auto attrs = std::make_shared<RecurrenceAttrs>();
  attrs->reverse = layer.reversed();
  attrs->couple_gates = n.integer("input_forget", 0) != 0;
  std::vector<Value*> inputs{layer.projection(), layer.recurrent_weight(), layer.initial_state(5),
                             layer.initial_state(6), n.optional_input(4)};
  if (n.has(7)) inputs.push_back(layer.by_direction(7));
  layer.finish(n.add_many(nn::lstm_recurrence, inputs, attrs));
}

void convert_gru(NodeImport& n) {
  if (is_unusual_cell(n, {"sigmoid", "tanh"})) return convert_recurrent_steps(n);
  Layer layer(n, 3);
  layer.linear_before_reset = n.integer("linear_before_reset", 0) != 0;
  auto attrs = std::make_shared<RecurrenceAttrs>();
  attrs->reverse = layer.reversed();
  attrs->linear_before_reset = layer.linear_before_reset;
  std::vector<Value*> inputs{layer.projection(), layer.recurrent_weight(), layer.initial_state(5),
                             n.optional_input(4)};
  if (layer.linear_before_reset && n.has(3))
    inputs.push_back(n.slice(layer.by_direction(3), 1, 5 * layer.hidden, 6 * layer.hidden));
  layer.finish(n.add_many(nn::gru_recurrence, inputs, attrs));
}

void convert_rnn(NodeImport& n) {
  const std::vector<std::string> given = activation_names(n);
  const bool relu = !given.empty() && given[0] == "relu";
  if (is_unusual_cell(n, {relu ? "relu" : "tanh"})) return convert_recurrent_steps(n);
  Layer layer(n, 1);
  auto attrs = std::make_shared<RecurrenceAttrs>();
  attrs->reverse = layer.reversed();
  attrs->relu = relu;
  layer.finish(n.add_many(nn::rnn_recurrence,
      {layer.projection(), layer.recurrent_weight(), layer.initial_state(5), n.optional_input(4)}, attrs));
}

}  // namespace

void add_recurrent_converters(ConverterTable& table) {
  table.push_back({"LSTM", 1, convert_lstm});
  table.push_back({"GRU", 1, convert_gru});
  table.push_back({"RNN", 1, convert_rnn});
}

}  // namespace gantry
