// Matrix products with weights as integers of few bits against float64: their packing, their loops through
// the checking evaluator, and compiled for this machine and an emulated AArch64 board.
#include "host/ops/fixed_point.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>

#include "host/codegen/find_target.h"
#include "host/costs/dense_model.h"
#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/ops/dense.h"
#include "host/ops/op.h"
#include "host/support/spill_file.h"
#include "host/targets/common/schedule_rules.h"
#include "host/tensor/interpret.h"
#include "tests/support/compiled_model.h"

namespace gantry {
namespace {

struct Layer {
  int64_t rows = 1, depth = 1, units = 1, bits = 24, block = 8;
  bool vector = false;  ///< the data have no axis of rows
  Shape shape(int64_t last) const { return vector ? Shape{last} : Shape{rows, last}; }
  std::string str() const {
    return fmt::format("{} x {} x {}, {} bits, blocks of {}", rows, depth, units, bits, block);
  }
};

std::vector<float> normal(int64_t count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> distribution;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = distribution(random);
  return values;
}

/// Normally distributed; of each eight columns, number 1 is 0, 2 has the extremes of both signs, 3 is tiny
/// and 4 is 0 but for one weight.
std::vector<float> weights_of(const Layer& layer) {
  std::vector<float> w = normal(layer.depth * layer.units, 5);
  for (int64_t k = 0; k < layer.depth; ++k) {
    for (int64_t o = 0; o < layer.units; ++o) {
      float& value = w[static_cast<size_t>(k * layer.units + o)];
      if (o % 8 == 1) value = 0;
      if (o % 8 == 2) value = k % 3 == 0 ? -1.0f : 1.0f;
      if (o % 8 == 3) value *= 1e-30f;
      if (o % 8 == 4 && k != layer.depth / 2) value = 0;
    }
  }
  return w;
}

ConstantPtr constant(const Shape& shape, const std::vector<float>& values) {
  return make_constant({DType::kF32, shape}, values.data());
}

FixedPointWeight packed(const Layer& layer, const std::vector<float>& w) {
  auto result = to_fixed_point(*constant({layer.depth, layer.units}, w), layer.bits, layer.block);
  EXPECT_TRUE(result.has_value()) << layer.str();
  return result.value();
}

/// The largest weight of the element's column and chunk.
double largest_near(const Layer& layer, const std::vector<float>& w, int64_t k, int64_t o) {
  const int64_t chunk = fixed_point_chunk(layer.depth), first = k / chunk * chunk;
  double largest = 0;
  for (int64_t i = first; i < first + chunk; ++i)
    largest = std::max(largest, std::abs(double(w[static_cast<size_t>(i * layer.units + o)])));
  return largest;
}

double error_bound(const Layer& layer, double largest) {
  return largest * std::ldexp(1 + 0x1p-17, -static_cast<int>(layer.bits));
}

/// The integer that host/ops/fixed_point.h draws with letters, as it stands in the upper bits.
int32_t drawn(const uint32_t* words, int64_t lanes, int64_t bits, int64_t slot) {
  auto digits = [&](int word, int first, int count) {
    return words[word * lanes] >> (4 * first) & ((uint32_t{1} << (4 * count)) - 1);
  };
  uint32_t value = 0;
  if (bits == 24) {
    if (slot < 3) value = words[slot * lanes] & 0xffffff00;
    if (slot == 3) value = digits(0, 0, 2) << 24 | digits(1, 0, 2) << 16 | digits(2, 0, 2) << 8;
  } else {
    if (slot < 5) value = words[slot * lanes] & 0xfffff000;
    if (slot == 5) value = digits(0, 0, 3) << 20 | digits(1, 1, 2) << 12;
    if (slot == 6) value = digits(1, 0, 1) << 28 | digits(2, 0, 3) << 16 | digits(3, 2, 1) << 12;
    if (slot == 7) value = digits(3, 0, 2) << 24 | digits(4, 0, 3) << 12;
  }
  return static_cast<int32_t>(value);
}

TEST(FixedPoint, EveryWeightIsWithinHalfAStep) {
  for (const Layer& layer :
       {Layer{.depth = 1, .units = 3}, Layer{.depth = 7, .units = 13, .block = 16},
        Layer{.depth = 4097, .units = 9}, Layer{.depth = 512, .units = 200, .block = 64},
        Layer{.depth = 7, .units = 70, .bits = 20, .block = 64}, Layer{.depth = 4097, .units = 9, .bits = 20},
        Layer{.depth = 512, .units = 200, .bits = 20, .block = 128}}) {
    const std::vector<float> w = weights_of(layer);
    const FixedPointWeight q = packed(layer, w);
    const int64_t group = layer.bits == 24 ? 4 : 8, lanes = layer.block / group,
                  row = layer.block * layer.bits / 32, chunks = layer.depth / fixed_point_chunk(layer.depth);
    for (int64_t k = 0; k < layer.depth; ++k) {
      for (int64_t o = 0; o < layer.units; ++o) {
        const int64_t panel = o / layer.block, at = o % layer.block;
        const uint32_t* words = q.words->as<uint32_t>() + (panel * layer.depth + k) * row + at % lanes;
        const double range =
            q.ranges->as<float>()[(panel * chunks + k / fixed_point_chunk(layer.depth)) * layer.block + at];
        const double value = range * 0x1p-31 * drawn(words, lanes, layer.bits, at / lanes);
        const double exact = w[static_cast<size_t>(k * layer.units + o)];
        ASSERT_LE(std::abs(value - exact), error_bound(layer, largest_near(layer, w, k, o)))
            << layer.str() << ", weight " << k << ", " << o;
      }
    }
  }
}

TEST(FixedPoint, WordsArePutTogetherOnTheDiskAsInMemory) {
  // 128 panels of 0.6 MB, in several parts; the last has one column.
  const Layer layer{.depth = 3200, .units = 127 * 64 + 1, .block = 64};
  const ConstantPtr weight = constant({layer.depth, layer.units}, normal(layer.depth * layer.units, 3));
  const auto expected = to_fixed_point(*weight, layer.bits, layer.block);
  SpillFile file(::testing::TempDir());
  const auto got = to_fixed_point(*weight, layer.bits, layer.block, &file);
  ASSERT_TRUE(expected && got);
  EXPECT_TRUE(is_spilled(got->words->owner));
  for (const auto& [a, b] :
       {std::pair(expected->words, got->words), std::pair(expected->ranges, got->ranges)}) {
    EXPECT_EQ(a->type, b->type);
    EXPECT_TRUE(std::equal(a->bytes, a->bytes + a->size, b->bytes, b->bytes + b->size));
  }
}

TEST(FixedPoint, ChunksDivideTheDepth) {
  for (int64_t depth : {1, 7, 64, 100, 256, 257, 1000, 1280, 4097, 25088}) {
    const int64_t chunk = fixed_point_chunk(depth);
    EXPECT_EQ(depth % chunk, 0) << depth;
    EXPECT_TRUE(chunk <= 256 || chunk == depth) << depth;
  }
  EXPECT_EQ(fixed_point_chunk(25088), 256);
}

bool fits(const std::vector<float>& w, int64_t units, int64_t bits) {
  const auto depth = static_cast<int64_t>(w.size()) / units;
  return to_fixed_point(*constant({depth, units}, w), bits, 8).has_value();
}

TEST(FixedPoint, WeightsThatWouldBecomeLessExactStayFloats) {
  for (int64_t bits : {20, 24}) {
    EXPECT_TRUE(fits(normal(512 * 20, 1), 20, bits));
    for (float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                        std::numeric_limits<float>::max()}) {
      std::vector<float> w = normal(512 * 20, 1);
      w[300 * 20 + 7] = -value;
      EXPECT_FALSE(fits(w, 20, bits)) << value;
    }
  }
  // In one column one weight of each chunk is 1, the others 2^-n. Steps are 2^(1 - bits); the mean square is
  // (1 + 255 * 4^-n) / 256, so that the relative error is 2^-18.8 for n = 2 and 2^-17.3 for n = 4.
  auto uneven = [](int64_t depth, int64_t distance, int n) {
    std::vector<float> w(static_cast<size_t>(depth * 20), std::ldexp(1.0f, -n));
    for (int64_t k = 0; k < depth; k += distance) w[static_cast<size_t>(k * 20 + 3)] = 1;
    return w;
  };
  EXPECT_TRUE(fits(uneven(512, 256, 2), 20, 20));
  EXPECT_FALSE(fits(uneven(512, 256, 4), 20, 20));
  EXPECT_TRUE(fits(uneven(512, 256, 4), 20, 24));
  // A prime depth is one chunk: 1 among thousands.
  EXPECT_TRUE(fits(uneven(4099, 4099, 2), 20, 24));
  EXPECT_FALSE(fits(uneven(4099, 4099, 12), 20, 24));
}

/// y = relu(x * w), or another function, with weights as integers.
Graph product(const Layer& layer, const FixedPointWeight& q, const std::string& function = "nn.relu") {
  Graph graph =
      parse_graph(fmt::format("fn @main(%x: Tensor[{0}, f32]) -> Tensor[{1}, f32] {{\n"
                              "  %y = nn.dense(%x, @q: Tensor[{2}, i32], @r: Tensor[{3}, f32], units={4}, "
                              "weight_block={5}, fixed_bits={6})\n"
                              "  %z = {7}(%y)\n  return %z\n}}\n",
                              to_string(layer.shape(layer.depth)), to_string(layer.shape(layer.units)),
                              to_string(q.words->type.shape), to_string(q.ranges->type.shape), layer.units,
                              layer.block, layer.bits, function),
                  op_set());
  for (Value* value : graph.main.constants())
    value->constant = value->type.dtype == DType::kI32 ? q.words : q.ranges;
  return graph;
}

/// Against float64 with the weights as they were; the difference is that of the integers and of f32 sums,
/// whose products and chunks are added one by one.
void expect_near(const ConstantPtr& got, const Layer& layer, const ConstantPtr& x,
                 const std::vector<float>& w) {
  ASSERT_EQ(got->size, static_cast<size_t>(layer.rows * layer.units) * sizeof(float));
  const int64_t chunk = fixed_point_chunk(layer.depth);
  const double rounding = double(chunk + layer.depth / chunk + 3) * 0x1p-24;
  for (int64_t m = 0; m < layer.rows; ++m) {
    for (int64_t o = 0; o < layer.units; ++o) {
      double sum = 0, bound = 1e-37;
      for (int64_t k = 0; k < layer.depth; ++k) {
        const double data = x->as<float>()[m * layer.depth + k];
        const double weight = w[static_cast<size_t>(k * layer.units + o)];
        sum += data * weight;
        bound += std::abs(data) * (error_bound(layer, k % chunk == 0 ? largest_near(layer, w, k, o) : 0) +
                                   std::abs(weight) * rounding);
      }
      // The largest of each chunk was counted once: it is the bound of all its weights.
      for (int64_t first = 0; first < layer.depth; first += chunk) {
        const double error = error_bound(layer, largest_near(layer, w, first, o));
        for (int64_t k = first + 1; k < first + chunk; ++k)
          bound += std::abs(double(x->as<float>()[m * layer.depth + k])) * error;
      }
      const double y = got->as<float>()[m * layer.units + o];
      ASSERT_LE(std::abs(y - std::max(sum, 0.0)), bound) << layer.str() << ", " << m << ", " << o;
    }
  }
}

const std::vector<Layer>& layers() {
  static const std::vector<Layer> kLayers{
      {.rows = 1, .depth = 1, .units = 1},
      {.rows = 1, .depth = 7, .units = 130, .block = 64},
      {.rows = 1, .depth = 4097, .units = 100, .block = 64},
      {.rows = 1, .depth = 130, .units = 70, .block = 64, .vector = true},
      {.rows = 3, .depth = 512, .units = 70, .block = 32},
      {.rows = 40, .depth = 320, .units = 33, .block = 16},
      {.rows = 1, .depth = 7, .units = 100, .bits = 20, .block = 128},
      {.rows = 1, .depth = 4097, .units = 130, .bits = 20, .block = 128},
      {.rows = 5, .depth = 512, .units = 70, .bits = 20, .block = 64},
      {.rows = 2, .depth = 320, .units = 33, .bits = 20, .block = 32},
  };
  return kLayers;
}

ConstantPtr data_of(const Layer& layer) {
  return constant(layer.shape(layer.depth), normal(layer.rows * layer.depth, 9));
}

TEST(FixedPointProduct, LoopsStayWithinTheirBuffersOnEveryTarget) {
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "cortex-a76"}) {
    const Target target = find_target(name);
    for (const Layer& layer : layers()) {
      if (layer.depth > 1000) continue;
      const std::vector<float> w = weights_of(layer);
      const FixedPointWeight q = packed(layer, w);
      const ConstantPtr x = data_of(layer);
      const Graph graph = product(layer, q);
      const Node& node = *graph.main.nodes().front();
      std::vector<Tensor> tensors;
      std::vector<std::span<std::byte>> arguments;
      for (const ConstantPtr& input : {x, q.words, q.ranges}) {
        tensors.push_back(placeholder(to_exprs(input->type.shape), input->type.dtype, "x"));
        arguments.emplace_back(const_cast<std::byte*>(input->bytes), input->size);
      }
      const std::vector<Tensor> outputs = op_def(node).compute(node, tensors);
      const Schedule schedule = make_schedule(outputs, target);
      std::byte* bytes = nullptr;
      const auto actual = allocate_constant(node.result()->type, &bytes);
      arguments.emplace_back(bytes, actual->size);
      evaluate(run_loop_passes(lower_schedule(schedule, tensors, "dense"), {}), arguments);
      for (int64_t i = 0; i < layer.rows * layer.units; ++i) {
        auto* value = reinterpret_cast<float*>(bytes) + i;
        *value = std::max(*value, 0.0f);
      }
      expect_near(actual, layer, x, w);
    }
  }
}

