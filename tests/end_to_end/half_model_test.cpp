// Models of f16 tensors on CPUs compute in f32: their results are those of the f32 model with the same
// weights, rounded once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "host/ops/op.h"
#include "host/tensor/element.h"
#include "tests/support/compiled_model.h"

namespace gantry {
namespace {

/// A convolution with its activation, a global mean and a product.
std::string network(std::string_view dtype) {
  return fmt::format(
      "fn @main(%x: Tensor[(2, 16, 9, 9), {0}]) -> Tensor[(2, 10), {0}] {{\n"
      "  %0 = nn.conv(%x, @w: Tensor[(32, 16, 3, 3), {0}], channels=32, kernel=[3, 3], strides=[1, 1], "
      "dilations=[1, 1], padding=(1, 1, 1, 1))\n"
      "  %1 = add(%0, @b: Tensor[(32, 1, 1), {0}])\n  %2 = nn.relu(%1)\n"
      "  %3 = mean(%2, axes=[2, 3], keepdims=false)\n"
      "  %4 = nn.dense(%3, @d: Tensor[(32, 10), {0}], units=10)\n  return %4\n}}\n",
      dtype);
}

ConstantPtr converted(const ConstantData& from, DType to) {
  std::byte* bytes = nullptr;
  auto result = allocate_constant({to, from.type.shape}, &bytes);
  const auto step = static_cast<size_t>(byte_width(from.type.dtype)),
             width = static_cast<size_t>(byte_width(to));
  for (size_t i = 0; i < from.size / step; ++i)
    write_float(to, bytes + i * width, read_float(from.type.dtype, from.bytes + i * step));
  return result;
}

class HalfModel : public ::testing::TestWithParam<const char*> {};

TEST_P(HalfModel, ComputesAsTheF32ModelOfTheSameWeightsAndRoundsTheResult) {
  const std::map<std::string, std::vector<int64_t>> shapes{
      {"w", {32, 16, 3, 3}}, {"b", {32, 1, 1}}, {"d", {32, 10}}};
  for (const DType narrow : {DType::kF16, DType::kBF16}) {
    std::map<std::string, ConstantPtr> given, widened;
    uint64_t seed = 1;
    for (const auto& [name, shape] : shapes) {
      given[name] = converted(*testing::random_tensor(DType::kF32, shape, ++seed), narrow);
      widened[name] = converted(*given[name], DType::kF32);
    }
    const ConstantPtr x = converted(*testing::random_tensor(DType::kF32, {2, 16, 9, 9}, 1), narrow);
    const auto result = [&](DType dtype, const std::map<std::string, ConstantPtr>& constants,
                            const ConstantPtr& data) {
      const Graph graph = parse_graph(network(name_of(dtype)), op_set(), constants);
      return testing::LocalModel(testing::compile_to_bytes(graph, {.target = GetParam()})).run({data}).at(0);
    };
    const ConstantPtr actual = result(narrow, given, x);
    const ConstantPtr expected = converted(*result(DType::kF32, widened, converted(*x, DType::kF32)), narrow);
    ASSERT_EQ(actual->type, expected->type);
    EXPECT_EQ(std::memcmp(actual->bytes, expected->bytes, expected->size), 0) << name_of(narrow);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, HalfModel, ::testing::Values("native", "x86-64-v3", "x86-64-v2"));

}  // namespace
}  // namespace gantry
