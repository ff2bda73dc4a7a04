// Scan: its body once for every step where their number is known and small, else a loop.
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "host/onnx/converters.h"
#include "host/onnx/loop_body.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/term.h"

namespace gantry {
namespace {

constexpr int64_t kMostSteps = 512;  // of all sequences together

/// A body's inputs: states, then an element of each scanned input. Its outputs: states, then elements of the
/// results.
struct ScanNest {
  NodeImport& n;
  const onnx::GraphProto& body;
  size_t states, scanned, results;

  ScanNest(NodeImport& node, size_t inputs)
      : n(node), body(n.graph("body")), scanned(static_cast<size_t>(n.integer("num_scan_inputs", 0))) {
    if (scanned < 1 || scanned > inputs) n.fail("its num_scan_inputs is {}, with {} inputs", scanned, inputs);
    states = inputs - scanned;
    if (n.output_count() < states) n.fail("has {} outputs for {} states", n.output_count(), states);
    results = n.output_count() - states;
  }

  static bool is_written_out(const Dim& steps) {
    return steps.is_constant() && steps.value() >= 1 && steps.value() <= kMostSteps;
  }
  int64_t sequences(const Dim& extent) const {
    if (!is_written_out(extent)) n.unsupported(UnsupportedKind::kControlFlow, "{} sequences", extent.str());
    return extent.value();
  }
};

/// The extent that all inputs have along an axis, a constant where one of them has that; of others it is a
/// constraint. `what` stands behind it in the user error for inputs of which no run can have the same.
Dim common_extent(NodeImport& n, const std::vector<Term>& inputs, int64_t axis, const char* what) {
  const auto known = std::ranges::find_if(inputs, [&](const Term& x) { return x.dim(axis).is_constant(); });
  const Dim extent = (known == inputs.end() ? inputs.front() : *known).dim(axis);
  for (const Term& x : inputs) {
    const Dim own = x.dim(axis);
    require_equal(n, own, extent, "its inputs have {} and {} {}", extent.str(), own.str(), what);
  }
  return extent;
}

struct Scanned {
  std::vector<Term> states, results;  ///< results without the axis of steps stacked along axis 0
};

/// With the first axis in the opposite order.
Term reversed(const Term& x) {
  return x.strided(0, x.dim(0) - 1, -1, -1);
}

/// What a step reads of an input that all turns read. Where there is no step there is nothing to read, and
/// zeros stand for it.
Term part_of_step(NodeImport& n, Value* all, const Dim& steps, Value* step) {
  if (!(steps == Dim(0))) return gather(Term(n, all), Term(n, step), 0);
  const uint64_t zero = 0;  // of any type: of strings the empty one
  const Term element(n, n.constant_value(make_constant({all->type.dtype, {}}, &zero), "nothing"));
  return element.broadcast({all->type.shape.begin() + 1, all->type.shape.end()});
}

Scanned loop_over_steps(const ScanNest& nest, const Dim& steps, const std::vector<Term>& states,
                        const std::vector<Term>& inputs, const std::vector<int64_t>& backward,
                        const std::vector<int64_t>& results_backward) {
  NodeImport& n = nest.n;
  LoopParts parts;
  parts.turns = steps;
  parts.count = n.dims_as_data({steps});
  for (const Term& state : states) parts.states.push_back(bound_to(state));
  for (size_t i = 0; i < inputs.size(); ++i) parts.others.push_back(backward[i] != 0 ? reversed(inputs[i]) : inputs[i]);
  parts.gives_condition = false;
  parts.arguments = [&](const TurnValues& turn) {
    std::vector<Binding> arguments = turn.states;
    for (Value* all : turn.others) arguments.push_back(bound_to(part_of_step(n, all, steps, turn.number)));
    return arguments;
  };
  std::vector<Value*> results;
  for (const Binding& result : add_loop(n, nest.body, parts)) results.push_back(n.data_of(result));
  if (results.size() != nest.states + nest.results)
    n.fail("its body has {} outputs, not {}", results.size(), nest.states + nest.results);
  Scanned scanned;
  for (size_t i = 0; i < nest.states; ++i) scanned.states.emplace_back(n, results[i]);
  for (size_t i = 0; i < nest.results; ++i) {
    const Term all(n, results[nest.states + i]);
    scanned.results.push_back(results_backward[i] != 0 ? reversed(all) : all);
  }
  return scanned;
}

/// All steps, of which there are `extent`, over inputs whose axis of steps is the first.
Scanned run_steps(const ScanNest& nest, const Dim& extent, std::vector<Term> states,
                  const std::vector<Term>& inputs, const std::vector<int64_t>& backward,
                  const std::vector<int64_t>& results_backward) {
  if (!ScanNest::is_written_out(extent))
    return loop_over_steps(nest, extent, states, inputs, backward, results_backward);
  const int64_t steps = extent.value();
  std::vector<std::vector<Term>> parts(nest.results);
  for (int64_t t = 0; t < steps; ++t) {
    const WrittenTurn written(nest.n, t);
    std::vector<Value*> arguments(states.begin(), states.end());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t at = backward[i] != 0 ? steps - 1 - t : t;
      arguments.push_back(inputs[i].sliced(0, at, at + 1).squeezed(0));
    }
    const std::vector<Value*> made = nest.n.call_graph(nest.body, arguments);
    if (made.size() != nest.states + nest.results)
      nest.n.fail("its body has {} outputs, not {}", made.size(), nest.states + nest.results);
    states.clear();
    for (size_t i = 0; i < nest.states; ++i) states.emplace_back(nest.n, made[i]);
    for (size_t i = 0; i < nest.results; ++i) {
      const Term part = Term(nest.n, made[nest.states + i]).unsqueezed(0);
      parts[i].insert(results_backward[i] != 0 ? parts[i].begin() : parts[i].end(), part);
    }
  }
  Scanned scanned{states, {}};
  for (const std::vector<Term>& all : parts) scanned.results.push_back(concatenated(all, 0));
  return scanned;
}

/// The axis moved to the front, or the first axis moved there.
Term with_axis_first(const Term& x, int64_t axis) {
  std::vector<int64_t> axes{axis};
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != axis) axes.push_back(i);
  }
  return axis == 0 ? x : x.transposed(axes);
}
Term with_first_axis_at(const Term& x, int64_t axis) {
  std::vector<int64_t> axes;
  for (int64_t i = 1; i < x.rank(); ++i) axes.push_back(i);
  axes.insert(axes.begin() + axis, 0);
  return axis == 0 ? x : x.transposed(axes);
}