/// Every machine of this name runs here, or is emulated.
class FixedPointCompiled : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string target = GetParam();
    emulated_ = target.starts_with("cortex");
    if (!emulated_) {
      const std::vector<std::string> here = find_target("native").features;
      for (const std::string& feature : find_target(target).features)
        if (std::ranges::find(here, feature) == here.end()) GTEST_SKIP() << "this machine has no " << feature;
      return;
    }
    if (!testing::emulated_board_program())
      GTEST_SKIP() << "no qemu-aarch64, or no gantry-device for AArch64";
    board_ = std::make_unique<testing::EmulatedBoard>();
  }
  ConstantPtr run(const Graph& graph, const ConstantPtr& x, const std::string& precision = "auto") const {
    const auto module = testing::compile_to_bytes(graph, {.target = GetParam(), .precision = precision});
    if (emulated_) return testing::run_on_board(board_->client(), module, {x}).at(0);
    return testing::LocalModel(module).run({x}).at(0);
  }

  bool emulated_ = false;
  std::unique_ptr<testing::EmulatedBoard> board_;
};

TEST_P(FixedPointCompiled, ComputesAnyNumberOfRowsAndUnits) {
  for (const Layer& layer : layers()) {
    const std::vector<float> w = weights_of(layer);
    const ConstantPtr x = data_of(layer);
    expect_near(run(product(layer, packed(layer, w)), x), layer, x, w);
  }
}

