// Interpolation compiled for CPUs and run, against its definition in float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "host/ops/op.h"
#include "tests/support/compiled_model.h"

namespace gantry {
namespace {

using testing::runs_here;

struct Image {
  int64_t planes = 3, height = 7, width = 9, rows = 14, columns = 23;
  bool symbolic = false;  ///< the graph does not know height and width
};

/// Weights of the source positions that a position reads, half_pixel.
std::vector<double> weights_at(const std::string& mode, int64_t at, int64_t in, int64_t out) {
  const double x = (double(at) + 0.5) * double(in) / double(out) - 0.5, base = std::floor(x), f = x - base;
  const int64_t first = int64_t(base);
  std::vector<double> weights(size_t(in), 0);
  auto add = [&](int64_t position, double weight) {
    weights[size_t(std::clamp<int64_t>(position, 0, in - 1))] += weight;
  };
  if (mode == "nearest") {  // the lower one of two that are as near
    add(f <= 0.5 ? first : first + 1, 1);
    return weights;
  }
  if (mode == "linear") {
    add(first, 1 - f);
    add(first + 1, f);
    return weights;
  }
  for (int64_t tap = -1; tap <= 2; ++tap) {  // Keys' kernel, a = -0.75
    const double d = std::abs(double(tap) - f), a = -0.75;
    add(first + tap,
        d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a);
  }
  return weights;
}

double error_of(const std::string& target, const std::string& mode, const Image& l) {
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[(1, {0}, {1}, {2}), f32]) -> Tensor[(1, {0}, {3}, {4}), f32] {{\n"
      "  %y = resize(%x, sizes=(1, {0}, {3}, {4}), scales=[], roi=[], mode={5}, coordinates=half_pixel, "
      "rounding=round_prefer_floor, cubic_a=-0.75, exclude_outside=false, extrapolation=0)\n"
      "  return %y\n}}\n",
      l.planes, l.symbolic ? "H" : std::to_string(l.height), l.symbolic ? "W" : std::to_string(l.width),
      l.rows, l.columns, mode);
  const ConstantPtr x = testing::random_tensor(DType::kF32, {1, l.planes, l.height, l.width}, 1);
  testing::LocalModel model(testing::compile_to_bytes(parse_graph(text, op_set()), {.target = target}));
  const ConstantPtr y = model.run({x}).at(0);
  std::vector<double> expected;
  for (int64_t at = 0; at < l.planes * l.rows * l.columns; ++at) {
    const auto down = weights_at(mode, at / l.columns % l.rows, l.height, l.rows),
               along = weights_at(mode, at % l.columns, l.width, l.columns);
    double total = 0;
    for (int64_t i = 0; i < l.height; ++i)
      for (int64_t j = 0; j < l.width; ++j)
        total += down[size_t(i)] * along[size_t(j)] *
                 double(x->as<float>()[(at / (l.rows * l.columns) * l.height + i) * l.width + j]);
    expected.push_back(total);
  }
  return testing::relative_error(*y, expected);
}

class ResizeOnCpu : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  void SetUp() override {
    if (!runs_here(target())) GTEST_SKIP() << "this machine has no " << target();
  }
  std::string target() const { return std::get<0>(GetParam()); }
  void check(const Image& image) const {
    EXPECT_LT(error_of(target(), std::get<1>(GetParam()), image), 1e-6);
  }
};

TEST_P(ResizeOnCpu, EnlargesLinesFirst) {
  check({});
  check({.planes = 1, .height = 5, .width = 64, .rows = 40, .columns = 130});
}
TEST_P(ResizeOnCpu, ShrinksEitherAxis) {
  check({.rows = 3, .columns = 20});
  check({.rows = 15, .columns = 4});
  check({.rows = 7, .columns = 30});
}
TEST_P(ResizeOnCpu, TakesUnevenRatiosOfShortAndLongRows) {
  check({.planes = 2, .height = 6, .width = 30, .rows = 17, .columns = 77});
  check({.planes = 1, .height = 3, .width = 64, .rows = 5, .columns = 300});
}
TEST_P(ResizeOnCpu, TakesUnknownExtents) {
  check({.symbolic = true});
}

INSTANTIATE_TEST_SUITE_P(Targets, ResizeOnCpu,
                         ::testing::Combine(::testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4"),
                                            ::testing::Values("nearest", "linear", "cubic")));

}  // namespace
}  // namespace gantry
