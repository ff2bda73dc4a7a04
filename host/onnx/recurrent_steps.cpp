#include "host/onnx/recurrent_steps.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>

#include "host/onnx/lstm_cell.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/term.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

constexpr int64_t kMostSteps = 1024;

using Activation = std::function<Term(const Term&)>;

/// An activation by its name in lower case, and the defaults of its alpha and beta where it has them.
struct Known {
  std::string_view name;
  std::optional<double> alpha, beta;
  Term (*apply)(const Term& x, double alpha, double beta);
};

template <const auto& op>
Term with_attributes(const Term& x, double alpha, double beta) {
  auto attrs = std::make_shared<ActivationAttrs>();
  attrs->alpha = alpha;
  attrs->beta = beta;
  return {x.node(), x.node().add(op, {x}, attrs)};
}
template <const auto& op>
Term plain(const Term& x, double, double) {
  return x.apply(op);
}

const Known kKnown[] = {
    {"relu", {}, {}, plain<nn::relu>},
    {"tanh", {}, {}, plain<op::tanh>},
    {"sigmoid", {}, {}, plain<op::sigmoid>},
    {"softsign", {}, {}, plain<nn::softsign>},
    {"softplus", {}, {}, plain<nn::softplus>},
    {"affine", 1.0, 0.0, [](const Term& x, double alpha, double beta) { return x * alpha + beta; }},
    {"scaledtanh", 1.0, 1.0, [](const Term& x, double alpha, double beta) { return tanh(x * beta) * alpha; }},
    {"leakyrelu", 0.01, {}, with_attributes<nn::leaky_relu>},
    {"thresholdedrelu", 1.0, {}, with_attributes<nn::thresholded_relu>},
    {"elu", 1.0, {}, with_attributes<nn::elu>},
    {"hardsigmoid", 0.2, 0.5, with_attributes<nn::hard_sigmoid>},
};

/// The activations of all directions one after the other. Lists of alphas and betas have an entry for each of
/// those that take one.
std::vector<Activation> read_activations(NodeImport& n, const std::vector<std::string>& usual,
                                         int64_t directions) {
  std::vector<std::string> names = activation_names(n);
  if (names.empty()) {
    for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), usual.begin(), usual.end());
  }
  if (names.size() != usual.size() * static_cast<size_t>(directions))
    n.fail("should have {} activations", usual.size() * static_cast<size_t>(directions));
  const std::vector<double> alphas = n.number_list("activation_alpha"),
                            betas = n.number_list("activation_beta");
  size_t alpha_at = 0, beta_at = 0;
  const auto next = [](const std::vector<double>& given, size_t& at, const std::optional<double>& otherwise) {
    if (!otherwise) return 0.0;
    return at < given.size() ? given[at++] : *otherwise;
  };
  std::vector<Activation> functions;
  for (const std::string& name : names) {
    const auto known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                    [&](const Known& entry) { return entry.name == name; });
    if (known == std::end(kKnown)) n.unsupported(UnsupportedKind::kAttribute, "the activation {}", name);
    const double alpha = next(alphas, alpha_at, known->alpha), beta = next(betas, beta_at, known->beta);
    functions.push_back([known, alpha, beta](const Term& x) { return known->apply(x, alpha, beta); });
  }
  return functions;
}

/// One direction of a layer.
struct Direction {
  NodeImport& n;
  Term recurrent;                     ///< (H, gates * H)
  std::optional<Term> own_bias;       ///< of the recurrent product, (gates * H)
  std::optional<Term> peepholes;      ///< (3 H): i o f
  std::vector<Activation> functions;  ///< f, g, h
  int64_t hidden;
  double clip = 0;

  /// The part of a gate, clipped, which an activation gets.
  Term gate(const Term& all, int64_t index) const {
    return all.sliced(-1, index * hidden, (index + 1) * hidden);
  }
  Term bounded(const Term& x) const { return clip > 0 ? maximum(minimum(x, clip), -clip) : x; }
};

struct State {
  Term h;
  std::optional<Term> c;
};

/// Gates i o f c.
State lstm_step(const Direction& d, const Term& projected, const State& before) {
  Term all = projected + matmul(before.h, d.recurrent);
  if (d.own_bias) all = all + *d.own_bias;
  const auto clipped = [&](size_t function) {
    return [&d, function](const Term& x) { return d.functions[function](d.bounded(x)); };
  };
  const LstmCell cell{d.hidden,      d.n.integer("input_forget", 0) != 0, d.peepholes, clipped(0), clipped(1),
                      d.functions[2]};
  const LstmState after = lstm_cell(cell, all, *before.c);
  return {after.h, after.c};
}

