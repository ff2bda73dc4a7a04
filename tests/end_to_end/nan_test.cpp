// A network that computes NaN shows it: activations pass it on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "host/ops/op.h"
#include "tests/end_to_end/networks.h"
#include "tests/support/compiled_model.h"

namespace gantry::end_to_end {
namespace {

/// Every third element is NaN, the others are numbers on both sides of 0.
void expect_nan_to_pass(const std::string& activation, int64_t count, const Runner& run) {
  const std::string type = fmt::format("Tensor[({}), f32]", count);
  const Graph graph = parse_graph(
      fmt::format("fn @main(%x: {0}) -> {0} {{\n  %0 = {1}\n  return %0\n}}\n", type, activation), op_set());
  std::vector<float> x;
  for (int64_t i = 0; i < count; ++i) x.push_back(i % 3 == 0 ? NAN : static_cast<float>(i % 11) - 5);
  const ConstantPtr y = run(graph, {make_constant({DType::kF32, {count}}, x.data())}).at(0);
  for (int64_t i = 0; i < count; ++i)
    EXPECT_EQ(std::isnan(y->as<float>()[i]), i % 3 == 0) << activation << " of " << x[i] << ", " << count;
}

const char* const kActivations[] = {
    "nn.relu(%x)",
    "clip(%x, min=0, max=6)",
    "nn.hard_sigmoid(%x, alpha=0.2, beta=0.5, gamma=1)",
    "nn.hard_swish(%x)",
    "nn.elu(%x, alpha=1, beta=0, gamma=1)",
    "nn.selu(%x, alpha=1.67, beta=0, gamma=1.05)",
    "nn.celu(%x, alpha=1, beta=0, gamma=1)",
    "nn.softplus(%x)",
    "sigmoid(%x)",
    "sign(%x)",
};

void expect_activations_to_pass_nan(const Runner& run) {
  for (const char* activation : kActivations)
    for (int64_t count : {7, 96}) expect_nan_to_pass(activation, count, run);
}

const float kNumbersAndNan[] = {NAN, -1, 0, 2, NAN, 3, -2};
constexpr int64_t kCount = std::size(kNumbersAndNan);
const std::string kNan = "const(f32, [], [0x7fc00000])";

/// maximum(x, other) and minimum(other, x). Constants of one element become immediates of kernels; what is
/// constant alone is folded.
void expect_extrema_as_in_numpy(bool x_is_constant, const std::string& other, const Runner& run) {
  const std::string type = fmt::format("Tensor[({}), f32]", kCount);
  const ConstantPtr x = make_constant({DType::kF32, {kCount}}, kNumbersAndNan);
  const std::string data = x_is_constant ? "@x" : "%x", given = x_is_constant ? "" : "%x: " + type;
  const Graph graph = parse_graph(fmt::format("fn @main({0}) -> ({1}, {1}) {{\n  %0 = maximum({2}{3}, {4})\n"
                                              "  %1 = minimum({4}, {2})\n  return %0, %1\n}}\n",
                                              given, type, data, x_is_constant ? ": " + type : "", other),
                                  op_set(), {{"x", x}});
  const auto results = run(graph, x_is_constant ? std::vector<ConstantPtr>{} : std::vector{x});
  const float against = other == kNan ? NAN : 1;
  for (int64_t i = 0; i < kCount; ++i) {
    const float value = kNumbersAndNan[i];
    const bool nan = std::isnan(value) || std::isnan(against);
    for (const bool is_max : {true, false}) {
      const float actual = results.at(is_max ? 0 : 1)->as<float>()[i];
      const float expected = is_max ? std::max(value, against) : std::min(value, against);
      if (nan)
        EXPECT_TRUE(std::isnan(actual)) << actual << " of " << value << " and " << other;
      else
        EXPECT_EQ(actual, expected) << value << " and " << other;
    }
  }
}

void expect_extrema_as_in_numpy(const Runner& run) {
  for (const std::string& other :
       {std::string("const(f32, [], [1])"), std::string("const(f32, [7], [1, 1, 1, 1, 1, 1, 1])"), kNan})
    for (const bool constant : {false, true}) expect_extrema_as_in_numpy(constant, other, run);
}

// ONNX's Max and Min of the reference are numpy.maximum and numpy.minimum.
TEST(Nan, ExtremaAreNanWhereverAnOperandIsConstantOrNot) {
  for (const int opt_level : {0, 3}) expect_extrema_as_in_numpy(run_here("native", opt_level));
}

TEST(Nan, ExtremaAreNanOnTheEmulatedGpu) {
  expect_extrema_as_in_numpy(run_here(testing::gpu_test_target()));
}

TEST(Nan, ExtremaAreNanOnAnEmulatedBoard) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  expect_extrema_as_in_numpy(run_on_emulated_board());
}

/// Rows of 37 along the last axis and along the first; in each second row an element is NaN, somewhere else in each.
void expect_reductions_to_pass_nan(const std::string& dtype, int64_t axis, const Runner& run) {
  constexpr int64_t kRows = 12, kLength = 37;
  const int64_t rows = axis == 1 ? kRows : kLength, columns = axis == 1 ? kLength : kRows;
  std::string text = fmt::format(
      "fn @main(%x: Tensor[({0}, {1}), f32]) -> (Tensor[({2}), f32], Tensor[({2}), f32]) {{\n  %0 = cast(%x, to={3})\n",
      rows, columns, kRows, dtype);
  for (const char* op : {"max", "min"}) {
    const int first = op == std::string("max") ? 1 : 3;
    text += fmt::format("  %{} = {}(%0, axes=[{}], keepdims=false)\n  %{} = cast(%{}, to=f32)\n", first, op, axis,
                        first + 1, first);
  }
  const Graph graph = parse_graph(text + "  return %2, %4\n}\n", op_set());
  std::vector<float> x;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t kept = axis == 1 ? row : column, along = axis == 1 ? column : row;
      const bool nan = kept % 2 == 0 && along == kept * 3;
      x.push_back(nan ? NAN : static_cast<float>((kept * 7 + along * 5) % 23) - 11);
    }
  }
  const auto results = run(graph, {make_constant({DType::kF32, {rows, columns}}, x.data())});
  for (const ConstantPtr& y : results) {
    for (int64_t i = 0; i < kRows; ++i)
      EXPECT_EQ(std::isnan(y->as<float>()[i]), i % 2 == 0) << dtype << ", axis " << axis << ", row " << i;
  }
}

