// DynamicQuantizeLSTM against its definition in doubles, with data that are quantised as ONNX Runtime's are
// on one thread: those of all steps together, the states of a batch together in every step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using testing::OneNode;
using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;
constexpr int64_t kBatch = 2, kFeatures = 3, kHidden = 2, kColumns = 4 * kHidden;

/// Numbers none of which is near a tie of the quantisation that the tests make of them: at least 0.01 steps
/// lie between.
Floats wave(int64_t count, double phase, double height) {
  Floats values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(height * 2 * std::sin(1.7 * static_cast<double>(i) + phase)));
  return values;
}
Bytes bytes(int64_t count, int64_t seed) {
  Bytes values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<uint8_t>((i * 37 + seed * 11 + (i * i) % 7) % 256));
  return values;
}
template <typename T>
Doubles part(const std::vector<T>& all, int64_t at, int64_t count) {
  return {all.begin() + at * count, all.begin() + (at + 1) * count};
}

/// What is left of x where it becomes u8, by the formula of DynamicQuantizeLinear.
Doubles quantized(Doubles x) {
  const double low = std::min(0.0, *std::ranges::min_element(x)),
               high = std::max(0.0, *std::ranges::max_element(x));
  const double scale = high > low ? (high - low) / 255 : 1.0 / 255, zero = std::nearbyint(-low / scale);
  for (double& v : x) v = (std::clamp(std::nearbyint(v / scale) + zero, 0.0, 255.0) - zero) * scale;
  return x;
}

/// A layer of `directions` over `steps`; scales are one a direction of W, and one a column of R.
struct Layer {
  int64_t steps, directions;
  std::vector<int32_t> lengths;  ///< empty: all are `steps`
  Floats x = wave(steps * kBatch * kFeatures, 0.3, 1), bias = wave(directions * 2 * kColumns, 0.9, 0.25),
         h = wave(directions * kBatch * kHidden, 1.1, 0.25),
         c = wave(directions * kBatch * kHidden, 2.3, 0.5),
         peepholes = wave(directions * 3 * kHidden, 0.5, 0.125);
  Bytes w = bytes(directions * kFeatures * kColumns, 1), r = bytes(directions * kHidden * kColumns, 2);
  Floats w_scale{0.01F, 0.015F}, r_scale{.01F, .02F, .005F, .01F,  .03F, .01F, .02F, .004F,
                                         .02F, .01F, .01F,  .005F, .01F, .02F, .01F, .03F};
  Bytes w_zero{120, 140}, r_zero = Bytes(static_cast<size_t>(2 * kColumns), 130);

  /// Results of the operator: Y, Y_h, Y_c.
  std::vector<ConstantPtr> run() const;
  /// The same by the definition.
  std::vector<Doubles> defined() const;

 private:
  void define(int64_t d, std::vector<Doubles>& results) const;
  /// (kBatch, rows) times the matrix of direction d.
  static Doubles product(const Doubles& a, const Doubles& matrix, int64_t rows);
  Doubles matrix(const Bytes& all, int64_t d, int64_t rows) const;
};

std::vector<ConstantPtr> Layer::run() const {
  OneNode node("com.microsoft", "DynamicQuantizeLSTM", 17, 3);
  const auto cut = [&](auto values, int64_t each) {
    values.resize(static_cast<size_t>(directions * each));
    return values;
  };
  node.input<float>(DType::kF32, {steps, kBatch, kFeatures}, x)
      .input<uint8_t>(DType::kU8, {directions, kFeatures, kColumns}, w)
      .input<uint8_t>(DType::kU8, {directions, kHidden, kColumns}, r)
      .input<float>(DType::kF32, {directions, 2 * kColumns}, bias);
  if (lengths.empty()) {
    node.absent();
  } else {
    node.input<int32_t>(DType::kI32, {kBatch}, lengths);
  }
  node.input<float>(DType::kF32, {directions, kBatch, kHidden}, h)
      .input<float>(DType::kF32, {directions, kBatch, kHidden}, c)
      .input<float>(DType::kF32, {directions, 3 * kHidden}, peepholes)
      .input<float>(DType::kF32, {directions}, cut(w_scale, 1))
      .input<uint8_t>(DType::kU8, {directions}, cut(w_zero, 1))
      .input<float>(DType::kF32, {directions, kColumns}, cut(r_scale, kColumns))
      .input<uint8_t>(DType::kU8, {directions, kColumns}, cut(r_zero, kColumns));
  return node.with("hidden_size", kHidden)
      .with("direction", directions == 2 ? "bidirectional" : "forward")
      .results();
}

