// Hand-written loop nests of linear attention, determinants, positions of maxima and regions of interest, for
// CPUs and GPUs, against float64 loops after their definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "host/ops/det.h"
#include "host/ops/linear_attention.h"
#include "host/ops/pool.h"
#include "host/ops/roi.h"
#include "tests/ops/run_nests.h"

namespace gantry {
namespace {

using testing::constant_of;
using testing::NestKind;
using testing::run_nests;
using testing::values_of;

constexpr NestKind kKinds[] = {NestKind::kCpu, NestKind::kGpu};
using Floats = std::vector<float>;

Floats numbers(size_t count, uint64_t seed) {
  Floats values;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    values.push_back(static_cast<float>(static_cast<int64_t>(seed >> 56) - 128) / 128);
  }
  return values;
}
ConstantPtr tensor(const Shape& shape, const Floats& values) {
  return constant_of(DType::kF32, shape, values);
}
void expect_near(const Floats& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
}

// --- linear attention

struct Sizes {
  size_t batch = 2, steps = 3, query_heads = 4, heads = 2, rows = 3, columns = 5;
};

/// The recurrence as the header has it. Decays of a head's rows, or one of all; betas of heads, or one of
/// all.
void expect_linear_attention(bool decays, bool corrects, size_t decay_rows, size_t beta_heads) {
  const Sizes s;
  const auto size = [](size_t n) { return static_cast<int64_t>(n); };
  const Floats query = numbers(s.batch * s.steps * s.query_heads * s.rows, 1);
  const Floats key = numbers(s.batch * s.steps * s.heads * s.rows, 2);
  const Floats value = numbers(s.batch * s.steps * s.heads * s.columns, 3);
  const Floats state = numbers(s.batch * s.heads * s.rows * s.columns, 4);
  const Floats decay = numbers(s.batch * s.steps * s.heads * decay_rows, 5);
  const Floats beta = numbers(s.batch * s.steps * beta_heads, 6);
  auto attrs = std::make_shared<LinearAttentionAttrs>();
  attrs->scale = 0.5;
  attrs->decays = decays;
  attrs->corrects = corrects;
  const Shape leading{size(s.batch), size(s.steps)};
  const auto with = [&](std::initializer_list<size_t> rest) {
    Shape shape = leading;
    for (size_t d : rest) shape.push_back(size(d));
    return shape;
  };
  std::vector<ConstantPtr> inputs{
      tensor(with({s.query_heads, s.rows}), query), tensor(with({s.heads, s.rows}), key),
      tensor(with({s.heads, s.columns}), value),
      tensor({size(s.batch), size(s.heads), size(s.rows), size(s.columns)}, state)};
  if (decays) inputs.push_back(tensor(with({s.heads, decay_rows}), decay));
  if (corrects) inputs.push_back(tensor(with({beta_heads}), beta));

  std::vector<double> last(state.begin(), state.end()), result(s.batch * s.steps * s.query_heads * s.columns);
  for (size_t b = 0; b < s.batch; ++b) {
    for (size_t h = 0; h < s.heads; ++h) {
      double* own = &last[(b * s.heads + h) * s.rows * s.columns];
      for (size_t t = 0; t < s.steps; ++t) {
        const size_t head = (b * s.steps + t) * s.heads + h;
        for (size_t r = 0; r < s.rows && decays; ++r) {
          const double kept =
              std::exp(static_cast<double>(decay[head * decay_rows + std::min(r, decay_rows - 1)]));
          for (size_t c = 0; c < s.columns; ++c) own[r * s.columns + c] *= kept;
        }
        for (size_t c = 0; c < s.columns; ++c) {
          double written = value[head * s.columns + c];
          if (corrects) {
            for (size_t r = 0; r < s.rows; ++r) written -= own[r * s.columns + c] * key[head * s.rows + r];
            written *= beta[(b * s.steps + t) * beta_heads + std::min(h, beta_heads - 1)];
          }
          for (size_t r = 0; r < s.rows; ++r) own[r * s.columns + c] += key[head * s.rows + r] * written;
        }
        const size_t group = s.query_heads / s.heads;
        for (size_t q = h * group; q < (h + 1) * group; ++q) {
          const size_t at = (b * s.steps + t) * s.query_heads + q;
          for (size_t c = 0; c < s.columns; ++c) {
            for (size_t r = 0; r < s.rows; ++r)
              result[at * s.columns + c] += 0.5 * own[r * s.columns + c] * query[at * s.rows + r];
          }
        }
      }
    }
  }
  for (NestKind kind : kKinds) {
    const auto actual = run_nests("nn.linear_attention", attrs, inputs, kind);
    expect_near(values_of<float>(actual[0]), result, 1e-4);
    expect_near(values_of<float>(actual[1]), last, 1e-4);
  }
}

TEST(LinearAttention, AddsProductsOfKeysAndValues) {
  expect_linear_attention(false, false, 1, 1);
}
TEST(LinearAttention, DecaysARowOrAHead) {
  expect_linear_attention(true, false, 3, 1);
  expect_linear_attention(true, false, 1, 1);
}
TEST(LinearAttention, CorrectsWhatTheStateHasForAKey) {
  expect_linear_attention(false, true, 1, 2);
  expect_linear_attention(true, true, 3, 2);
  expect_linear_attention(true, true, 1, 1);
}

// --- determinants

TEST(Det, OfMatricesThatNeedExchangesOfRows) {
  const Floats x{0, 2, 1, 3, 0, 4, 5, 6, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 1, 2, 3, 2, 4, 6, 7, 8, 9};
  for (NestKind kind : kKinds) {
    const auto y = run_nests("linalg.det", std::make_shared<NoAttrs>(), {tensor({3, 3, 3}, x)}, kind);
    expect_near(values_of<float>(y[0]), {0 * (0 - 24) - 2 * (0 - 20) + 1 * (18 - 0), 24, 0}, 1e-4);
  }
}

// --- positions of maxima

TEST(MaxPositions, AreThoseOfTheFirstLargestElementOfEachWindow) {
  const int64_t height = 5, width = 4;
  const Floats x = numbers(static_cast<size_t>(2 * 3 * height * width), 9);
  auto attrs = std::make_shared<PoolAttrs>();
  attrs->kernel = {3, 2};
  attrs->strides = {2, 1};
  attrs->dilations = {1, 2};
  attrs->padding = {1, 1, 1, 1};
  std::vector<int64_t> expected;
  for (int64_t plane = 0; plane < 6; ++plane) {
    for (int64_t oy = 0; oy < 3; ++oy) {
      for (int64_t ox = 0; ox < 4; ++ox) {
        int64_t best = -1;
        for (int64_t ky = 0; ky < 3; ++ky) {
          for (int64_t kx = 0; kx < 2; ++kx) {
            const int64_t y = oy * 2 - 1 + ky, column = ox - 1 + kx * 2;
            if (y < 0 || y >= height || column < 0 || column >= width) continue;
            const int64_t at = (plane * height + y) * width + column;
            if (best < 0 || x[static_cast<size_t>(at)] > x[static_cast<size_t>(best)]) best = at;
          }
        }
        expected.push_back(best);
      }
    }
  }
  for (NestKind kind : kKinds) {
    const auto y = run_nests("nn.max_positions", attrs, {tensor({2, 3, height, width}, x)}, kind);
    EXPECT_EQ(values_of<int64_t>(y[0]), expected);
  }
}
TEST(MaxPositions, AreThoseOfNumbersWhereThereAreSome) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  auto attrs = std::make_shared<PoolAttrs>();
  attrs->kernel = {3};
  attrs->strides = {3};
  attrs->dilations = {1};
  attrs->padding = {0, 0};
  const Floats x{nan, 2, 7, 5, nan, 2, nan, nan, nan};
  for (NestKind kind : kKinds) {
    const auto y = run_nests("nn.max_positions", attrs, {tensor({1, 1, 9}, x)}, kind);
    EXPECT_EQ(values_of<int64_t>(y[0]), (std::vector<int64_t>{2, 3, 6}));
  }
}