void expect_reductions_to_pass_nan(const Runner& run) {
  for (const char* dtype : {"f32", "f16"})
    for (const int64_t axis : {0, 1}) expect_reductions_to_pass_nan(dtype, axis, run);
}

// ONNX's ReduceMax and ReduceMin of the reference are numpy.maximum.reduce and numpy.minimum.reduce.
TEST(Nan, PassesReductionsToExtrema) {
  for (const int opt_level : {0, 3}) expect_reductions_to_pass_nan(run_here("native", opt_level));
}

TEST(Nan, PassesReductionsToExtremaOnTheEmulatedGpu) {
  expect_reductions_to_pass_nan(run_here(testing::gpu_test_target()));
}

TEST(Nan, PassesReductionsToExtremaOnAnEmulatedBoard) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  expect_reductions_to_pass_nan(run_on_emulated_board());
}

/// The index that NumPy gives: of the first NaN, or else of the first extreme element; or of the last one.
int64_t extreme_index(const std::vector<float>& row, bool largest, bool last) {
  const auto precedes = [&](float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
    return largest ? a > b : a < b;
  };
  size_t found = 0;
  for (size_t i = 1; i < row.size(); ++i) {
    if (precedes(row[i], row[found]) || (last && !precedes(row[found], row[i]))) found = i;
  }
  return static_cast<int64_t>(found);
}

/// Rows that have NaNs behind and in front of their extremes, nothing else, infinities beside them, or none.
std::vector<std::vector<float>> rows_with_nan(size_t length) {
  std::vector<std::vector<float>> rows(8, std::vector<float>(length));
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < length; ++i) rows[r][i] = static_cast<float>((r * 7 + i * 5) % 23) - 11;
  }
  rows[1][length - 1] = NAN;
  rows[2][0] = NAN;
  rows[3][length / 2] = rows[3][length / 3] = NAN;
  rows[4].assign(length, NAN);
  rows[5][0] = INFINITY, rows[5][1] = -INFINITY, rows[5][length - 2] = NAN;
  rows[6].assign(length, -INFINITY);
  rows[7].assign(length, INFINITY);
  return rows;
}