void convert_scan(NodeImport& n) {
  const ScanNest nest(n, n.input_count());
  const std::vector<int64_t> axes = n.integer_list("scan_input_axes", nest.scanned, 0);
  std::vector<Term> states, inputs;
  for (size_t i = 0; i < nest.states; ++i) states.push_back(Term::input(n, i));
  for (size_t i = 0; i < nest.scanned; ++i) {
    const Term x = Term::input(n, nest.states + i);
    inputs.push_back(with_axis_first(x, n.axis(axes[i], x.rank())));
  }
  const Dim steps = common_extent(n, inputs, 0, "steps");
  const Scanned scanned =
      run_steps(nest, steps, states, inputs, n.integer_list("scan_input_directions", nest.scanned, 0),
                n.integer_list("scan_output_directions", nest.results, 0));
  for (size_t i = 0; i < nest.states; ++i) n.set(i, scanned.states[i]);
  const std::vector<int64_t> to = n.integer_list("scan_output_axes", nest.results, 0);
  for (size_t i = 0; i < nest.results; ++i) {
    const Term& y = scanned.results[i];
    n.set(nest.states + i, with_first_axis_at(y, n.axis(to[i], y.rank())));
  }
}

/// Opset 8: all inputs have an axis of sequences in front, which are scanned one after the other.
void convert_scan_8(NodeImport& n) {
  if (n.has(0)) n.unsupported(UnsupportedKind::kRunTimeValue, "lengths of its sequences");
  const ScanNest nest(n, n.input_count() - 1);
  std::vector<Term> given;
  for (size_t i = 1; i < n.input_count(); ++i) given.push_back(Term::input(n, i));
  const int64_t sequences = nest.sequences(common_extent(n, given, 0, "sequences"));
  const auto first_scanned = given.begin() + static_cast<std::ptrdiff_t>(nest.states);
  const Dim steps = common_extent(n, {first_scanned, given.end()}, 1, "steps");
  const std::vector<int64_t> backward = n.integer_list("directions", nest.scanned, 0);
  const std::vector<int64_t> forward(nest.results, 0);
  std::vector<std::vector<Term>> parts(n.output_count());
  for (int64_t b = 0; b < sequences; ++b) {
    const WrittenTurn written(n, b);
    std::vector<Term> own;
    for (const Term& x : given) own.push_back(x.sliced(0, b, b + 1).squeezed(0));
    const auto split = own.begin() + static_cast<std::ptrdiff_t>(nest.states);
    const Scanned scanned =
        run_steps(nest, steps, {own.begin(), split}, {split, own.end()}, backward, forward);
    for (size_t i = 0; i < nest.states; ++i) parts[i].push_back(scanned.states[i].unsqueezed(0));
    for (size_t i = 0; i < nest.results; ++i)
      parts[nest.states + i].push_back(scanned.results[i].unsqueezed(0));
  }
  for (size_t i = 0; i < parts.size(); ++i) n.set(i, concatenated(parts[i], 0));
}

}  // namespace

void add_scan_converters(ConverterTable& table) {
  table.push_back({"Scan", 8, convert_scan_8});
  table.push_back({"Scan", 9, convert_scan});
}

}  // namespace gantry
