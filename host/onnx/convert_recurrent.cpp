// LSTM, GRU and RNN: the input projections of all steps become one matrix product, the steps a recurrence op.
#include <algorithm>
#include <cctype>

#include "host/onnx/converters.h"
#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/ops/recurrent.h"

namespace gantry {
namespace {

/// One recurrent layer as ONNX describes it, brought to sequence-major layout.
struct Layer {
  NodeImport& n;
  int64_t gates;
  int64_t hidden = 0, directions = 1;
  bool batch_first = false;
  Value* x = nullptr;  ///< (steps, batch, features)
  Dim batch;
  bool linear_before_reset = false;

  Layer(NodeImport& node, int64_t gate_count);

  bool reversed(int64_t d) const;
  /// Input i without its direction axis.
  Value* of_direction(size_t i, int64_t d);
  Value* concat(std::vector<Value*> parts, int64_t axis) const;
  Value* projection(int64_t d);
  Value* recurrent_weight(int64_t d) { return n.transpose(of_direction(2, d), {1, 0}); }
  Value* initial_state(size_t input, int64_t d);
  Value* bias(int64_t d);
  Value* vector_part(Value* v, int64_t begin, int64_t end) { return n.slice(v, 0, begin, end); }
  void check_activations(const std::vector<std::string>& expected) const;
  /// Sets Y from a value a direction, and Y_h (and Y_c).
  void finish(const std::vector<std::vector<Value*>>& results);
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

Layer::Layer(NodeImport& node, int64_t gate_count) : n(node), gates(gate_count) {
  TensorType r = n.type(2), w = n.type(1);
  if (r.rank() != 3 || w.rank() != 3 || !constant_shape(r.shape))
    n.fail("its weights {} and {} should have 3 known dimensions", w.str(), r.str());
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
  if (n.number("clip", 0) > 0) n.fail("clip is not supported");
  batch_first = n.integer("layout", 0) != 0;
  x = n.input(0);
  if (x->type.rank() != 3) n.fail("its data {} should have 3 dimensions", x->type.str());
  if (batch_first) x = n.transpose(x, {1, 0, 2});
  batch = x->type.shape[1];
}

bool Layer::reversed(int64_t d) const {
  return d == 1 || n.text("direction", "forward") == "reverse";
}

Value* Layer::of_direction(size_t i, int64_t d) {
  Value* v = n.input(i);
  if (v->type.rank() < 1 || !(v->type.shape[0] == Dim(directions)))
    n.fail("its input {} should begin with {} directions", v->type.str(), directions);
  if (directions > 1) v = n.slice(v, 0, d, d + 1);
  return n.reshape(v, {v->type.shape.begin() + 1, v->type.shape.end()});
}

Value* Layer::concat(std::vector<Value*> parts, int64_t axis) const {
  if (parts.size() == 1) return parts[0];
  auto attrs = std::make_shared<AxisAttrs>();
  attrs->axis = axis;
  return n.add("concatenate", std::move(parts), attrs);
}

Value* Layer::bias(int64_t d) {
  Value* both = of_direction(3, d);
  int64_t count = gates * hidden;
  Value *input = vector_part(both, 0, count), *recurrent = vector_part(both, count, 2 * count);
  if (!linear_before_reset) return n.add("add", {input, recurrent});
  // The recurrent bias of the last gate goes inside the reset.
  int64_t split = 2 * hidden;
  Value* summed = n.add("add", {vector_part(input, 0, split), vector_part(recurrent, 0, split)});
  return concat({summed, vector_part(input, split, count)}, 0);
}

Value* Layer::projection(int64_t d) {
  bool constant = n.constant(1) != nullptr;
  Value* weight = n.transpose(of_direction(1, d), {1, 0});
  Value* y = nullptr;
  if (constant) {
    auto attrs = std::make_shared<DenseAttrs>();
    attrs->units = gates * hidden;
    y = n.add("nn.dense", {x, weight}, attrs);
  } else {
    y = n.add("matmul", {x, weight});
  }
  return n.has(3) ? n.add("add", {y, bias(d)}) : y;
}

Value* Layer::initial_state(size_t input, int64_t d) {
  if (!n.has(input)) return n.broadcast(n.scalar(DType::kF32, 0), {batch, hidden});
  if (!batch_first) return of_direction(input, d);
  Value* v = n.input(input);  // (batch, directions, hidden)
  if (v->type.rank() != 3) n.fail("its initial state {} should have 3 dimensions", v->type.str());
  return n.reshape(n.slice(v, 1, d, d + 1), {batch, hidden});
}

void Layer::check_activations(const std::vector<std::string>& expected) const {
  std::vector<std::string> given = n.text_list("activations");
  if (given.empty()) return;
  if (given.size() != expected.size() * static_cast<size_t>(directions))
    n.fail("should have {} activations", expected.size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (lower(given[i]) != expected[i % expected.size()]) {
      n.fail("the activation {} is not supported: only the usual {}", given[i],
             expected[i % expected.size()]);
    }
  }
}

void Layer::finish(const std::vector<std::vector<Value*>>& results) {
  std::vector<Value*> steps;
  for (const auto& direction : results) {
    Shape shape = direction[0]->type.shape;  // (steps, batch, hidden)
    shape.insert(shape.begin() + (batch_first ? 2 : 1), 1);
    steps.push_back(n.reshape(direction[0], shape));
  }
  if (n.wants(0)) {
    Value* y = concat(steps, batch_first ? 2 : 1);
    n.set(0, batch_first ? n.transpose(y, {1, 0, 2, 3}) : y);
  }
  for (size_t s = 1; s < results[0].size(); ++s) {
    if (!n.wants(s)) continue;
    std::vector<Value*> states;
    for (const auto& direction : results) {
      states.push_back(
          n.reshape(direction[s], batch_first ? Shape{batch, 1, hidden} : Shape{1, batch, hidden}));
    }
    n.set(s, concat(states, batch_first ? 1 : 0));
  }
}

void convert_lstm(NodeImport& n) {
  Layer layer(n, 4);
  layer.check_activations({"sigmoid", "tanh", "tanh"});
  std::vector<std::vector<Value*>> results;
  for (int64_t d = 0; d < layer.directions; ++d) {
    auto attrs = std::make_shared<RecurrenceAttrs>();
    attrs->reverse = layer.reversed(d);
    attrs->couple_gates = n.integer("input_forget", 0) != 0;
    std::vector<Value*> inputs{layer.projection(d), layer.recurrent_weight(d), layer.initial_state(5, d),
                               layer.initial_state(6, d), n.optional_input(4)};
    if (n.has(7)) inputs.push_back(layer.of_direction(7, d));
    results.push_back(n.add_many("nn.lstm_recurrence", inputs, attrs));
  }
  layer.finish(results);
}

void convert_gru(NodeImport& n) {
  Layer layer(n, 3);
  layer.check_activations({"sigmoid", "tanh"});
  layer.linear_before_reset = n.integer("linear_before_reset", 0) != 0;
  std::vector<std::vector<Value*>> results;
  for (int64_t d = 0; d < layer.directions; ++d) {
    auto attrs = std::make_shared<RecurrenceAttrs>();
    attrs->reverse = layer.reversed(d);
    attrs->linear_before_reset = layer.linear_before_reset;
    std::vector<Value*> inputs{layer.projection(d), layer.recurrent_weight(d), layer.initial_state(5, d),
                               n.optional_input(4)};
    if (layer.linear_before_reset && n.has(3)) {
      inputs.push_back(layer.vector_part(layer.of_direction(3, d), 5 * layer.hidden, 6 * layer.hidden));
    }
    results.push_back(n.add_many("nn.gru_recurrence", inputs, attrs));
  }
  layer.finish(results);
}

void convert_rnn(NodeImport& n) {
  Layer layer(n, 1);
  std::vector<std::string> given = n.text_list("activations");
  bool relu = !given.empty() && lower(given[0]) == "relu";
  layer.check_activations({relu ? "relu" : "tanh"});
  std::vector<std::vector<Value*>> results;
  for (int64_t d = 0; d < layer.directions; ++d) {
    auto attrs = std::make_shared<RecurrenceAttrs>();
    attrs->reverse = layer.reversed(d);
    attrs->relu = relu;
    results.push_back(n.add_many(
        "nn.rnn_recurrence",
        {layer.projection(d), layer.recurrent_weight(d), layer.initial_state(5, d), n.optional_input(4)},
        attrs));
  }
  layer.finish(results);
}

}  // namespace

void add_recurrent_converters(ConverterTable& table) {
  table.push_back({"LSTM", 1, convert_lstm});
  table.push_back({"GRU", 3, convert_gru});
  table.push_back({"RNN", 1, convert_rnn});
}

}  // namespace gantry
