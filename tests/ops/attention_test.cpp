// The nest of nn.attention, through the checking evaluator, against float64 loops written out here.
#include "host/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/ops/run_nests.h"

namespace gantry::testing {
namespace {

std::vector<float> noise(int64_t count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

/// Queries, keys and values of one combined projection (batch, row, 3, head, feature); the result is
/// (batch, query, head, feature).
struct Case {
  int64_t batch = 2, heads = 3, rows = 40, features = 8, lanes = 8, registers = 16;
  double scale = 0.3;
  /// Added to scores: (heads, keys, queries), queries contiguous; and one a key and batch.
  std::vector<float> head_bias, key_bias;

  int64_t pitch() const { return 3 * heads * features; }

  std::shared_ptr<AttentionAttrs> attrs() const {
    auto a = std::make_shared<AttentionAttrs>();
    a->batch = {batch, heads};
    a->queries = a->keys = rows;
    a->depth = a->width = features;
    a->scale = scale;
    a->query = {0, rows * pitch(), features, pitch()};
    a->key = {heads * features, rows * pitch(), features, pitch()};
    a->value = {2 * heads * features, rows * pitch(), features, pitch()};
    a->result = {0, rows * heads * features, features, heads * features};
    a->shape = {batch, rows, heads, features};
    if (!head_bias.empty()) a->bias = {0, 0, rows * rows, 1, rows};
    if (!key_bias.empty()) (head_bias.empty() ? a->bias : a->bias2) = {0, rows, 0, 0, 1};
    a->lanes = lanes;
    a->registers = registers;
    return a;
  }

  std::vector<double> expected(const std::vector<float>& qkv) const {
    auto at = [&](int64_t part, int64_t b, int64_t h, int64_t row, int64_t d) {
      return double{qkv[static_cast<size_t>((b * rows + row) * pitch() + (part * heads + h) * features + d)]};
    };
    std::vector<double> y(static_cast<size_t>(batch * rows * heads * features));
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < rows; ++i) {
          std::vector<double> weights;
          double total = 0;
          for (int64_t j = 0; j < rows; ++j) {
            double score = 0;
            for (int64_t d = 0; d < features; ++d) score += at(0, b, h, i, d) * at(1, b, h, j, d);
            score *= scale;
            if (!head_bias.empty()) score += head_bias[static_cast<size_t>((h * rows + j) * rows + i)];
            if (!key_bias.empty()) score += key_bias[static_cast<size_t>(b * rows + j)];
            weights.push_back(std::exp(score));
            total += weights.back();
          }
          for (int64_t d = 0; d < features; ++d) {
            double sum = 0;
            for (int64_t j = 0; j < rows; ++j)
              sum += weights[static_cast<size_t>(j)] / total * at(2, b, h, j, d);
            y[static_cast<size_t>(((b * rows + i) * heads + h) * features + d)] = sum;
          }
        }
      }
    }
    return y;
  }

  void check() const {
    const std::vector<float> qkv = noise(batch * rows * pitch(), 1);
    const ConstantPtr data = constant_of(DType::kF32, {batch, rows, pitch()}, qkv);
    std::vector<ConstantPtr> inputs{data, data, data};
    if (!head_bias.empty()) inputs.push_back(constant_of(DType::kF32, {heads, rows, rows}, head_bias));
    if (!key_bias.empty()) inputs.push_back(constant_of(DType::kF32, {batch, 1, 1, rows}, key_bias));
    const auto y = values_of<float>(run_nests("nn.attention", attrs(), inputs, NestKind::kCpu).at(0));
    const std::vector<double> wanted = expected(qkv);
    ASSERT_EQ(y.size(), wanted.size());
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], wanted[i], 2e-5) << "element " << i;
  }
};

TEST(Attention, ReadsQueriesKeysAndValuesOfOneProjection) {
  Case().check();
}

TEST(Attention, WorksWithFewerQueriesThanABlockHolds) {
  Case c;
  c.rows = 11;
  c.lanes = 16;
  c.registers = 32;
  c.check();
}

TEST(Attention, WorksWithAnyVectorLengthAndFeatureCount) {
  for (int64_t lanes : {4, 16}) {
    for (int64_t features : {5, 24}) {
      Case c;
      c.lanes = lanes;
      c.features = features;
      c.rows = 19;
      c.check();
    }
  }
}

TEST(Attention, AddsBiasesOfHeadsAndOfKeys) {
  Case c;
  c.head_bias = noise(c.heads * c.rows * c.rows, 2);
  c.key_bias = noise(c.batch * c.rows, 3);
  c.check();
}

TEST(Attention, MaskedKeysCountForNothing) {
  Case c;
  c.key_bias.assign(static_cast<size_t>(c.batch * c.rows), 0);
  for (size_t i = 0; i < c.key_bias.size(); i += 3) c.key_bias[i] = -std::numeric_limits<float>::infinity();
  c.check();
}

TEST(Attention, KeysInSeveralBlocksCorrectMaximaAndSums) {
  Case c;
  c.batch = 1;
  c.heads = 1;
  c.rows = 530;
  c.features = 4;
  c.scale = 2;  // maxima that grow from block to block
  c.check();
  c.key_bias.assign(static_cast<size_t>(c.rows), 0);
  std::fill(c.key_bias.begin(), c.key_bias.begin() + 300, -std::numeric_limits<float>::infinity());
  c.check();
}

}  // namespace
}  // namespace gantry::testing