/// Cho's cell; gates z r h.
State gru_step(const Direction& d, const Term& projected, const State& before) {
  const bool after = d.n.integer("linear_before_reset", 0) != 0;
  const Term gates = d.recurrent.sliced(1, 0, 2 * d.hidden),
             candidate = d.recurrent.sliced(1, 2 * d.hidden, 3 * d.hidden);
  Term both = projected.sliced(-1, 0, 2 * d.hidden) + matmul(before.h, gates);
  if (d.own_bias) both = both + d.own_bias->sliced(0, 0, 2 * d.hidden);
  const Term z = d.functions[0](d.bounded(d.gate(both, 0))), r = d.functions[0](d.bounded(d.gate(both, 1)));
  Term inner = matmul(after ? before.h : r * before.h, candidate);
  if (d.own_bias) inner = inner + d.gate(*d.own_bias, 2);
  const Term h = d.functions[1](d.bounded(d.gate(projected, 2) + (after ? r * inner : inner)));
  return {(1.0 - z) * h + z * before.h, {}};
}

State rnn_step(const Direction& d, const Term& projected, const State& before) {
  Term all = projected + matmul(before.h, d.recurrent);
  if (d.own_bias) all = all + *d.own_bias;
  return {d.functions[0](d.bounded(all)), {}};
}

struct Cell {
  std::string_view op;
  int64_t gates;
  std::vector<std::string> usual;
  State (*step)(const Direction&, const Term&, const State&);
};
const Cell& cell_of(NodeImport& n) {
  static const Cell kCells[] = {{"LSTM", 4, {"sigmoid", "tanh", "tanh"}, lstm_step},
                                {"GRU", 3, {"sigmoid", "tanh"}, gru_step},
                                {"RNN", 1, {"tanh"}, rnn_step}};
  for (const Cell& cell : kCells) {
    if (cell.op == n.op_type()) return cell;
  }
  n.fail("is no recurrent layer");
}

/// A layer's operands in f32 at least, the axis of steps first.
struct Layer {
  NodeImport& n;
  const Cell& cell;
  bool batch_first;
  Term x, weight, recurrent;
  int64_t directions, hidden, steps;

  explicit Layer(NodeImport& node)
      : n(node),
        cell(cell_of(node)),
        batch_first(node.integer("layout", 0) != 0),
        x(Term::input(node, 0).widened()),
        weight(Term::input(node, 1).widened()),
        recurrent(Term::input(node, 2).widened()) {
    if (x.rank() != 3 || recurrent.rank() != 3 || weight.rank() != 3)
      n.fail("its data and weights should have 3 dimensions");
    if (batch_first) x = x.transposed({1, 0, 2});
    if (!constant_shape(recurrent.shape()))
      n.unsupported(UnsupportedKind::kRunTimeValue, "dimensions of its recurrent weight");
    directions = recurrent.dim(0).value();
    hidden = recurrent.dim(2).value();
    const Dim& count = x.dim(0);
    if (!count.is_constant() || count.value() < 1 || count.value() > kMostSteps)
      n.unsupported(UnsupportedKind::kAttribute, "{} steps of a cell that is of f64, clips or has unusual activations",
                    count.str());
    steps = count.value();
  }

  /// Row d of an operand that begins with an axis of directions.
  Term of_direction(const Term& operand, int64_t d) const {
    require_equal(n, operand.dim(0), directions, "its operand {} should begin with {} directions",
                  to_string(operand.shape()), directions);
    return operand.sliced(0, d, d + 1).squeezed(0);
  }
  /// The same of input i, which is (directions, columns).
  Term vector_of_direction(size_t i, int64_t columns, int64_t d) const {
    const Term operand = Term::input(n, i).widened();
    if (operand.rank() != 2) n.fail("its input {} should have 2 dimensions", n.type(i).str());
    require_equal(n, operand.dim(1), columns, "its input {} should have {} columns", n.type(i).str(),
                  columns);
    return of_direction(operand, d);
  }
  Term initial(size_t input, int64_t d) const {
    if (!n.has(input)) return Term::filled(n, x.dtype(), 0, {x.dim(1), hidden});
    const Term state = Term::input(n, input).widened();
    return of_direction(batch_first ? state.transposed({1, 0, 2}) : state, d);
  }
  bool backward(int64_t d) const { return d == 1 || n.text("direction", "forward") == "reverse"; }
};

