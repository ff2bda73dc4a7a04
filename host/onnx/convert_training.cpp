// Steps of optimisers (ai.onnx.preview.training): plain arithmetic on tensors, gradients and their histories.
#include "host/onnx/converters.h"
#include "host/onnx/term.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

/// What all of them have: the learning rate R, how many updates there were before (T), then groups of equally
/// many tensors, a member of each belonging together.
struct Optimiser {
  NodeImport& n;
  size_t groups, count;

  Optimiser(NodeImport& node, size_t group_count)
      : n(node), groups(group_count), count((node.input_count() - 2) / groups) {
    if (n.input_count() < 2 + groups || (n.input_count() - 2) % groups != 0)
      n.fail("has {} inputs, which are not {} groups after two", n.input_count(), groups);
  }
  Term member(size_t group, size_t i) const { return Term::input(n, 2 + group * count + i); }
  Term rate(DType dtype) const { return Term::input(n, 0).cast(dtype).reshaped({}); }
  Term updates() const { return Term::input(n, 1).reshaped({}); }
  /// The gradient with that of the regularisation, norm_coefficient / 2 * |x|^2.
  Term gradient(size_t i) const { return member(0, i) * n.number("norm_coefficient", 0) + member(1, i); }
  void set(size_t group, size_t i, const Term& value) const { n.set(group * count + i, value); }
};

/// Duchi, Hazan and Singer, "Adaptive Subgradient Methods", 2011.
void convert_adagrad(NodeImport& n) {
  const Optimiser optimiser(n, 3);
  for (size_t i = 0; i < optimiser.count; ++i) {
    const Term x = optimiser.member(0, i), gradient = optimiser.gradient(i);
    const Term decay = optimiser.updates().cast(x.dtype()) * n.number("decay_factor", 0) + 1;
    const Term squares = optimiser.member(2, i) + square(gradient);
    const Term step =
        optimiser.rate(x.dtype()) / decay * gradient / (sqrt(squares) + n.number("epsilon", 1e-6));
    optimiser.set(0, i, x - step);
    optimiser.set(1, i, squares);
  }
}

/// Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015.
void convert_adam(NodeImport& n) {
  const Optimiser optimiser(n, 4);
  const double alpha = n.number("alpha", 0.9), beta = n.number("beta", 0.999);
  for (size_t i = 0; i < optimiser.count; ++i) {
    const Term x = optimiser.member(0, i), gradient = optimiser.gradient(i);
    const Term first = optimiser.member(2, i) * alpha + gradient * (1 - alpha);
    const Term second = optimiser.member(3, i) * beta + square(gradient) * (1 - beta);
    // Histories that begin with 0 are too small at first; before the first update nothing is corrected.
    const Term t = optimiser.updates().cast(x.dtype());
    const auto decayed = [&](double factor) { return 1.0 - t.number_like(factor).apply(op::power, t); };
    const Term corrected = sqrt(decayed(beta)) / decayed(alpha);
    const Term counted = less(t.number_like(0), t);
    const Term rate = optimiser.rate(x.dtype()) * where(counted, corrected, 1);
    const Term moved = x - rate * (first / (sqrt(second) + n.number("epsilon", 1e-6)));
    optimiser.set(0, i, moved * (1 - n.number("norm_coefficient_post", 0)));
    optimiser.set(1, i, first);
    optimiser.set(2, i, second);
  }
}

/// Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013.
void convert_momentum(NodeImport& n) {
  const Optimiser optimiser(n, 3);
  const std::string mode = n.text("mode", "standard");
  if (mode != "standard" && mode != "nesterov") n.fail("its mode is '{}', not standard or nesterov", mode);
  const double alpha = n.number("alpha", 0), beta = n.number("beta", 0);
  for (size_t i = 0; i < optimiser.count; ++i) {
    const Term x = optimiser.member(0, i), gradient = optimiser.gradient(i);
    const Term t = optimiser.updates();
    const Term weight = where(less(t.number_like(0), t), x.number_like(beta), 1);
    const Term velocity = optimiser.member(2, i) * alpha + weight * gradient;
    const Term direction = mode == "standard" ? velocity : gradient + velocity * alpha;
    optimiser.set(0, i, x - optimiser.rate(x.dtype()) * direction);
    optimiser.set(1, i, velocity);
  }
}

}  // namespace

void add_training_converters(ConverterTable& table) {
  table.push_back({"Adagrad", 1, convert_adagrad, kTraining});
  table.push_back({"Adam", 1, convert_adam, kTraining});
  table.push_back({"Momentum", 1, convert_momentum, kTraining});
}

}  // namespace gantry
