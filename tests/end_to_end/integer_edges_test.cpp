// Integers by 0, the smallest by -1, shifts by the width and more, floats that no integer holds: what ONNX
// leaves undefined must not end the process, and what is defined beside it must be right.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "host/ops/op.h"
#include "tests/end_to_end/networks.h"
#include "tests/support/compiled_model.h"

namespace gantry::end_to_end {
namespace {

using Wide = __int128;

template <typename T>
constexpr DType kTypeOf = std::is_same_v<T, int8_t>     ? DType::kI8
                          : std::is_same_v<T, int16_t>  ? DType::kI16
                          : std::is_same_v<T, int32_t>  ? DType::kI32
                          : std::is_same_v<T, int64_t>  ? DType::kI64
                          : std::is_same_v<T, uint8_t>  ? DType::kU8
                          : std::is_same_v<T, uint16_t> ? DType::kU16
                          : std::is_same_v<T, uint32_t> ? DType::kU32
                                                        : DType::kU64;

template <typename T>
std::vector<T> edges() {
  using Limits = std::numeric_limits<T>;
  constexpr int kBits = static_cast<int>(8 * sizeof(T));
  return {Limits::min(),
          static_cast<T>(Limits::min() + 1),
          static_cast<T>(-7),
          static_cast<T>(-1),
          0,
          1,
          2,
          7,
          static_cast<T>(kBits - 1),
          static_cast<T>(kBits),
          static_cast<T>(kBits + 1),
          Limits::max()};
}

constexpr const char* kOps[] = {"divide({}, {})", "mod({}, {}, fmod=false)", "mod({}, {}, fmod=true)",
                                "shift_left({}, {})", "shift_right({}, {})"};

/// The result of kOps[op]; nothing where ONNX leaves it open.
template <typename T>
std::optional<T> expected(size_t op, T a, T b) {
  constexpr int kBits = static_cast<int>(8 * sizeof(T));
  const Wide x = a, y = b;
  const bool inside = y >= 0 && y < kBits;
  if (op >= 3 && !inside) return static_cast<T>(op == 4 && x < 0 ? -1 : 0);
  if (op == 3)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(x * (Wide{1} << static_cast<int>(y))));
  if (op == 4) return static_cast<T>(x >> static_cast<int>(y));
  if (y == 0) return std::nullopt;
  if (op == 0) {
    const Wide quotient = x / y;
    return quotient == static_cast<T>(quotient) ? std::optional(static_cast<T>(quotient)) : std::nullopt;
  }
  const Wide remainder = x % y;
  const bool wraps = op == 1 && remainder != 0 && (remainder < 0) != (y < 0);
  return static_cast<T>(wraps ? remainder + y : remainder);
}

/// One operand: its data, and whether it is a constant of the graph.
struct Operand {
  ConstantPtr data;
  bool constant = false;
};
template <typename T>
Operand operand(const std::vector<T>& values, const Shape& shape, bool constant) {
  return {make_constant({kTypeOf<T>, shape}, values.data()), constant};
}

/// All of kOps; `shape`: of the results.
std::vector<ConstantPtr> results_of(const Operand& a, const Operand& b, const Shape& shape,
                                    const Runner& run) {
  const std::string type = TensorType{a.data->type.dtype, shape}.str();
  std::string parameters, nodes, types, names;
  std::map<std::string, ConstantPtr> constants;
  std::vector<ConstantPtr> inputs;
  const auto place = [&](const char* name, const Operand& one) {
    if (one.constant) {
      constants[name] = one.data;
      return fmt::format("@{}: {}", name, one.data->type.str());
    }
    parameters += fmt::format("{}%{}: {}", parameters.empty() ? "" : ", ", name, one.data->type.str());
    inputs.push_back(one.data);
    return fmt::format("%{}", name);
  };
  std::string x = place("x", a), y = place("y", b);
  for (size_t i = 0; i < std::size(kOps); ++i) {
    nodes += fmt::format("  %{} = {}\n", i, fmt::format(fmt::runtime(kOps[i]), x, y));
    types += (i == 0 ? "" : ", ") + type;
    names += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    x = x.substr(0, x.find(':')), y = y.substr(0, y.find(':'));  // the type stands with the first mention
  }
  const std::string text =
      fmt::format("fn @main({}) -> ({}) {{\n{}  return {}\n}}\n", parameters, types, nodes, names);
  return run(parse_graph(text, op_set(), constants), inputs);
}

template <typename T>
void expect_results(const std::vector<ConstantPtr>& results, const std::vector<T>& a, const std::vector<T>& b,
                    const std::string& what) {
  for (size_t op = 0; op < std::size(kOps); ++op) {
    for (size_t i = 0; i < a.size(); ++i) {
      const std::optional<T> wanted = expected(op, a[i], b[i]);
      if (!wanted) continue;
      EXPECT_EQ(+results.at(op)->as<T>()[i], +*wanted)
          << kOps[op] << " of " << +a[i] << " and " << +b[i] << ", " << name_of(kTypeOf<T>) << ", " << what;
    }
  }
}

template <typename T>
void expect_edges(const Runner& run) {
  const std::vector<T> values = edges<T>();
  const auto n = static_cast<int64_t>(values.size());
  std::vector<T> a, b;
  for (const T x : values) {
    for (const T y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      const std::string constant = fmt::format("constant: {} {}", first, second);
      expect_results(results_of(operand(a, {n * n}, first), operand(b, {n * n}, second), {n * n}, run), a, b,
                     "vectors, " + constant);
      expect_results(results_of(operand(values, {n, 1}, first), operand(values, {1, n}, second), {n, n}, run),
                     a, b, "broadcast, " + constant);
    }
  }
  for (const bool constant : {false, true}) {
    for (const T y : {static_cast<T>(0), static_cast<T>(-1), static_cast<T>(8 * sizeof(T))}) {
      expect_results(results_of(operand(values, {n}, false), operand<T>({y}, {}, constant), {n}, run), values,
                     std::vector<T>(values.size(), y), "by a scalar");
      const T least = std::numeric_limits<T>::min();
      expect_results(results_of(operand<T>({least}, {}, constant), operand<T>({y}, {}, constant), {}, run),
                     std::vector<T>{least}, std::vector<T>{y}, "of scalars");
    }
  }
}

void expect_edges_of_all(const Runner& run) {
  expect_edges<int8_t>(run);
  expect_edges<uint8_t>(run);
  expect_edges<int16_t>(run);
  expect_edges<uint16_t>(run);
  expect_edges<int32_t>(run);
  expect_edges<uint32_t>(run);
  expect_edges<int64_t>(run);
  expect_edges<uint64_t>(run);
}

TEST(IntegerEdges, DoNotTrap) {
  expect_edges_of_all(run_here());
}

TEST(IntegerEdges, DoNotTrapInUnoptimisedCode) {
  const Runner run = run_here("native", 0);
  expect_edges<uint8_t>(run);
  expect_edges<int64_t>(run);
}

TEST(IntegerEdges, DoNotTrapOnOlderProcessors) {
  if (!testing::runs_here("x86-64-v2")) GTEST_SKIP() << "this is no x86-64";
  expect_edges<int8_t>(run_here("x86-64-v2"));
  expect_edges<int64_t>(run_here("x86-64-v2"));
}

TEST(IntegerEdges, DoNotTrapOnTheEmulatedGpu) {
  const Runner run = run_here(testing::gpu_test_target());
  expect_edges<uint8_t>(run);
  expect_edges<int64_t>(run);
}

TEST(IntegerEdges, DoNotTrapOnAnEmulatedBoard) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  expect_edges<int32_t>(run_on_emulated_board());
}