/// argmax, argmin and hardmax of those rows along the last axis, or along the first.
void expect_indices_of_nan(const std::string& dtype, int64_t axis, size_t length, const Runner& run) {
  const std::vector<std::vector<float>> rows = rows_with_nan(length);
  const auto count = static_cast<int64_t>(rows.size()), along = static_cast<int64_t>(length);
  const int64_t height = axis == 1 ? count : along, width = axis == 1 ? along : count;
  const std::string shape = fmt::format("({}, {})", height, width);
  std::string text = fmt::format(
      "fn @main(%x: Tensor[{0}, f32]) -> (Tensor[({1}), i64], Tensor[({1}), i64], Tensor[({1}), i64], "
      "Tensor[({1}), i64], "
      "Tensor[{0}, f32]) {{\n  %0 = cast(%x, to={2})\n",
      shape, count, dtype);
  int next = 1;
  for (const char* op : {"argmax", "argmin"}) {
    for (const char* last : {"false", "true"})
      text +=
          fmt::format("  %{} = {}(%0, axis={}, keepdims=false, select_last={})\n", next++, op, axis, last);
  }
  text += fmt::format(
      "  %5 = nn.hardmax(%0, axis={})\n  %6 = cast(%5, to=f32)\n  return %1, %2, %3, %4, %6\n}}\n", axis);
  std::vector<float> x(rows.size() * length);
  const auto place = [&](size_t row, size_t i) {
    return axis == 1 ? row * length + i : i * rows.size() + row;
  };
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < length; ++i) x[place(r, i)] = rows[r][i];
  }
  const auto results =
      run(parse_graph(text, op_set()), {make_constant({DType::kF32, {height, width}}, x.data())});
  for (size_t r = 0; r < rows.size(); ++r) {
    for (const size_t which : {0, 1, 2, 3})
      EXPECT_EQ(results.at(which)->as<int64_t>()[r], extreme_index(rows[r], which < 2, which % 2 == 1))
          << dtype << ", axis " << axis << ", row " << r << " of " << length << ", result " << which;
    const auto top = static_cast<size_t>(extreme_index(rows[r], true, false));
    for (size_t i = 0; i < length; ++i)
      EXPECT_EQ(results.at(4)->as<float>()[place(r, i)], i == top ? 1.0f : 0.0f)
          << dtype << ", axis " << axis << ", row " << r << " of " << length << ", element " << i;
  }
}

void expect_indices_of_nan(const Runner& run) {
  for (const char* dtype : {"f32", "f16"}) {
    for (const int64_t axis : {0, 1}) {
      for (const size_t length : {5u, 37u, 64u}) expect_indices_of_nan(dtype, axis, length, run);
    }
  }
}

// ONNX's ArgMax, ArgMin and Hardmax of the reference are by numpy.argmax and numpy.argmin.
TEST(Nan, IsTheExtremeElement) {
  for (const int opt_level : {0, 3}) expect_indices_of_nan(run_here("native", opt_level));
}

TEST(Nan, IsTheExtremeElementOnTheEmulatedGpu) {
  expect_indices_of_nan(run_here(testing::gpu_test_target()));
}

TEST(Nan, IsTheExtremeElementOnAnEmulatedBoard) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  expect_indices_of_nan(run_on_emulated_board());
}

TEST(Nan, PassesActivations) {
  for (const char* target : {"native", "x86-64-v2"}) {
    if (target != std::string("native") && !testing::runs_here(target)) continue;
    expect_activations_to_pass_nan(run_here(target));
  }
}

TEST(Nan, PassesActivationsOnTheEmulatedGpu) {
  expect_activations_to_pass_nan(run_here(testing::gpu_test_target()));
}

TEST(Nan, PassesActivationsOnAnEmulatedBoard) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  expect_activations_to_pass_nan(run_on_emulated_board());
}

}  // namespace
}  // namespace gantry::end_to_end
