// Poolings of images whose rows are contiguous, compiled for CPUs and run, against the definition in float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "host/ops/op.h"
#include "tests/support/compiled_model.h"

namespace gantry {
namespace {

/// (2, 3, H, W) of square windows.
struct Pooling {
  int64_t height = 19, width = 37, kernel = 3, stride = 2, dilation = 1;
  std::vector<int64_t> padding{0, 0, 0, 0};  ///< top, left, bottom, right
  bool symbolic = false;                     ///< the graph does not know how high and wide the images are,
                                             ///< of which the result has the size

  int64_t out(int64_t extent, size_t axis) const {
    return (extent + padding[axis] + padding[axis + 2] - (kernel - 1) * dilation - 1) / stride + 1;
  }
};

void PrintTo(const Pooling& p, std::ostream* out) {
  *out << fmt::format("{} x {}, windows of {}, {} apart, dilated by {}, padding {}{}", p.height, p.width,
                      p.kernel, p.stride, p.dilation, fmt::join(p.padding, " "),
                      p.symbolic ? ", symbolic" : "");
}

constexpr int64_t kPlanes = 6;

/// What `add` makes of the elements of each window, and `finish` of that and their number; then max(v, 0.25).
template <typename Add, typename Finish>
std::vector<double> pooled(const Pooling& p, const float* x, double initial, Add add, Finish finish) {
  std::vector<double> result;
  const int64_t rows = p.out(p.height, 0), columns = p.out(p.width, 1);
  for (int64_t at = 0; at < kPlanes * rows * columns; ++at) {
    const int64_t plane = at / (rows * columns), row = at / columns % rows, column = at % columns;
    double value = initial;
    int64_t count = 0;
    for (int64_t tap = 0; tap < p.kernel * p.kernel; ++tap) {
      const int64_t y = row * p.stride - p.padding[0] + tap / p.kernel * p.dilation,
                    z = column * p.stride - p.padding[1] + tap % p.kernel * p.dilation;
      if (y < 0 || y >= p.height || z < 0 || z >= p.width) continue;
      value = add(value, double(x[(plane * p.height + y) * p.width + z]));
      ++count;
    }
    result.push_back(std::max(finish(value, count), 0.25));
  }
  return result;
}

double error_of(const std::string& target, const Pooling& p, bool maximum) {
  const std::string image = p.symbolic ? "h, w" : fmt::format("{}, {}", p.height, p.width);
  const std::string result =
      p.symbolic ? image : fmt::format("{}, {}", p.out(p.height, 0), p.out(p.width, 1));
  const Graph graph = parse_graph(
      fmt::format(
          "fn @main(%x: Tensor[(2, 3, {0}), f32]) -> Tensor[(2, 3, {6}), f32] {{\n"
          "  %y = nn.{1}(%x, kernel=[{2}, {2}], strides=[{3}, {3}], dilations=[{4}, {4}], padding=({5}))\n"
          "  %z = clip(%y, min=0.25, max=1e30)\n  return %z\n}}\n",
          image, maximum ? "max_pool" : "avg_pool", p.kernel, p.stride, p.dilation,
          fmt::join(p.padding, ", "), result),
      op_set());
  testing::LocalModel model(testing::compile_to_bytes(graph, {.target = target}));
  const ConstantPtr x = testing::random_tensor(DType::kF32, {2, 3, p.height, p.width}, 5);
  const float* data = x->as<float>();
  const auto expected = maximum ? pooled(
                                      p, data, -INFINITY, [](double a, double b) { return std::max(a, b); },
                                      [](double value, int64_t) { return value; })
                                : pooled(
                                      p, data, 0, [](double a, double b) { return a + b; },
                                      [](double value, int64_t count) { return value / double(count); });
  return testing::relative_error(*model.run({x}).at(0), expected);
}

class PoolingOnCpu : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!testing::runs_here(GetParam())) GTEST_SKIP() << "this machine has no " << GetParam();
  }
};

TEST_P(PoolingOnCpu, MatchesTheDefinition) {
  for (const Pooling& p :
       std::vector<Pooling>{{},
                            {.padding = {1, 1, 1, 1}},
                            {.height = 112, .width = 112, .padding = {1, 1, 1, 1}},
                            {.kernel = 7, .stride = 1},
                            {.kernel = 13, .stride = 1, .padding = {6, 6, 6, 6}},
                            {.kernel = 5, .stride = 3, .padding = {0, 4, 2, 1}},
                            {.kernel = 3, .stride = 2, .dilation = 2, .padding = {2, 0, 1, 3}},
                            {.height = 7, .width = 7, .kernel = 5, .stride = 1},
                            {.height = 5, .width = 4, .kernel = 4, .stride = 1},
                            {.height = 60, .width = 5000, .kernel = 3, .stride = 4},
                            {.stride = 1, .padding = {1, 1, 1, 1}, .symbolic = true},
                            {.kernel = 7, .stride = 1, .padding = {3, 3, 3, 3}, .symbolic = true}}) {
    EXPECT_EQ(error_of(GetParam(), p, true), 0) << ::testing::PrintToString(p);
    EXPECT_LT(error_of(GetParam(), p, false), 1e-6) << ::testing::PrintToString(p);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, PoolingOnCpu, ::testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4"));

}  // namespace
}  // namespace gantry