TEST_P(FixedPointCompiled, KeepsTheRangeOfFloats) {
  const Layer layer{.rows = 1, .depth = 8, .units = 8};
  const std::vector<float> w(64, 0.5f);
  for (float size : {1e-30f, 1e37f}) {
    const ConstantPtr x = constant({1, 8}, std::vector<float>(8, size));
    expect_near(run(product(layer, packed(layer, w)), x), layer, x, w);
  }
}

/// The epilogue then runs over a buffer of sums.
TEST_P(FixedPointCompiled, CostlyFunctionsMayFollow) {
  for (int64_t bits : {20, 24}) {
    const Layer layer{.rows = 3, .depth = 320, .units = 70, .bits = bits, .block = 64};
    const FixedPointWeight q = packed(layer, weights_of(layer));
    const ConstantPtr x = data_of(layer);
    const ConstantPtr positive = run(product(layer, q), x);
    const ConstantPtr got = run(product(layer, q, "nn.gelu"), x);
    for (int64_t i = 0; i < layer.rows * layer.units; ++i) {
      const double y = positive->as<float>()[i];
      if (y <= 0) continue;
      EXPECT_NEAR(got->as<float>()[i], y * (1 + std::erf(y / std::sqrt(2.0))) / 2, 1e-6 * (1 + y)) << i;
    }
  }
}

/// As it is compiled from a model: the target may choose integers.
TEST_P(FixedPointCompiled, LayersOfModelsAreAsExact) {
  const Layer layer{.rows = 1, .depth = 1280, .units = 600};
  Graph graph = parse_graph(
      "fn @main(%x: Tensor[(1, 1280), f32]) -> Tensor[(1, 600), f32] {\n"
      "  %y = nn.dense(%x, @w: Tensor[(1280, 600), f32], units=600)\n  %z = nn.relu(%y)\n  return %z\n}\n",
      op_set());
  const std::vector<float> w = weights_of(layer);
  graph.main.constants().front()->constant = constant({1280, 600}, w);
  const ConstantPtr x = data_of(layer);
  expect_near(run(graph, x, "fp32"), layer, x, w);
}

INSTANTIATE_TEST_SUITE_P(Targets, FixedPointCompiled,
                         ::testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4", "native", "cortex-a76",
                                           "cortex-a55"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::erase(text, '-');
                           return text;
                         });

}  // namespace
}  // namespace gantry
