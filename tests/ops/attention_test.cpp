// The nest of nn.attention, through the checking evaluator, against float64 loops written out here.
#include "host/ops/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "host/loops/stmt.h"
#include "host/ops/attention_loops.h"
#include "host/tensor/fold.h"
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
  bool key_bias_chooses = false;  ///< it replaces scores where it is less than infinity

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
    (head_bias.empty() ? a->bias_chooses : a->bias2_chooses) = key_bias_chooses;
    a->form.lanes = lanes;
    a->form.registers = registers;
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
          for (int64_t j = 0; j < rows; ++j) {
            double score = 0;
            for (int64_t d = 0; d < features; ++d) score += at(0, b, h, i, d) * at(1, b, h, j, d);
            score *= scale;
            if (!head_bias.empty()) score += head_bias[static_cast<size_t>((h * rows + j) * rows + i)];
            if (!key_bias.empty()) {
              const double bias = key_bias[static_cast<size_t>(b * rows + j)];
              if (!key_bias_chooses) {
                score += bias;
              } else if (!std::isinf(bias) || bias < 0) {
                score = bias;
              }
            }
            weights.push_back(score);
          }
          const double top = *std::max_element(weights.begin(), weights.end());
          double total = 0;
          for (double& weight : weights) total += weight = std::exp(weight - top);
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
    for (int64_t features : {5, 24, 40, 80, 88}) {
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

TEST(Attention, MasksThatChooseReplaceScoresHoweverLowTheyAre) {
  for (float score : {-std::numeric_limits<float>::infinity(), -1e4F, -0.5F}) {
    Case c;
    c.head_bias = noise(c.heads * c.rows * c.rows, 2);
    c.key_bias_chooses = true;
    c.key_bias.assign(static_cast<size_t>(c.batch * c.rows), std::numeric_limits<float>::infinity());
    for (size_t i = 0; i < c.key_bias.size(); i += 3) c.key_bias[i] = score;
    c.check();
  }
}

// Softmax over a row of equal scores is even, whatever the scores were before.
TEST(Attention, QueriesAllOfWhoseKeysAreMaskedSeeTheirMean) {
  Case c;
  c.key_bias_chooses = true;
  c.key_bias.assign(static_cast<size_t>(c.batch * c.rows), -5.0F);
  c.check();
}

// (1 - mask) * the lowest number, as exporters write masks.
TEST(Attention, MasksMayBeTheLowestNumber) {
  for (int64_t rows : {40, 530}) {
    Case c;
    c.batch = 1;
    c.heads = 1;
    c.rows = rows;
    c.key_bias.assign(static_cast<size_t>(c.rows), std::numeric_limits<float>::lowest());
    c.key_bias_chooses = true;  // added, it swallows the scores in f32 and not in f64
    c.check();
    c.key_bias_chooses = false;
    c.key_bias[5] = 0;
    c.check();
  }
}

TEST(Attention, ManyFeaturesLeaveRoomForFewerKeysOrQueries) {
  for (int64_t features : {128, 256}) {
    Case c;
    c.batch = 1;
    c.heads = 1;
    c.rows = features == 128 ? 300 : 33;
    c.features = features;
    c.scale = 0.1;
    c.lanes = 16;
    c.registers = 32;
    c.check();
  }
}

int64_t local_bytes(const AttentionLoops& loops) {
  auto buffer = [](const char* name) {
    auto made = std::make_shared<BufferNode>();
    made->name = name;
    return made;
  };
  LoopBuilder builder({buffer("q"), buffer("k"), buffer("v")}, {buffer("y")});
  loops.build(builder);
  int64_t bytes = 0;
  walk(builder.take(),
       [&](const Stmt& s) {
         if (const auto* local = s.as<AllocateNode>())
           bytes += *constant_of(local->buffer->element_count) * byte_width(local->buffer->dtype);
       },
       {});
  return bytes;
}

TEST(Attention, LocalBuffersFitTheStackWhateverTheExtents) {
  const Expr unknown = make_var("n");
  for (int64_t features : {8, 40, 64, 80, 112, 128, 160, 176, 192, 208, 256}) {
    for (const Expr& rows : {Expr(20), Expr(64), Expr(256), Expr(300), Expr(384), Expr(512), unknown}) {
      for (int64_t lanes : {4, 8, 16}) {
        AttentionLoops loops;
        loops.batch = {Expr(2)};
        loops.queries = loops.keys = rows;
        loops.depth = loops.width = features;
        loops.lanes = lanes;
        loops.query = loops.key = loops.value =
            loops.result = {Expr(0), {rows * Expr(features)}, features, 1};
        EXPECT_LE(local_bytes(loops), kMaxStackBytes) << features << " features, " << lanes << " lanes";
      }
    }
  }
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