/// Casts saturate, and NaN becomes 0.
template <typename T>
void expect_saturation(bool constant, const Runner& run) {
  const std::vector<float> x{NAN, INFINITY, -INFINITY, 1e30f, -1e30f, -1.5f, 3.75f, -0.0f, NAN};
  using Limits = std::numeric_limits<T>;
  const T most = Limits::max(), least = Limits::min(),
          below = std::is_signed_v<T> ? static_cast<T>(-1) : T{0};
  const std::vector<T> wanted{0, most, least, most, least, below, 3, 0, 0};
  const auto n = static_cast<int64_t>(x.size());
  const ConstantPtr data = make_constant({DType::kF32, {n}}, x.data());
  const std::string type = data->type.str();
  const Graph graph =
      parse_graph(fmt::format("fn @main({}) -> {} {{\n  %0 = cast({}, to={})\n  return %0\n}}\n",
                              constant ? "" : "%x: " + type, TensorType{kTypeOf<T>, {n}}.str(),
                              constant ? "@x: " + type : "%x", name_of(kTypeOf<T>)),
                  op_set(), {{"x", data}});
  const ConstantPtr y = run(graph, constant ? std::vector<ConstantPtr>{} : std::vector{data}).at(0);
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(+y->as<T>()[i], +wanted[i])
        << x[i] << " as " << name_of(kTypeOf<T>) << ", constant: " << constant;
}