// --- regions of interest

/// The data between elements: 0 an element or more outside.
double between(const Floats& x, size_t plane, int64_t height, int64_t width, double y, double column) {
  if (y < -1 || y > static_cast<double>(height) || column < -1 || column > static_cast<double>(width))
    return 0;
  const auto along = [](double v, int64_t extent) {
    v = std::max(v, 0.0);
    const auto low = std::min<int64_t>(static_cast<int64_t>(v), extent - 1);
    return std::pair{low, low == extent - 1 ? 0.0 : v - static_cast<double>(low)};
  };
  const auto [row, fy] = along(y, height);
  const auto [left, fx] = along(column, width);
  const auto at = [&](int64_t r, int64_t c) {
    r = std::min(r, height - 1);
    c = std::min(c, width - 1);
    return static_cast<double>(
        x[(plane * static_cast<size_t>(height) + static_cast<size_t>(r)) * static_cast<size_t>(width) +
          static_cast<size_t>(c)]);
  };
  return (1 - fy) * ((1 - fx) * at(row, left) + fx * at(row, left + 1)) +
         fy * ((1 - fx) * at(row + 1, left) + fx * at(row + 1, left + 1));
}

TEST(RoiAlign, IsTheMeanOfAsManyPointsAsARegionsPartHasElements) {
  const int64_t height = 6, width = 7;
  const Floats x = numbers(static_cast<size_t>(2 * 2 * height * width), 12);
  const Floats regions{1, 2, 9.5f, 8, 0, 0, 3, 3, -4, 6, 20, 12};
  const std::vector<int64_t> images{1, 0, 1};
  auto attrs = std::make_shared<RoiAlignAttrs>();
  attrs->height = 2;
  attrs->width = 3;
  attrs->scale = 0.5;
  std::vector<double> expected;
  for (size_t r = 0; r < 3; ++r) {
    const double left = regions[r * 4] * 0.5 - 0.5, top = regions[r * 4 + 1] * 0.5 - 0.5;
    const double part_width = (regions[r * 4 + 2] * 0.5 - 0.5 - left) / 3;
    const double part_height = (regions[r * 4 + 3] * 0.5 - 0.5 - top) / 2;
    const double across = std::ceil(part_width), down = std::ceil(part_height);
    for (size_t c = 0; c < 2; ++c) {
      for (int py = 0; py < 2; ++py) {
        for (int px = 0; px < 3; ++px) {
          double total = 0;
          for (double iy = 0; iy < down; ++iy) {
            for (double ix = 0; ix < across; ++ix) {
              const double y = top + py * part_height + (iy + 0.5) * part_height / down;
              const double column = left + px * part_width + (ix + 0.5) * part_width / across;
              total += between(x, static_cast<size_t>(images[r]) * 2 + c, height, width, y, column);
            }
          }
          expected.push_back(total / (down * across));
        }
      }
    }
  }
  for (NestKind kind : kKinds) {
    const auto y = run_nests(
        "nn.roi_align", attrs,
        {tensor({2, 2, height, width}, x), tensor({3, 4}, regions), constant_of(DType::kI64, {3}, images)},
        kind);
    expect_near(values_of<float>(y[0]), expected, 1e-4);
  }
}

}  // namespace
}  // namespace gantry