struct DirectionResult {
  std::vector<Term> outputs;  ///< (B, H) by time
  State last;
};

DirectionResult run_direction(const Layer& layer, int64_t d, const std::vector<Activation>& functions) {
  NodeImport& n = layer.n;
  const int64_t rows = layer.cell.gates * layer.hidden;
  Direction direction{
      n, layer.of_direction(layer.recurrent, d).transposed({1, 0}), {}, {}, functions, layer.hidden};
  direction.clip = n.number("clip", 0);
  const Dim batch = layer.x.dim(1), features = layer.x.dim(2);
  // All steps' products with the input are one.
  const Term flat = layer.x.reshaped({batch * layer.steps, features});
  Term projected =
      matmul_transposed(flat, layer.of_direction(layer.weight, d)).reshaped({layer.steps, batch, rows});
  if (n.has(3)) {
    const Term bias = layer.vector_of_direction(3, 2 * rows, d);
    projected = projected + bias.sliced(0, 0, rows);
    direction.own_bias = bias.sliced(0, rows, 2 * rows);
  }
  const bool lstm = layer.cell.op == "LSTM";
  if (lstm && n.has(7)) direction.peepholes = layer.vector_of_direction(7, 3 * layer.hidden, d);
  State state{layer.initial(5, d), {}};
  if (lstm) state.c = layer.initial(6, d);
  std::optional<Term> lengths;
  if (n.has(4)) lengths = Term::input(n, 4).cast(DType::kI64).reshaped({batch, 1});
  DirectionResult result{std::vector<Term>(static_cast<size_t>(layer.steps), state.h), state};
  for (int64_t t = 0; t < layer.steps; ++t) {
    const int64_t time = layer.backward(d) ? layer.steps - 1 - t : t;
    State next = layer.cell.step(direction, projected.sliced(0, time, time + 1).squeezed(0), state);
    Term shown = next.h;
    if (lengths) {  // steps beyond the sequence leave its state alone and show 0
      const Term counts = less(Term::number(n, DType::kI64, static_cast<double>(time)), *lengths);
      shown = where(counts, next.h, 0);
      next.h = where(counts, next.h, state.h);
      if (next.c) next.c = where(counts, *next.c, *state.c);
    }
    state = next;
    result.outputs[static_cast<size_t>(time)] = shown;
  }
  result.last = state;
  return result;
}

}  // namespace

std::vector<std::string> activation_names(const NodeImport& n) {
  std::vector<std::string> names = n.text_list("activations");
  for (std::string& name : names)
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return names;
}

bool is_unusual_cell(NodeImport& n, const std::vector<std::string>& usual) {
  if (n.number("clip", 0) > 0 || n.type(0).dtype == DType::kF64) return true;
  const std::vector<std::string> given = activation_names(n);
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != usual[i % usual.size()]) return true;
  }
  return false;
}

void convert_recurrent_steps(NodeImport& n) {
  const Layer layer(n);
  const DType dtype = n.type(0).dtype;
  const std::vector<Activation> functions = read_activations(n, layer.cell.usual, layer.directions);
  const size_t each = layer.cell.usual.size();
  std::vector<Term> outputs, hidden, cells;  // with the axis of directions
  for (int64_t d = 0; d < layer.directions; ++d) {
    const auto first = functions.begin() + d * static_cast<std::ptrdiff_t>(each);
    const DirectionResult result =
        run_direction(layer, d, {first, first + static_cast<std::ptrdiff_t>(each)});
    std::vector<Term> by_time;
    for (const Term& h : result.outputs) by_time.push_back(h.unsqueezed(0));
    outputs.push_back(concatenated(by_time, 0).unsqueezed(1));
    hidden.push_back(result.last.h.unsqueezed(0));
    if (result.last.c) cells.push_back(result.last.c->unsqueezed(0));
  }
  const Term y = concatenated(outputs, 1).cast(dtype);  // (S, D, B, H)
  if (n.wants(0)) n.set(0, layer.batch_first ? y.transposed({2, 0, 1, 3}) : y);
  const auto set_state = [&](size_t i, const std::vector<Term>& states) {
    if (!n.wants(i) || states.empty()) return;
    const Term all = concatenated(states, 0).cast(dtype);
    n.set(i, layer.batch_first ? all.transposed({1, 0, 2}) : all);
  };
  set_state(1, hidden);
  set_state(2, cells);
}

}  // namespace gantry
