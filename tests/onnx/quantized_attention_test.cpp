// QAttention against its definition in doubles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "host/tensor/element.h"
#include "tests/onnx/quantized.h"

namespace gantry {
namespace {

using namespace quantized;  // NOLINT

/// QAttention over 3 rows with 2 heads of 2 features each, by its definition.
struct SmallAttention {
  static constexpr int kLength = 3, kWidth = 2, kHeads = 2, kHidden = kWidth * kHeads, kInputs = 4;

  double scale, step;  ///< of data and of weight; of the bias from a column to the next
  int past = 0;        ///< keys before those of the data
  Bytes x = random_bytes<uint8_t>(kLength * kInputs, 11);
  SignedBytes w = random_bytes<int8_t>(kInputs * 3 * kHidden, 12, -128, 127);

  double projection(int row, int column) const {
    double sum = 0;
    for (int k = 0; k < kInputs; ++k) sum += (x[row * kInputs + k] - 128) * w[k * 3 * kHidden + column];
    return sum * scale * scale + step * column;
  }
  /// Feature d of key k, or of its value (of = 1).
  double kept(int of, int head, int k, int d) const {
    if (k >= past) return projection(k - past, (of + 1) * kHidden + head * kWidth + d);
    return 0.25 * (of + head) - 0.5 * (k + d);
  }
  /// Keys and values of the first `keys`, (2, 1, kHeads, keys, kWidth).
  std::vector<double> all_kept(int keys) const {
    std::vector<double> all;
    for (const int of : {0, 1})
      for (int head = 0; head < kHeads; ++head)
        for (int k = 0; k < keys; ++k)
          for (int d = 0; d < kWidth; ++d) all.push_back(kept(of, head, k, d));
    return all;
  }
  /// The result where query q sees the first visible(q) keys.
  template <typename Visible>
  std::vector<double> attended(const Visible& visible) const {
    std::vector<double> results;
    for (int q = 0; q < kLength; ++q) {
      for (int c = 0; c < kHidden; ++c) {
        const int head = c / kWidth;
        double total = 0, sum = 0;
        for (int k = 0; k < visible(q); ++k) {
          double score = 0;
          for (int d = 0; d < kWidth; ++d) score += projection(q, head * kWidth + d) * kept(0, head, k, d);
          const double weight = std::exp(score / std::sqrt(kWidth));
          total += weight;
          sum += weight * kept(1, head, k, c % kWidth);
        }
        results.push_back(sum / total);
      }
    }
    return results;
  }
  /// Inputs up to the scales; of the type in which `rounded` gives a float are the bias and they.
  template <typename Rounded>
  void give_operands(OneNode& node, DType dtype, const Rounded& rounded) const {
    std::vector<decltype(rounded(1.0F))> bias, scales{rounded(static_cast<float>(scale))};
    for (int i = 0; i < 3 * kHidden; ++i) bias.push_back(rounded(static_cast<float>(step * i)));
    node.input(DType::kU8, {1, kLength, kInputs}, x).input(DType::kI8, {kInputs, 3 * kHidden}, w);
    node.input(dtype, {3 * kHidden}, bias).input(dtype, {}, scales).input(dtype, {}, scales);
    node.with("num_heads", int64_t{kHeads});
  }
};

TEST(QAttention, LetsQueriesSeeTheKeysThatTheirSequenceHas) {
  const SmallAttention attention{0.01, 0.1};
  for (const bool causal : {false, true}) {
    OneNode node(kMicrosoft, "QAttention", 13);
    attention.give_operands(node, DType::kF32, [](float value) { return value; });
    node.input<int32_t>(DType::kI32, {1}, {2}).input<uint8_t>(DType::kU8, {}, {128});
    node.with("unidirectional", int64_t{causal});
    expect_near(node.run<float>(DType::kF32),
                attention.attended([&](int q) { return std::min(2, causal ? q + 1 : 2); }));
  }
}

void expect_near_halves(const ConstantPtr& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual->type.dtype, DType::kF16);
  ASSERT_EQ(actual->size, expected.size() * sizeof(uint16_t));
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(static_cast<double>(half_to_float(actual->as<uint16_t>()[i])), expected[i], 1e-2) << i;
}

TEST(QAttention, IsOfTheTypeThatItsBiasAndScalesHave) {
  const SmallAttention attention{1.0 / 256, 0.125};
  OneNode node(kMicrosoft, "QAttention", 13);
  attention.give_operands(node, DType::kF16, float_to_half);
  node.input<int32_t>(DType::kI32, {1}, {2}).input<uint8_t>(DType::kU8, {}, {128});
  expect_near_halves(node.results().at(0), attention.attended([](int) { return 2; }));
}

TEST(QAttention, AppendsToAPastInHalfPrecision) {
  constexpr int kPast = 2, kKeys = kPast + SmallAttention::kLength;
  const SmallAttention attention{1.0 / 256, 0.125, kPast};
  OneNode node(kMicrosoft, "QAttention", 13, 2);
  attention.give_operands(node, DType::kF16, float_to_half);
  std::vector<uint16_t> past;
  for (const double value : attention.all_kept(kPast))
    past.push_back(float_to_half(static_cast<float>(value)));
  node.absent().input<uint8_t>(DType::kU8, {}, {128}).absent();
  node.input(DType::kF16, {2, 1, SmallAttention::kHeads, kPast, SmallAttention::kWidth}, past);
  const std::vector<ConstantPtr> results = node.with("unidirectional", int64_t{1}).results();
  expect_near_halves(results.at(0), attention.attended([](int q) { return kPast + q + 1; }));
  expect_near_halves(results.at(1), attention.all_kept(kKeys));
}

}  // namespace
}  // namespace gantry
