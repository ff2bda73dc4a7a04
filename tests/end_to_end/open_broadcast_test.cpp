// Operands whose dimensions have different names, compiled once and run where they are equal and where one is
// 1, against NumPy's rules and against the same graph interpreted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <numeric>

#include "host/codegen/find_target.h"
#include "host/support/error.h"
#include "tests/onnx/model_text.h"
#include "tests/support/compiled_model.h"
#include "tests/support/interpreted.h"

namespace gantry::end_to_end {
namespace {

using namespace model_text;  // NOLINT
using ::testing::HasSubstr;
using Sizes = std::vector<int64_t>;

/// The element of `data` that numpy.broadcast_to(data, (rows, columns)) has at a place.
float at(const ConstantPtr& data, int64_t row, int64_t column) {
  const Sizes own = *constant_shape(data->type.shape);
  return data->as<float>()[(own[0] == 1 ? 0 : row) * own[1] + (own[1] == 1 ? 0 : column)];
}

void expect_sum_times_second(testing::LocalModel& model, const Sizes& first, const Sizes& second) {
  SCOPED_TRACE(::testing::PrintToString(first) + " and " + ::testing::PrintToString(second));
  const ConstantPtr a = testing::random_tensor(DType::kF32, first, 1);
  const ConstantPtr b = testing::random_tensor(DType::kF32, second, 2);
  const ConstantPtr y = model.run({a, b}).at(0);
  const int64_t rows = first[0] == 1 ? second[0] : first[0], columns = first[1] == 1 ? second[1] : first[1];
  ASSERT_EQ(*constant_shape(y->type.shape), (Sizes{rows, columns}));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const float expected = std::max(0.0F, at(a, row, column) + at(b, row, column)) * at(b, row, column);
      ASSERT_NEAR(y->as<float>()[row * columns + column], expected, 1e-6) << row << ", " << column;
    }
  }
}

class OpenBroadcast : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<std::byte> compiled(const Graph& graph) const {
    return testing::compile_to_bytes(graph, {.target = GetParam()});
  }
  std::string device() const { return testing::device_for(GetParam()); }
};

TEST_P(OpenBroadcast, OfMatricesIsAsNumPysForAllSizes) {
  const Graph graph =
      imported_graph(open_input("a", "A B") + open_input("b", "C D") + node("Add", "a b", "s") +
                         node("Relu", "s", "r") + node("Mul", "r b", "y"),
                     "y");
  testing::LocalModel model(compiled(graph), 2, device());
  const std::pair<Sizes, Sizes> cases[] = {
      {{5, 40}, {5, 40}}, {{1, 40}, {5, 1}},        {{5, 1}, {1, 40}},      {{5, 40}, {1, 1}},
      {{1, 1}, {7, 33}},  {{1, 1}, {1, 1}},         {{0, 1}, {1, 7}},       {{1, 3}, {0, 3}},
      {{4, 0}, {1, 1}},   {{300, 200}, {300, 200}}, {{300, 200}, {1, 200}}, {{300, 1}, {300, 200}}};
  for (const auto& [first, second] : cases) expect_sum_times_second(model, first, second);
}

TEST_P(OpenBroadcast, OfSizesThatDoNotFitIsRefused) {
  const Graph graph =
      imported_graph(open_input("a", "A 3") + open_input("b", "B 3") + node("Add", "a b", "y"), "y");
  testing::LocalModel model(compiled(graph), 2, device());
  try {
    model.run(
        {testing::random_tensor(DType::kF32, {2, 3}, 1), testing::random_tensor(DType::kF32, {5, 3}, 1)});
    FAIL() << "2 rows and 5 were added";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is 2, must be 1 or 5"));
    EXPECT_THAT(error.what(), HasSubstr("is 5, must be 1 or 2"));
  }
}

TEST_P(OpenBroadcast, ExpandsToAShapeThatIsData) {
  const Graph graph = imported_graph(
      open_input("x", "H W") + open_input("s", "2", 7) + node("Expand", "x s", "e") + node("Neg", "e", "y"),
      "y");
  testing::LocalModel model(compiled(graph), 2, device());
  struct Case {
    Sizes own, asked, result;
  };
  const auto run = [&](const ConstantPtr& x, const Sizes& asked) {
    return model.run({x, make_constant({DType::kI64, {2}}, asked.data())}).at(0);
  };
  for (const Case& c :
       {Case{{2, 3}, {2, 3}, {2, 3}}, Case{{1, 30}, {4, 1}, {4, 30}}, Case{{2, 1}, {1, 50}, {2, 50}},
        Case{{0, 1}, {1, 2}, {0, 2}}, Case{{1, 1}, {0, 3}, {0, 3}}}) {
    SCOPED_TRACE(::testing::PrintToString(c.own) + ::testing::PrintToString(c.asked));
    const ConstantPtr x = testing::random_tensor(DType::kF32, c.own, 3), y = run(x, c.asked);
    ASSERT_EQ(*constant_shape(y->type.shape), c.result);
    for (int64_t row = 0; row < c.result[0]; ++row) {
      for (int64_t column = 0; column < c.result[1]; ++column)
        ASSERT_EQ(y->as<float>()[row * c.result[1] + column], -at(x, row, column));
    }
  }
  try {
    run(testing::random_tensor(DType::kF32, {2, 3}, 3), {3, 3});
    FAIL() << "2 rows were expanded to 3";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("must be equal, or one of them 1"));
    EXPECT_THAT(error.what(), HasSubstr(", but H is 2, s.0 is 3"));
  }
}