TEST(IntegerEdges, FloatsThatNoIntegerHoldsSaturate) {
  const Runner run = run_here();
  for (const bool constant : {false, true}) {
    expect_saturation<int8_t>(constant, run);
    expect_saturation<uint8_t>(constant, run);
    expect_saturation<int16_t>(constant, run);
    expect_saturation<uint16_t>(constant, run);
    expect_saturation<int32_t>(constant, run);
    expect_saturation<uint32_t>(constant, run);
    expect_saturation<int64_t>(constant, run);
    expect_saturation<uint64_t>(constant, run);
  }
}

TEST(IntegerEdges, RemaindersByNegativeNumbersAreNegative) {
  const int64_t numbers[] = {5, 4, 3, 2}, divisors[] = {-3, -3, 3, -7};
  const Shape shape{4};
  const std::vector<ConstantPtr> inputs{make_constant({DType::kI64, shape}, numbers),
                                        make_constant({DType::kI64, shape}, divisors)};
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(4), i64], %y: Tensor[(4), i64]) -> (Tensor[(4), bool], Tensor[(4), i64]) {\n"
      "  %0 = mod(%x, const(i64, [], [-3]))\n  %1 = equal(%0, const(i64, [], [-1]))\n"
      "  %2 = mod(%x, %y)\n  %3 = maximum(%2, const(i64, [], [-2]))\n  return %1, %3\n}\n",
      op_set());
  for (const int opt_level : {0, 3}) {
    const auto results = run_here("native", opt_level)(graph, inputs);
    const auto* equal = results.at(0)->as<uint8_t>();
    const auto* clipped = results.at(1)->as<int64_t>();
    EXPECT_EQ(std::vector<int>(equal, equal + 4), (std::vector<int>{1, 0, 0, 1}));
    EXPECT_EQ(std::vector<int64_t>(clipped, clipped + 4), (std::vector<int64_t>{-1, -2, 0, -2}));
  }
}

TEST(IntegerEdges, MeansOfNoIntegersDoNotTrap) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(3, N), i32]) -> Tensor[(3), i32] {\n"
      "  %0 = mean(%x, axes=[1], keepdims=false)\n  return %0\n}\n",
      op_set());
  const int32_t unread = 0, numbers[] = {1, 4, -5, -2, 7, 9};
  for (const int opt_level : {0, 3}) {
    const Runner run = run_here("native", opt_level);
    EXPECT_EQ(run(graph, {make_constant({DType::kI32, {3, 0}}, &unread)}).at(0)->size, 3 * sizeof(int32_t));
    const ConstantPtr y = run(graph, {make_constant({DType::kI32, {3, 2}}, numbers)}).at(0);
    EXPECT_EQ(std::vector<int32_t>(y->as<int32_t>(), y->as<int32_t>() + 3), (std::vector<int32_t>{2, -3, 8}));
  }
}

}  // namespace
}  // namespace gantry::end_to_end
