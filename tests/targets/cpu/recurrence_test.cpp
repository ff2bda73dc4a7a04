// Recurrences compiled for this machine, with recurrent weights large enough that the threads share the
// products of a single row, beside float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host/codegen/find_target.h"
#include "host/ops/op.h"
#include "tests/support/compiled_model.h"

namespace gantry {
namespace {

/// Steps of an LSTM with B sequences in D directions, from states of zero.
struct Lstm {
  int64_t steps = 4, batch = 1, directions = 1, hidden = 136;
  int64_t columns() const { return 4 * hidden; }
};

Graph network(const Lstm& l) {
  const std::string state = fmt::format("Tensor[({}, {}, {}), f32]", l.directions, l.batch, l.hidden);
  const std::vector<float> zeros(static_cast<size_t>(l.directions * l.batch * l.hidden));
  const ConstantPtr zero = make_constant({DType::kF32, {l.directions, l.batch, l.hidden}}, zeros.data());
  return parse_graph(
      fmt::format(
          "fn @main(%x: Tensor[({0}, {1}, {2}), f32]) -> Tensor[({0}, {3}, {1}, {4}), f32] {{\n"
          "  %y, %h, %c = nn.lstm_recurrence(%x, @r: Tensor[({3}, {4}, {5}), f32], @h0: {6}, @c0: {6}, "
          "none)\n  return %y\n}}\n",
          l.steps, l.batch, l.directions * l.columns(), l.directions, l.hidden, l.columns(), state),
      op_set(),
      {{"r", testing::random_tensor(DType::kF32, {l.directions, l.hidden, l.columns()}, 1)},
       {"h0", zero},
       {"c0", zero}});
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// (S, D, B, H); gates in order i o f c (host/ops/recurrent.h).
std::vector<double> expected(const Lstm& l, const float* x, const float* r) {
  const int64_t n = l.hidden;
  std::vector<double> y(static_cast<size_t>(l.steps * l.directions * l.batch * n));
  for (int64_t d = 0; d < l.directions; ++d) {
    for (int64_t b = 0; b < l.batch; ++b) {
      std::vector<double> h(static_cast<size_t>(n)), c(h);
      for (int64_t step = 0; step < l.steps; ++step) {
        const int64_t t = d == 0 ? step : l.steps - 1 - step;
        std::vector<double> gates(static_cast<size_t>(l.columns()));
        for (int64_t j = 0; j < l.columns(); ++j) {
          double sum = double(x[((t * l.batch + b) * l.directions + d) * l.columns() + j]);
          for (int64_t k = 0; k < n; ++k)
            sum += h[static_cast<size_t>(k)] * double(r[(d * n + k) * l.columns() + j]);
          gates[static_cast<size_t>(j)] = sum;
        }
        for (int64_t j = 0; j < n; ++j) {
          auto gate = [&](int64_t g) { return gates[static_cast<size_t>(g * n + j)]; };
          double& cell = c[static_cast<size_t>(j)];
          cell = sigmoid(gate(2)) * cell + sigmoid(gate(0)) * std::tanh(gate(3));
          h[static_cast<size_t>(j)] = sigmoid(gate(1)) * std::tanh(cell);
          y[static_cast<size_t>(((t * l.directions + d) * l.batch + b) * n + j)] = h[static_cast<size_t>(j)];
        }
      }
    }
  }
  return y;
}

void check(const Lstm& l) {
  const Graph graph = network(l);
  const ConstantPtr x =
      testing::random_tensor(DType::kF32, {l.steps, l.batch, l.directions * l.columns()}, 2);
  const ConstantPtr weight = testing::random_tensor(DType::kF32, {l.directions, l.hidden, l.columns()}, 1);
  const std::vector<double> reference = expected(l, x->as<float>(), weight->as<float>());
  for (const char* target : {"native", "x86-64-v3", "x86-64-v2"}) {
    if (std::string(target) != "native" && find_target("native").family != find_target(target).family)
      continue;
    const std::vector<std::byte> module = testing::compile_to_bytes(graph, {.target = target});
    for (int threads : {1, 2, 3}) {
      const ConstantPtr y = testing::LocalModel(module, threads).run({x}).at(0);
      ASSERT_EQ(y->size, reference.size() * sizeof(float));
      for (size_t i = 0; i < reference.size(); ++i)
        ASSERT_NEAR(y->as<float>()[i], reference[i], 1e-5) << target << ", " << threads << " threads, " << i;
    }
  }
}

TEST(RecurrenceOnCpu, SharesTheProductsOfASingleSequence) {
  check({});
  check({.hidden = 192});
}
// Whose states are constants of one element, which other kernels take as immediates.
TEST(RecurrenceOnCpu, TakesASingleUnit) {
  check({.hidden = 1});
}
TEST(RecurrenceOnCpu, GivesEachThreadRowsWhereThereAreSeveral) {
  check({.batch = 3});
  check({.directions = 2});
  check({.batch = 2, .directions = 2, .hidden = 160});
}
/// Of each direction, weights of 4 MiB: those of cores with second-level caches of 2 MiB.
TEST(RecurrenceOnCpu, SharesOneDirectionAfterTheOther) {
  check({.steps = 3, .directions = 2, .hidden = 512});
}
TEST(RecurrenceOnCpu, TakesSequencesTogetherAndWhatIsLeft) {
  for (int64_t batch : {2, 4, 5, 8, 11, 17}) check({.steps = 3, .batch = batch, .hidden = 72});
  check({.steps = 3, .batch = 8, .directions = 2, .hidden = 50});
  check({.steps = 2, .batch = 4, .hidden = 300});
}
TEST(RecurrenceOnCpu, TakesGatesThatAreTooManyForAStack) {
  check({.steps = 2, .hidden = 1600});
  check({.steps = 2, .directions = 2, .hidden = 1600});
}
TEST(RecurrenceOnCpu, TakesUnitsThatNoBlockDivides) {
  check({.hidden = 131});
  check({.directions = 2, .hidden = 5});
}

/// Steps of a GRU of one sequence whose products all start from the state: linear_before_reset.
void check_gru(int64_t steps, int64_t directions, int64_t hidden) {
  const int64_t columns = 3 * hidden;
  const ConstantPtr x = testing::random_tensor(DType::kF32, {steps, 1, directions * columns}, 2);
  const ConstantPtr r = testing::random_tensor(DType::kF32, {directions, hidden, columns}, 1);
  const ConstantPtr bias = testing::random_tensor(DType::kF32, {directions, hidden}, 3);
  const ConstantPtr h0 = testing::random_tensor(DType::kF32, {directions, 1, hidden}, 4);
  const Graph graph = parse_graph(
      fmt::format(
          "fn @main(%x: Tensor[({0}, 1, {1}), f32]) -> Tensor[({0}, {2}, 1, {3}), f32] {{\n"
          "  %y, %h = nn.gru_recurrence(%x, @r: Tensor[({2}, {3}, {4}), f32], @h0: Tensor[({2}, 1, {3}), "
          "f32], none, @b: Tensor[({2}, {3}), f32], linear_before_reset=true)\n  return %y\n}}\n",
          steps, directions * columns, directions, hidden, columns),
      op_set(), {{"r", r}, {"h0", h0}, {"b", bias}});
  const std::vector<std::byte> module = testing::compile_to_bytes(graph, {.target = "native"});
  std::vector<ConstantPtr> results;
  for (int threads : {1, 2, 3}) results.push_back(testing::LocalModel(module, threads).run({x}).at(0));
  for (int64_t d = 0; d < directions; ++d) {
    std::vector<double> h(h0->as<float>() + d * hidden, h0->as<float>() + (d + 1) * hidden);
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t t = d == 0 ? step : steps - 1 - step;
      const float* projection = x->as<float>() + (t * directions + d) * columns;
      const auto product = [&, before = h](int64_t column) {
        double sum = 0;
        for (int64_t k = 0; k < hidden; ++k)
          sum += before[static_cast<size_t>(k)] * double(r->as<float>()[(d * hidden + k) * columns + column]);
        return sum;
      };
      for (int64_t j = 0; j < hidden; ++j) {
        const double z = sigmoid(projection[j] + product(j));
        const double reset = sigmoid(projection[hidden + j] + product(hidden + j));
        const double third = product(2 * hidden + j) + double(bias->as<float>()[d * hidden + j]);
        double& state = h[static_cast<size_t>(j)];
        state = (1 - z) * std::tanh(projection[2 * hidden + j] + reset * third) + z * state;
        for (const ConstantPtr& y : results)
          ASSERT_NEAR(y->as<float>()[(t * directions + d) * hidden + j], state, 1e-5)
              << d << ", step " << step;
      }
    }
  }
}
TEST(RecurrenceOnCpu, GruTakesItsProductsInEitherOrder) {
  check_gru(3, 1, 40);
  check_gru(3, 2, 131);
  check_gru(3, 2, 256);
  check_gru(2, 2, 512);
}

}  // namespace
}  // namespace gantry