Doubles Layer::product(const Doubles& a, const Doubles& matrix, int64_t rows) {
  Doubles y(static_cast<size_t>(kBatch * kColumns), 0);
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t k = 0; k < rows; ++k)
      for (int64_t j = 0; j < kColumns; ++j)
        y[static_cast<size_t>(b * kColumns + j)] +=
            a[static_cast<size_t>(b * rows + k)] * matrix[static_cast<size_t>(k * kColumns + j)];
  return y;
}

Doubles Layer::matrix(const Bytes& all, int64_t d, int64_t rows) const {
  Doubles m = part(all, d, rows * kColumns);
  for (size_t i = 0; i < m.size(); ++i) {
    const size_t column = static_cast<size_t>(d * kColumns) + i % static_cast<size_t>(kColumns);
    const auto direction = static_cast<size_t>(d);
    m[i] = &all == &w ? (m[i] - w_zero[direction]) * static_cast<double>(w_scale[direction])
                      : (m[i] - r_zero[column]) * static_cast<double>(r_scale[column]);
  }
  return m;
}

void Layer::define(int64_t d, std::vector<Doubles>& results) const {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const Doubles data = quantized({x.begin(), x.end()}), b = part(bias, d, 2 * kColumns),
                p = part(peepholes, d, 3 * kHidden), input = matrix(w, d, kFeatures),
                recurrent = matrix(r, d, kHidden);
  Doubles now = part(h, d, kBatch * kHidden), cell = part(c, d, kBatch * kHidden);
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t time = d == 1 ? steps - 1 - step : step;
    const Doubles projected = product(part(data, time, kBatch * kFeatures), input, kFeatures);
    const Doubles fed_back = product(quantized(now), recurrent, kHidden);
    for (int64_t i = 0; i < kBatch * kHidden; ++i) {
      const int64_t row = i / kHidden, unit = i % kHidden;
      if (!lengths.empty() && time >= lengths[static_cast<size_t>(row)]) continue;  // Y begins as zeros
      const auto gate = [&](int64_t g) {
        const auto column = static_cast<size_t>(g * kHidden + unit),
                   at = static_cast<size_t>(row * kColumns) + column;
        return projected[at] + fed_back[at] + b[column] + b[column + static_cast<size_t>(kColumns)];
      };
      const auto peep = [&](int64_t g) { return p[static_cast<size_t>(g * kHidden + unit)]; };
      double &state = now[static_cast<size_t>(i)], &kept = cell[static_cast<size_t>(i)];
      const double opens = sigmoid(gate(0) + peep(0) * kept), keeps = sigmoid(gate(2) + peep(2) * kept);
      kept = keeps * kept + opens * std::tanh(gate(3));
      state = sigmoid(gate(1) + peep(1) * kept) * std::tanh(kept);
      results[0][static_cast<size_t>((time * directions + d) * kBatch * kHidden + i)] = state;
    }
  }
  results[1].insert(results[1].end(), now.begin(), now.end());
  results[2].insert(results[2].end(), cell.begin(), cell.end());
}

std::vector<Doubles> Layer::defined() const {
  std::vector<Doubles> results(3);
  results[0].resize(static_cast<size_t>(steps * directions * kBatch * kHidden), 0);
  for (int64_t d = 0; d < directions; ++d) define(d, results);
  return results;
}

void expect_defined(const Layer& layer) {
  const std::vector<ConstantPtr> actual = layer.run();
  const std::vector<Doubles> expected = layer.defined();
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t result = 0; result < expected.size(); ++result) {
    for (size_t i = 0; i < expected[result].size(); ++i)
      EXPECT_NEAR(static_cast<double>(actual[result]->as<float>()[i]), expected[result][i], 2e-6)
          << result << " " << i;
  }
}

TEST(DynamicQuantizeLstm, QuantizesItsDataTogetherAndItsStateInEveryStep) {
  expect_defined({3, 1, {}});
}

TEST(DynamicQuantizeLstm, TakesTheStepsOfItsSecondDirectionBackwards) {
  expect_defined({3, 2, {}});
}

TEST(DynamicQuantizeLstm, IsDefinedForOneStepToo) {
  expect_defined({1, 2, {}});
}

TEST(DynamicQuantizeLstm, LeavesStatesAloneBehindTheEndsOfSequences) {
  expect_defined({4, 2, {4, 2}});
}

}  // namespace
}  // namespace gantry