/// softmax(q k^T + mask) v, the mask of dimensions of its own.
TEST_P(OpenBroadcast, OfAMaskLeavesAttentionRight) {
  const Graph graph =
      imported_graph(open_input("q", "B 2 L 16") + open_input("k", "B 2 16 S") + open_input("v", "B 2 S 16") +
                         open_input("mask", "masks 1 1 masked") + node("MatMul", "q k", "p") +
                         node("Add", "p mask", "m") + node("Softmax", "m", "w") + node("MatMul", "w v", "y"),
                     "y");
  testing::LocalModel model(compiled(graph), 2, device());
  const std::pair<int64_t, int64_t> masks[] = {{3, 24}, {1, 24}, {3, 1}, {1, 1}};
  for (const auto& [count, length] : masks) {
    SCOPED_TRACE(::testing::Message() << count << " masks of " << length);
    const std::vector<ConstantPtr> inputs = {testing::random_tensor(DType::kF32, {3, 2, 9, 16}, 1),
                                             testing::random_tensor(DType::kF32, {3, 2, 16, 24}, 2),
                                             testing::random_tensor(DType::kF32, {3, 2, 24, 16}, 3),
                                             testing::random_tensor(DType::kF32, {count, 1, 1, length}, 4)};
    const ConstantPtr expected = testing::interpret_function(graph.main, inputs).at(0);
    EXPECT_LE(testing::relative_error(*model.run(inputs).at(0), *expected), 1e-4);
  }
}

ModuleFile module_of(const Graph& graph, Optimize optimize = Optimize::kSpeed) {
  CompileOptions options;
  options.targets = {find_target("native")};
  options.optimize = optimize;
  return compile_graph(graph, options);
}

size_t kernels_of(const ModuleFile& module, size_t variant) {
  return module.manifest.variants.at(variant)->kernels.size();
}

const std::string kMasked = node("MatMul", "q k", "p") + node("Add", "p mask", "m") +
                            node("Softmax", "m", "w") + node("MatMul", "w v", "y");

TEST(UsualSizes, HaveAProgramThatIsAsIfDimensionsHadOneName) {
  const std::string operands =
      open_input("q", "B 2 L 16") + open_input("k", "B 2 16 S") + open_input("v", "B 2 S 16");
  const ModuleFile open =
      module_of(imported_graph(operands + open_input("mask", "masks 1 1 masked") + kMasked, "y"));
  const ModuleFile named = module_of(imported_graph(operands + open_input("mask", "B 1 1 S") + kMasked, "y"));
  ASSERT_EQ(named.manifest.variants.size(), 1u);
  ASSERT_EQ(open.manifest.variants.size(), 2u);
  EXPECT_TRUE(open.manifest.variants[0]->equal.empty()) << "the one for all sizes stands first";
  EXPECT_EQ(open.manifest.variants[1]->equal.size(), 2u);
  EXPECT_EQ(kernels_of(open, 1), kernels_of(named, 0));
  EXPECT_THAT(open.manifest.requires_, ::testing::Contains("equal-sizes"));
}

TEST(UsualSizes, MayBeSumsOfOthers) {
  const Graph graph =
      imported_graph(open_input("past", "B P") + open_input("now", "B L") + open_input("mask", "B T") +
                         node("Concat", "past now", "all", integer("axis", 1)) + node("Add", "all mask", "y"),
                     "y");
  ModuleFile module = module_of(graph);
  ASSERT_EQ(module.manifest.variants.size(), 2u);
  EXPECT_EQ(module.manifest.variants[1]->equal.size(), 1u);
  testing::LocalModel model(serialize_module(module));
  for (const auto& [past, now, mask] :
       std::vector<std::array<int64_t, 3>>{{3, 2, 5}, {3, 2, 1}, {0, 1, 4}, {1, 0, 1}}) {
    SCOPED_TRACE(::testing::Message() << past << " + " << now << ", " << mask);
    const std::vector<ConstantPtr> inputs = {testing::random_tensor(DType::kF32, {2, past}, 1),
                                             testing::random_tensor(DType::kF32, {2, now}, 2),
                                             testing::random_tensor(DType::kF32, {2, mask}, 3)};
    const ConstantPtr y = model.run(inputs).at(0),
                      expected = testing::interpret_function(graph.main, inputs).at(0);
    EXPECT_LE(testing::relative_error(*y, *expected), 1e-6);
  }
}

TEST(UsualSizes, HaveNoProgramWhereSizeCounts) {
  const Graph graph =
      imported_graph(open_input("a", "A") + open_input("b", "B") + node("Add", "a b", "y"), "y");
  EXPECT_EQ(module_of(graph).manifest.variants.size(), 2u);
  EXPECT_EQ(module_of(graph, Optimize::kSize).manifest.variants.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Targets, OpenBroadcast, ::testing::Values("native", "cuda-emulated"),
                         [](const auto& target) {
                           return std::string(target.param) == "native" ? "Native" : "EmulatedGpu";
                         });

}  // namespace
}  // namespace gantry::end_to_end
