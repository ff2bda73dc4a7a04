// Transpositions compiled for CPUs and run, against their definition: blocks are turned in registers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "host/ops/op.h"
#include "tests/support/compiled_model.h"

namespace gantry {
namespace {

using testing::runs_here;

/// Elements whose place differs from that of the definition.
template <typename T>
int64_t misplaced(const std::string& target, DType dtype, const std::vector<int64_t>& shape,
                  const std::vector<int64_t>& axes, bool symbolic = false) {
  std::vector<int64_t> result;
  std::vector<std::string> from, to;
  auto text_of = [&](int64_t axis) {
    return symbolic ? fmt::format("S{}", axis) : std::to_string(shape[size_t(axis)]);
  };
  for (size_t i = 0; i < axes.size(); ++i) {
    result.push_back(shape[size_t(axes[i])]);
    from.push_back(text_of(int64_t(i)));
    to.push_back(text_of(axes[i]));
  }
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({0}), {2}]) -> Tensor[({1}), {2}] {{\n"
      "  %y = transpose(%x, axes=[{3}])\n  return %y\n}}\n",
      fmt::join(from, ", "), fmt::join(to, ", "), name_of(dtype), fmt::join(axes, ", "));
  const ConstantPtr x = testing::random_tensor(dtype, shape, 1);
  testing::LocalModel model(testing::compile_to_bytes(parse_graph(text, op_set()), {.target = target}));
  const ConstantPtr y = model.run({x}).at(0);
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
  const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  EXPECT_EQ(y->size, size_t(count) * sizeof(T));
  int64_t wrong = 0;
  for (int64_t at = 0; at < count; ++at) {
    int64_t rest = at, source = 0;
    for (size_t i = result.size(); i-- > 0; rest /= result[i])
      source += rest % result[i] * strides[size_t(axes[i])];
    wrong += y->as<T>()[at] != x->as<T>()[source];
  }
  return wrong;
}

class TransposeOnCpu : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!runs_here(GetParam())) GTEST_SKIP() << "this machine has no " << GetParam();
  }
};

TEST_P(TransposeOnCpu, MovesEveryElement) {
  for (const auto& [shape, axes] : std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{
           {{64, 48}, {1, 0}},
           {{5, 7}, {1, 0}},
           {{2, 19, 37}, {0, 2, 1}},
           {{1, 24, 9, 13}, {0, 2, 3, 1}},
           {{1, 9, 13, 24}, {0, 3, 1, 2}},
           {{3, 4, 16, 6}, {3, 2, 1, 0}},
           {{2, 3, 40}, {2, 0, 1}},
           {{33, 2, 65}, {2, 1, 0}},
       }) {
    EXPECT_EQ(misplaced<float>(GetParam(), DType::kF32, shape, axes), 0)
        << fmt::format("{}", fmt::join(shape, " "));
    EXPECT_EQ(misplaced<int64_t>(GetParam(), DType::kI64, shape, axes), 0)
        << fmt::format("{}", fmt::join(shape, " "));
  }
}

TEST_P(TransposeOnCpu, TakesUnknownExtents) {
  EXPECT_EQ(misplaced<float>(GetParam(), DType::kF32, {21, 50}, {1, 0}, true), 0);
  EXPECT_EQ(misplaced<float>(GetParam(), DType::kF32, {2, 3, 5}, {0, 2, 1}, true), 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, TransposeOnCpu, ::testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4"));

}  // namespace
}  // namespace gantry
