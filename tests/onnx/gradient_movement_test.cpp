// The derivatives of ops that move, read and write elements against central differences in float64.
#include "tests/onnx/differentiated.h"

namespace gantry {
namespace {

using namespace differentiated;  // NOLINT
using model_text::integer;
using model_text::node;

Tensor64 any(std::vector<int64_t> shape, uint64_t seed = 1) {
  return between(-2, 2, std::move(shape), seed);
}

TEST(GradientOf, ReshapesAndTranspositions) {
  const Inputs64 x{{"x", any({2, 3, 4})}};
  expect_gradients(integers("s", {4, -1}) + node("Reshape", "x s", "t"), x);
  expect_gradients(node("Transpose", "x", "t", list("perm", "2, 0, 1")), x);
  expect_gradients(node("Flatten", "x", "t"), x);
  expect_gradients(integers("axes", {1, -1}) + node("Unsqueeze", "x axes", "t"), x);
  expect_gradients(integers("axes", {1}) + node("Squeeze", "x axes", "t"), {{"x", any({2, 1, 3})}});
  expect_gradients(node("DepthToSpace", "x", "t", integer("blocksize", 2)), {{"x", any({1, 8, 1, 2})}});
  expect_gradients(node("DepthToSpace", "x", "t", integer("blocksize", 2) + text("mode", "CRD")),
                   {{"x", any({1, 8, 1, 2})}});
  expect_gradients(node("SpaceToDepth", "x", "t", integer("blocksize", 2)), {{"x", any({1, 2, 2, 4})}});
}

TEST(GradientOf, WhatIsRepeated) {
  expect_gradients(integers("s", {2, 3, 4}) + node("Expand", "x s", "t"), {{"x", any({3, 1})}});
  expect_gradients(integers("r", {2, 3}) + node("Tile", "x r", "t"), {{"x", any({2, 2})}});
}

TEST(GradientOf, Parts) {
  expect_gradients(node("Concat", "a b a", "t", integer("axis", 1)),
                   {{"a", any({2, 2})}, {"b", any({2, 3}, 2)}});
  // Of one part nothing is used, and of another only some.
  expect_gradients(integers("n", {2, 1, 3}) + node("Split", "x n", "p q r", integer("axis", 1)) +
                       node("ReduceMean", "r", "m") + node("Mul", "p m", "t"),
                   {{"x", any({2, 6})}});
  const auto slice = [](const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
                        const std::vector<int64_t>& steps) {
    expect_gradients(integers("b", starts) + integers("e", ends) + integers("a", {0, 1}) +
                         integers("s", steps) + node("Slice", "x b e a s", "t"),
                     {{"x", any({4, 5})}});
  };
  slice({1, 0}, {3, 5}, {1, 1});
  slice({0, 1}, {4, 5}, {2, 3});
  slice({-1, 3}, {-5, 0}, {-1, -2});
  expect_gradients(node("Trilu", "x", "t", integer("upper", 0)), {{"x", any({3, 4})}});
}

TEST(GradientOf, Padding) {
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    SCOPED_TRACE(mode);
    expect_gradients(integers("p", {1, 2, 0, 1}) + node("Pad", "x p", "t", text("mode", mode)),
                     {{"x", any({2, 4})}});
  }
}

TEST(GradientOf, Gathers) {
  const Inputs64 x{{"x", any({3, 4})}};
  for (const int64_t axis : {0, 1}) {
    const std::string along = integer("axis", axis);
    expect_gradients(integers("i", {2, 2}, {0, 2, -1, 0}) + node("Gather", "x i", "t", along), x);
    expect_gradients(integers("i", {}, {1}) + node("Gather", "x i", "t", along), x);
    expect_gradients(integers("i", {2, 3}, {0, 2, -1, 0, 0, 1}) + node("GatherElements", "x i", "t", along),
                     x);
  }
  expect_gradients(integers("i", {3, 2}, {0, 1, 2, 3, 0, 1}) + node("GatherND", "x i", "t"), x);
  expect_gradients(integers("i", {2, 1}, {1, 0}) + node("GatherND", "x i", "t"), x);
  expect_gradients(
      integers("i", {2, 2, 1}, {1, 0, 2, 2}) + node("GatherND", "x i", "t", integer("batch_dims", 1)),
      {{"x", any({2, 3, 2})}});
}

TEST(GradientOf, Scatters) {
  for (const char* reduction : {"none", "add"}) {
    SCOPED_TRACE(reduction);
    const std::string rest = text("reduction", reduction);
    // Two updates meet in one element: without a sum the last one wins.
    expect_gradients(integers("i", {2, 2}, {0, 2, 0, 1}) + node("ScatterElements", "x i u", "t", rest),
                     {{"x", any({3, 3})}, {"u", any({2, 2}, 2)}});
    expect_gradients(integers("i", {3, 1}, {1, 0, 1}) + node("ScatterND", "x i u", "t", rest),
                     {{"x", any({3, 2})}, {"u", any({3, 2}, 2)}});
  }
}

TEST(GradientOf, SortedAndReversedRows) {
  expect_gradients(integers("k", {2}) + node("TopK", "x k", "t i", integer("axis", 0)), {{"x", any({4, 3})}});
  expect_gradients(integers("n", {3, 1}) + node("ReverseSequence", "x n", "t",
                                                integer("batch_axis", 1) + integer("time_axis", 0)),
                   {{"x", any({4, 2})}});
}

}  // namespace
}  // namespace gantry
